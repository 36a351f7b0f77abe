//! The HTML page: one file, safe, with all numbers and readable colours; and the terminal's width.

use crate::fixtures::{results, second};
use gigae_eval_report::{html, markdown};

pub(crate) fn the_page_is_one_small_file_that_needs_no_network() {
    let page = html::page(&results());
    for page in [&page, &html::page(&second())] {
        assert!(page.len() < 500_000, "{} bytes", page.len());
        for word in ["http:", "https:", "url(", "@import", "src=", "<link rel=\"stylesheet"] {
            assert!(!page.contains(word), "the page has {word}");
        }
        assert_eq!(page.matches("<script").count(), 1);
    }
    for word in [
        "viewport",
        "prefers-color-scheme",
        "<svg",
        "GigaE PM II",
        "87.2 %",
        "109.6 %",
        "1.65x",
        "3.13x",
    ] {
        assert!(page.contains(word), "the page lacks {word}");
    }
}

pub(crate) fn the_page_is_a_pure_function_of_the_results() {
    assert_eq!(html::page(&results()), html::page(&results()));
    assert_eq!(markdown::page(&results()), markdown::page(&results()));
}

pub(crate) fn hostile_text_in_the_results_stays_text() {
    let evil = "</style><script>alert(1)</script>\"'|\u{1b}[31m";
    let mut results = results();
    results.plan.name = evil.into();
    results.plan.about = evil.into();
    results.environment.cpu = evil.into();
    results.environment.command = evil.into();
    results.environment.link[0].local.nic = serde_json::json!({ evil: evil });
    results.environment.link[0].local.offloads = serde_json::json!({ evil: evil });
    results.series[0].transport = evil.into();
    results.series[0].note = Some(evil.to_owned().into());
    results.series[0].doubts = vec![evil.into()];
    results.doubts = vec![evil.into()];
    let page = html::page(&results);
    assert!(page.matches("<script").count() == 1 && !page.contains("\u{1b}"));
    assert_eq!(page.matches("</style>").count(), 1);
    let text = markdown::page(&results);
    assert!(!text.contains("<script") && !text.contains('\u{1b}'));
}

pub(crate) fn every_chart_has_its_numbers_and_commands() {
    for results in [results(), second()] {
        let page = html::page(&results);
        let figures: Vec<&str> = page
            .split("<figure>")
            .skip(1)
            .filter_map(|part| part.split("</figure>").next())
            .collect();
        assert!(!figures.is_empty());
        for figure in figures {
            let [tables, folded] =
                ["<table", "<summary>"].map(|element| figure.matches(element).count());
            assert_eq!((tables, folded), (1, 2), "{figure}");
            // One for all lines, and at least one more.
            let commands = figure.matches("<code class=\"command\">gigae eval --plan").count();
            assert!(commands >= 2, "{figure}");
        }
    }
}

/// WCAG 2.2: ratio of contrast of two colours.
fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour: &str| {
        let digits: String = match colour.len() {
            4 => colour[1..].chars().flat_map(|digit| [digit, digit]).collect(),
            _ => colour[1..].to_owned(),
        };
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    };
    let (one, other) = (light(one), light(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

pub(crate) fn colours_contrast_with_what_is_behind_them() {
    assert!((contrast("#000", "#ffffff") - 21.0).abs() < 1e-9);
    let page = html::page(&results());
    // Of the light page and of the dark one.
    let palettes: Vec<std::collections::HashMap<&str, &str>> = page
        .split(":root{")
        .skip(1)
        .map(|part| {
            let colours = part.split('}').next().unwrap().split([';', '\n']);
            colours.filter_map(|one| one.trim().strip_prefix("--")?.split_once(':')).collect()
        })
        .collect();
    assert_eq!(palettes.len(), 2);
    for colours in palettes {
        let lines: Vec<String> = (0..8).map(|line| format!("c{line}")).collect();
        let names = ["ink", "soft"].into_iter().chain(lines.iter().map(String::as_str));
        for (name, behind) in names.flat_map(|name| ["bg", "card"].map(|behind| (name, behind))) {
            let ratio = contrast(colours[name], colours[behind]);
            assert!(ratio >= 4.5, "{name} on {behind}: {ratio:.2}");
        }
        for name in ["ink", "soft", "warn"] {
            let ratio = contrast(colours[name], colours["warnbg"]);
            assert!(ratio >= 4.5, "{name} on warnbg: {ratio:.2}");
        }
    }
}

pub(crate) fn every_doubt_is_shown() {
    let results = results();
    let page = html::page(&results);
    for series in &results.series {
        for doubt in &series.doubts {
            let code = doubt.code.as_ref().unwrap();
            assert!(page.contains(&format!("<li>{code}:")), "{doubt}");
        }
    }
}

pub(crate) fn the_terminal_needs_no_more_than_a_hundred_columns() {
    let text = gigae_eval_report::text::summary(&results(), false);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
    assert!(!text.contains('\u{1b}'), "colours without being asked for");
}
