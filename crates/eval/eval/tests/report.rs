//! The reports of a real run's results, and a look at the page in a real browser.

use gigae_eval::plan::{Experiment, Plan};
use gigae_eval::report::{asked, compare, found, html, markdown, sweeps, tables};
use gigae_eval::results::{Results, Series, Verdict};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of version 1, with most of what there is to show.
const FIXTURE: &str = include_str!("fixtures/results.json");

/// Of version 2: conditions, papers and findings.
const SECOND: &str = include_str!("fixtures/results-2.json");

/// Narrowest screen on which nothing may stick out.
const PHONE: u32 = 360;

fn results() -> Results {
    Results::parse(FIXTURE).unwrap()
}

fn main() {
    let arguments = Arguments::from_args();
    let plain: &[(&str, fn())] = &[
        ("the_fixtures_fit_their_schemas", the_fixtures_fit_their_schemas),
        (
            "results_of_every_version_are_read_as_those_of_this_one",
            results_of_every_version_are_read_as_those_of_this_one,
        ),
        ("the_fixture_is_of_the_plan_beside_it", the_fixture_is_of_the_plan_beside_it),
        ("results_read_back_are_what_was_written", results_read_back_are_what_was_written),
        ("another_schema_is_refused", another_schema_is_refused),
        (
            "the_page_is_one_small_file_that_needs_no_network",
            the_page_is_one_small_file_that_needs_no_network,
        ),
        ("the_page_is_a_pure_function_of_the_results", the_page_is_a_pure_function_of_the_results),
        ("hostile_text_in_the_results_stays_text", hostile_text_in_the_results_stays_text),
        ("the_papers_ratios_stand_beside_ours", the_papers_ratios_stand_beside_ours),
        (
            "what_follows_and_what_papers_printed_stand_in_every_report",
            what_follows_and_what_papers_printed_stand_in_every_report,
        ),
        ("a_papers_figure_finds_the_nearest_cell", a_papers_figure_finds_the_nearest_cell),
        (
            "sweeps_over_rate_and_buffer_are_drawn_with_the_bandwidth_delay_product",
            sweeps_over_rate_and_buffer_are_drawn_with_the_bandwidth_delay_product,
        ),
        (
            "the_same_figures_lead_to_the_same_sentences",
            the_same_figures_lead_to_the_same_sentences,
        ),
        ("printed_figures_stand_in_the_charts_too", printed_figures_stand_in_the_charts_too),
        ("every_chart_has_its_numbers_and_commands", every_chart_has_its_numbers_and_commands),
        (
            "colours_can_be_told_from_what_is_behind_them",
            colours_can_be_told_from_what_is_behind_them,
        ),
        ("every_doubt_is_shown", every_doubt_is_shown),
        (
            "every_figure_is_shown_with_its_verdict_in_every_report",
            every_figure_is_shown_with_its_verdict_in_every_report,
        ),
        ("a_figure_that_is_missing_says_why", a_figure_that_is_missing_says_why),
        ("several_runs_show_median_and_range", several_runs_show_median_and_range),
        (
            "the_papers_tables_stand_beside_rows_and_memory",
            the_papers_tables_stand_beside_rows_and_memory,
        ),
        (
            "loss_idle_and_small_messages_have_their_figures",
            loss_idle_and_small_messages_have_their_figures,
        ),
        (
            "results_from_before_figures_can_still_be_read",
            results_from_before_figures_can_still_be_read,
        ),
        (
            "the_terminal_needs_no_more_than_a_hundred_columns",
            the_terminal_needs_no_more_than_a_hundred_columns,
        ),
    ];
    let mut trials: Vec<Trial> = plain
        .iter()
        .map(|&(name, test)| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        })
        .collect();
    type Look = fn(&Path);
    let looks: &[(&str, Look)] = &[
        (
            "a_browser_shows_figures_and_legends_without_an_error",
            a_browser_shows_figures_and_legends_without_an_error,
        ),
        ("nothing_sticks_out_on_a_phone", nothing_sticks_out_on_a_phone),
        ("a_browser_can_draw_the_page_light_and_dark", a_browser_can_draw_the_page_light_and_dark),
    ];
    for &(name, test) in looks {
        trials.push(Trial::ignorable_test(name, move || match chromium() {
            Some(browser) => {
                test(&browser);
                Ok(Completion::Completed)
            }
            None if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) => {
                Err(Failed::from("no chromium; install it or set CHROMIUM"))
            }
            None => Ok(Completion::ignored_with("no chromium; install it or set CHROMIUM")),
        }));
    }
    libtest_mimic::run(&arguments, trials).exit()
}

const SCHEMAS: [(&str, &str); 2] = [
    (FIXTURE, include_str!("../schema/gigae.eval.1.json")),
    (SECOND, include_str!("../schema/gigae.eval.2.json")),
];

fn the_fixtures_fit_their_schemas() {
    for (text, schema) in SCHEMAS {
        let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        // And the schema is no rubber stamp.
        let mut spoiled = value.clone();
        spoiled["series"][0]["wait"] = "doze".into();
        assert!(!validator.is_valid(&spoiled));
        let mut short = value;
        short["series"][0].as_object_mut().unwrap().remove("ci95");
        assert!(!validator.is_valid(&short));
    }
}

fn results_of_every_version_are_read_as_those_of_this_one() {
    let (_, present) = SCHEMAS[SCHEMAS.len() - 1];
    let validator = jsonschema::validator_for(&serde_json::from_str(present).unwrap()).unwrap();
    for (text, _) in SCHEMAS {
        let mut results = Results::parse(text).unwrap();
        assert_eq!(results.schema, gigae_eval::results::SCHEMA);
        // As with --tui.
        results.environment.live_view = Some(0.0025);
        let again = serde_json::to_value(&results).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&again).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert!(!html::page(&results).is_empty());
        assert!(markdown::page(&results).contains("0.25 % of a CPU"));
    }
}

fn the_fixture_is_of_the_plan_beside_it() {
    let plan = Plan::parse("fixture", include_str!("fixtures/plan.toml")).unwrap();
    let json = |plan: &Plan| serde_json::to_value(plan).unwrap();
    assert_eq!(json(&results().plan), json(&plan));
    let plan = Plan::parse("fixture", include_str!("fixtures/plan-2.toml")).unwrap();
    assert_eq!(json(&second().plan), json(&plan));
}

fn results_read_back_are_what_was_written() {
    assert_eq!(Results::parse(SECOND).unwrap().to_json(), SECOND);
}

fn another_schema_is_refused() {
    let error = Results::parse(&FIXTURE.replace("gigae.eval/1", "gigae.eval/9")).unwrap_err();
    assert!(error.contains("gigae.eval/9"), "{error}");
    assert!(Results::parse("{}").is_err());
}

fn the_page_is_one_small_file_that_needs_no_network() {
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

fn the_page_is_a_pure_function_of_the_results() {
    assert_eq!(html::page(&results()), html::page(&results()));
    assert_eq!(markdown::page(&results()), markdown::page(&results()));
}

fn hostile_text_in_the_results_stays_text() {
    let evil = "</style><script>alert(1)</script>\"'|\u{1b}[31m";
    let mut results = results();
    results.plan.name = evil.into();
    results.plan.about = evil.into();
    results.environment.cpu = evil.into();
    results.environment.command = evil.into();
    results.environment.link[0].local.nic = serde_json::json!({ evil: evil });
    results.environment.link[0].local.offloads = serde_json::json!({ evil: evil });
    results.series[0].transport = evil.into();
    results.series[0].note = Some(evil.into());
    results.series[0].doubts = vec![evil.into()];
    results.doubts = vec![evil.into()];
    let page = html::page(&results);
    assert!(page.matches("<script").count() == 1 && !page.contains("\u{1b}"));
    assert_eq!(page.matches("</style>").count(), 1);
    let text = markdown::page(&results);
    assert!(!text.contains("<script") && !text.contains('\u{1b}'));
}

fn second() -> Results {
    Results::parse(SECOND).unwrap()
}

fn what_follows_and_what_papers_printed_stand_in_every_report() {
    let results = second();
    let said = found::findings(&results);
    let papers = found::paper_table(&results).unwrap();
    assert!(said.len() > 5 && papers.rows.len() == 4, "{said:?} {papers:?}");
    let pages = [
        html::page(&results),
        markdown::page(&results),
        gigae_eval::terminal::summary(&results, false),
    ];
    // Escaping and line breaks are the report's.
    let plain = |text: &str| {
        let text = text.replace("&#39;", "'").replace('\\', "");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for page in pages.map(|page| plain(&page)) {
        for sentence in said.iter().flat_map(|finding| finding.here.iter().chain(&finding.there)) {
            assert!(page.contains(&plain(sentence)), "'{sentence}' is not in the page");
        }
        assert!(page.contains("Beside the papers") && page.contains("3.70 calls/frame"));
    }
    let widest = gigae_eval::terminal::summary(&results, false);
    let widest = widest.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
}

fn a_papers_figure_finds_the_nearest_cell() {
    let mut results = second();
    let cells = |results: &Results| {
        let table = found::paper_table(results).unwrap();
        table.rows.into_iter().map(|row| (row[2].clone(), row[5].clone())).collect::<Vec<_>>()
    };
    let pair = |printed: &str, here: &str| (printed.to_owned(), here.to_owned());
    // 256 B have no cell within a factor of 1.5; the best has the size that was the best.
    let best = results
        .series
        .iter()
        .filter(|one| one.variant.as_deref() == Some("untuned"))
        .max_by(|a, b| a.median.total_cmp(&b.median))
        .unwrap();
    let best = best.size.to_string();
    assert_eq!(
        cells(&results),
        [pair("8", "8"), pair("best", &best), pair("64", "64"), pair("256", "")]
    );
    for series in &mut results.series {
        series.size = if series.size == 64 { 200 } else { series.size };
    }
    assert_eq!(cells(&results)[3], pair("256", "200"));
    results.plan.paper.clear();
    assert!(found::paper_table(&results).is_none());
}

fn sweeps_over_rate_and_buffer_are_drawn_with_the_bandwidth_delay_product() {
    let results = second();
    let page = html::page(&results);
    for words in [
        "socket buffer in bytes",
        "messages per second",
        "bandwidth x delay",
        "TCP by socket buffer",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    let load = sweeps::load_table(&results).unwrap();
    assert_eq!(load.rows.len(), 4, "{load:?}");
    // Older results have neither.
    assert!(sweeps::load_table(&self::results()).is_none());
    assert!(sweeps::buffer_tables(&self::results()).is_empty());
}

fn printed_figures_stand_in_the_charts_too() {
    let mut results = second();
    let page = html::page(&results);
    // Of the papers' figures one is of round trips by size; calls per frame and a best value have no
    // place in a chart.
    assert_eq!(page.matches("class=\"printed\" data-at").count(), 1);
    let said = "TCP/IP, G-NIC II, 8 B: 139 us\nprinted in S. Sumimoto et al.: GigaE PM II (1999), figure 3";
    assert!(page.contains(&format!("<title>{said}</title>")));
    assert_eq!(page.matches("tcp nodelay, printed in GigaE PM II (1999)</li>").count(), 1);
    results.plan.paper.clear();
    assert!(!html::page(&results).contains("class=\"printed\" data-at"));
}

fn every_chart_has_its_numbers_and_commands() {
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

fn colours_can_be_told_from_what_is_behind_them() {
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

fn the_same_figures_lead_to_the_same_sentences() {
    for text in [FIXTURE, SECOND] {
        let once = found::findings(&Results::parse(text).unwrap());
        assert!(!once.is_empty());
        assert_eq!(once, found::findings(&Results::parse(text).unwrap()));
    }
}

fn the_papers_ratios_stand_beside_ours() {
    let results = results();
    let ratios = tables::ratios(&results);
    let cable: Vec<_> = ratios.iter().filter(|ratio| ratio.link == "cable").collect();
    let papers: Vec<String> = cable.iter().map(|ratio| ratio.say(ratio.paper)).collect();
    assert_eq!(papers, ["109.6 %", "87.2 %", "3.13x", "1.65x"]);
    let figure = |transport: &str, experiment: &str, size| {
        let found = results.series.iter().find(|series| {
            series.link == "cable"
                && series.transport == transport
                && series.experiment.name() == experiment
                && series.wait.name() == "spin"
                && series.size == size
        });
        found.unwrap().median
    };
    assert_eq!(cable[0].ours, figure("gigae", "rtt", 8) / figure("xdp", "rtt", 8));
    assert_eq!(cable[1].ours, figure("gigae", "stream", 1400) / figure("xdp", "stream", 1400));
}

fn every_figure_is_shown_with_its_verdict_in_every_report() {
    let results = results();
    assert!(results.figures.len() > 2, "the fixture has figures");
    let table = asked::table(&results, true).unwrap();
    assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    let (page, text) = (html::page(&results), markdown::page(&results));
    let terminal = gigae_eval::terminal::summary(&results, false);
    for (figure, row) in results.figures.iter().zip(&table.rows) {
        let word = match figure.verdict {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::Information => "",
            Verdict::NotMeasured => "not measured",
        };
        let said = row[3].trim_end_matches('!').trim_end();
        assert_eq!(said, word, "{row:?}");
        assert!(page.contains(&format!(">{}<", figure.name)), "{}", figure.name);
        assert!(text.contains(&format!("| {} |", figure.name)), "{}", figure.name);
        assert!(terminal.contains(&figure.name));
    }
    let words = ["Conditions", "segmentation offload", "steal", "setting tcp nodelay", "131072"];
    for word in words {
        assert!(page.contains(word) && text.contains(word), "no {word}");
    }
}

fn a_figure_that_is_missing_says_why() {
    let mut results = results();
    let figure = &mut results.figures[0];
    figure.verdict = Verdict::NotMeasured;
    figure.measured = None;
    figure.runs = vec![None];
    figure.missing = Some("cable rtt xdp spin 8 B: no such kernel".into());
    for text in [
        html::page(&results),
        markdown::page(&results),
        gigae_eval::terminal::figures(&results, false),
    ] {
        assert!(text.contains("no such kernel") && text.contains("not measured"), "{text}");
    }
    // And one whose huge pages the fixture's machine did not have.
    let table = asked::table(&results, false).unwrap();
    assert!(table.note.contains("2 not measured"), "{}", table.note);
}

fn several_runs_show_median_and_range() {
    let all = gigae_eval::figures::over_runs(vec![results(), results(), results()]).unwrap();
    let table = asked::table(&all, false).unwrap();
    assert_eq!(table.header, ["figure", "asked", "median", "range", "result"]);
    assert!(table.note.contains("3 runs"), "{}", table.note);
    assert!(gigae_eval::terminal::conditions(&all, false).contains("run 3:"));
    // The same run three times has no range to speak of.
    let (low, high) = all.figures[0].range().unwrap();
    assert_eq!((low, Some(high)), (high, all.figures[0].measured));
}

fn the_papers_tables_stand_beside_rows_and_memory() {
    let results = results();
    let rows = compare::row_table(&results, true).unwrap();
    let cell = |row: &str, column: &str| {
        let column = rows.header.iter().position(|name| name == column).unwrap();
        rows.rows.iter().find(|cells| cells[0] == row).unwrap()[column].clone()
    };
    assert_eq!(cell("raw link", "1999 us"), "40.7");
    assert_eq!(cell("raw link", "1999 MB/s"), "112.6");
    assert_eq!(cell("gigae", "1999 us"), "not measured");
    assert_eq!(cell("gigae", "1999 MB/s"), "98.5");
    assert!(!cell("raw link", "8 B round trip, us").is_empty());
    assert!(cell("gigae", "means").contains("in place"));
    assert!(compare::row_table(&results, false).unwrap().header.iter().all(|name| name != "means"));
    let memory = compare::memory_table(&results).unwrap();
    assert_eq!(memory.header, ["bytes", "borrow", "copy", "copy-warm", "map"]);
    for word in ["0.05 us", "4.61 us", "2.18 us", "cheaper"] {
        assert!(memory.note.contains(word) || memory.note.contains("dearer"), "{}", memory.note);
    }
    assert!(memory.rows.iter().flatten().all(|cell| !cell.is_empty()));
}

fn loss_idle_and_small_messages_have_their_figures() {
    let results = results();
    let loss = compare::loss_table(&results).unwrap();
    assert!(loss.note.contains("Segmentation offload is off"));
    assert!(loss.rows.iter().any(|row| row[0] == "1 %" && row[2] == "gigae go-back-n"), "{loss:?}");
    assert!(loss.rows.iter().any(|row| row[2].starts_with("tcp") && row[6].ends_with('%')));
    let idle = compare::idle_table(&results).unwrap();
    assert!(idle.rows.iter().any(|row| row[1] == "gigae" && row[2] == "adaptive"));
    let small = results.series.iter().find(|series| compare::per_second(series).is_some()).unwrap();
    assert!(small.experiment == Experiment::Stream && tables::figure(small).contains(" M/s)"));
    assert!(compare::cpu_table(&results).is_some());
}

fn results_from_before_figures_can_still_be_read() {
    let mut old: serde_json::Value = serde_json::from_str(FIXTURE).unwrap();
    for name in ["runs", "figures"] {
        old.as_object_mut().unwrap().remove(name);
    }
    for name in ["gigae", "xdp", "figure", "row"] {
        old["plan"].as_object_mut().unwrap().remove(name);
    }
    for link in old["environment"]["link"].as_array_mut().unwrap() {
        link.as_object_mut().unwrap().remove("loss");
    }
    let results = Results::parse(&old.to_string()).unwrap();
    assert!(results.figures.is_empty() && results.plan.row.is_empty());
    html::page(&results);
}

fn every_doubt_is_shown() {
    let results = results();
    let page = html::page(&results);
    for series in &results.series {
        for doubt in &series.doubts {
            let code = doubt.split(':').next().unwrap();
            assert!(page.contains(&format!("<li>{code}:")), "{doubt}");
        }
    }
}

fn the_terminal_needs_no_more_than_a_hundred_columns() {
    let text = gigae_eval::terminal::summary(&results(), false);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
    assert!(!text.contains('\u{1b}'), "colours without being asked for");
}

/// The browser: `CHROMIUM`, or what is in the path.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|place| names.map(|name| place.join(name)))
        .find(|file| file.exists())
}

/// Runs the browser on a page; gives its standard output and what it logged.
fn browse(browser: &Path, page: &str, size: (u32, u32), arguments: &[&str]) -> (String, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", place.path().join("profile").display()))
        .arg(format!("--window-size={},{}", size.0, size.1))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn a_browser_shows_figures_and_legends_without_an_error(browser: &Path) {
    let (dom, log) = browse(browser, &html::page(&second()), (1200, 900), &["--dump-dom"]);
    assert!(!log.contains("CONSOLE"), "{log}");
    assert_eq!(dom.matches("class=\"legend\"").count(), dom.matches("<figure>").count());
    let results = results();
    let (dom, log) = browse(browser, &html::page(&results), (1200, 900), &["--dump-dom"]);
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(dom.matches("class=\"legend\"").count(), dom.matches("<figure>").count());
    // A curve has at least two sizes; points alone are in tables only.
    let place = |one: &Series| (one.experiment, one.link.clone(), one.wait);
    let curves: Vec<_> = results
        .series
        .iter()
        .filter(|one| [Experiment::Rtt, Experiment::Stream].contains(&one.experiment))
        .filter(|one| {
            let same = |other: &&Series| place(other) == place(one) && other.label() == one.label();
            results.series.iter().filter(same).count() > 1
        })
        .map(place)
        .collect();
    let drawn = || results.series.iter().filter(|one| curves.contains(&place(one)));
    let figures: std::collections::HashSet<_> = curves.iter().collect();
    assert_eq!(dom.matches("<figure>").count(), figures.len());
    for series in drawn() {
        assert!(
            dom.contains(&format!("{}</button></li>", series.label())),
            "no legend for {}",
            series.label()
        );
    }
    assert_eq!(
        dom.matches("class=\"marker\"").count(),
        drawn().count() + dom.matches("class=\"key\"").count()
    );
}

fn nothing_sticks_out_on_a_phone(browser: &Path) {
    [results(), second()].iter().for_each(|results| fits_a_phone(browser, results));
}

fn fits_a_phone(browser: &Path, results: &Results) {
    // A frame is as narrow as it is told to be, whatever the least width of a window is.
    let inner = html::page(results).replace('&', "&amp;").replace('"', "&quot;");
    let page = format!(
        "<!doctype html><body><iframe id=f width={PHONE} height=800 style=\"border:0\" srcdoc=\"{inner}\"></iframe><p id=w></p>\
         <script>onload=()=>{{const d=f.contentDocument;d.querySelectorAll('details').forEach(e=>e.open=true);\
         w.textContent=f.contentWindow.innerWidth+' '+d.documentElement.scrollWidth+' '+d.body.scrollWidth}}</script>"
    );
    let (dom, _) =
        browse(browser, &page, (1200, 900), &["--dump-dom", "--virtual-time-budget=3000"]);
    let said =
        dom.rsplit("<p id=\"w\">").next().and_then(|rest| rest.split('<').next()).unwrap_or("");
    let widths: Vec<u32> = said.split(' ').map(|width| width.parse().unwrap_or(0)).collect();
    assert_eq!(widths.first(), Some(&PHONE), "the frame says '{said}'");
    assert!(
        widths[1..].iter().all(|width| (1..=PHONE).contains(width)),
        "wider than the screen: {said}"
    );
}

fn a_browser_can_draw_the_page_light_and_dark(browser: &Path) {
    let page = html::page(&results());
    let place = tempfile::tempdir().unwrap();
    let mut pictures = Vec::new();
    for scheme in ["1", "0"] {
        let file = place.path().join(format!("{scheme}.png"));
        let shot = format!("--screenshot={}", file.display());
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        browse(browser, &page, (390, 1600), &[&shot, &scheme]);
        pictures.push(std::fs::read(file).unwrap());
    }
    assert!(
        pictures.iter().all(|picture| picture.starts_with(b"\x89PNG") && picture.len() > 20_000)
    );
    assert_ne!(pictures[0], pictures[1], "dark mode looks like the light one");
}
