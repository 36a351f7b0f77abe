//! The page in a real browser.

use crate::fixtures::{results, second};
use gigae_eval_model::plan::Experiment;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_report::html;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Narrowest screen on which nothing may stick out.
const PHONE: u32 = 360;

/// The browser: `CHROMIUM`, or what is in the path.
pub(crate) fn chromium() -> Option<PathBuf> {
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
fn browse(
    browser: &Path,
    page: &str,
    width: u32,
    height: u32,
    arguments: &[&str],
) -> (String, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", place.path().join("profile").display()))
        .arg(format!("--window-size={width},{height}"))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

pub(crate) fn a_browser_shows_figures_and_legends_without_an_error(browser: &Path) {
    let (dom, log) = browse(browser, &html::page(&second()), 1200, 900, &["--dump-dom"]);
    assert!(!log.contains("CONSOLE"), "{log}");
    assert_eq!(dom.matches("class=\"legend\"").count(), dom.matches("<figure>").count());
    let results = results();
    let (dom, log) = browse(browser, &html::page(&results), 1200, 900, &["--dump-dom"]);
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

pub(crate) fn nothing_sticks_out_on_a_phone(browser: &Path) {
    [results(), second()].iter().for_each(|results| fits_a_phone(browser, results));
}

fn fits_a_phone(browser: &Path, results: &Results) {
    // A frame may be narrower than the least width of a window.
    let inner = html::page(results).replace('&', "&amp;").replace('"', "&quot;");
    let page = format!(
        "<!doctype html><body><iframe id=f width={PHONE} height=800 style=\"border:0\" srcdoc=\"{inner}\"></iframe><p id=w></p>\
         <script>onload=()=>{{const d=f.contentDocument;d.querySelectorAll('details').forEach(e=>e.open=true);\
         w.textContent=f.contentWindow.innerWidth+' '+d.documentElement.scrollWidth+' '+d.body.scrollWidth}}</script>"
    );
    let (dom, _) = browse(browser, &page, 1200, 900, &["--dump-dom", "--virtual-time-budget=3000"]);
    let said =
        dom.rsplit("<p id=\"w\">").next().and_then(|rest| rest.split('<').next()).unwrap_or("");
    let widths: Vec<u32> = said.split(' ').map(|width| width.parse().unwrap_or(0)).collect();
    assert_eq!(widths.first(), Some(&PHONE), "the frame says '{said}'");
    assert!(
        widths[1..].iter().all(|width| (1..=PHONE).contains(width)),
        "wider than the screen: {said}"
    );
}

pub(crate) fn a_browser_can_draw_the_page_light_and_dark(browser: &Path) {
    let page = html::page(&results());
    let place = tempfile::tempdir().unwrap();
    let mut pictures = Vec::new();
    for scheme in ["1", "0"] {
        let file = place.path().join(format!("{scheme}.png"));
        let shot = format!("--screenshot={}", file.display());
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        browse(browser, &page, 390, 1600, &[&shot, &scheme]);
        pictures.push(std::fs::read(file).unwrap());
    }
    assert!(
        pictures.iter().all(|picture| picture.starts_with(b"\x89PNG") && picture.len() > 20_000)
    );
    assert_ne!(pictures[0], pictures[1], "dark mode looks like the light one");
}
