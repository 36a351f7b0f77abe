//! What the papers printed, and what follows from the figures.

use crate::fixtures::{results, second};
use gigae_eval_model::plan::Plan;
use gigae_eval_model::results::Results;
use gigae_eval_report::{found, html, machine, markdown, ratios, tables};

pub(crate) fn what_follows_and_what_papers_printed_stand_in_every_report() {
    let results = second();
    let said = found::findings(&results);
    let papers = found::paper_table(&results).unwrap();
    assert!(said.len() > 5 && papers.rows.len() == 4, "{said:?} {papers:?}");
    let pages = [
        html::page(&results),
        markdown::page(&results),
        gigae_eval_report::text::summary(&results, false),
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
    let widest = gigae_eval_report::text::summary(&results, false);
    let widest = widest.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
}

pub(crate) fn a_papers_figure_finds_the_nearest_cell() {
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

pub(crate) fn printed_figures_stand_in_the_charts_too() {
    let mut results = second();
    let page = html::page(&results);
    // Of the papers' figures one is of round trips by size; calls per frame and a best value have
    // no place in a chart.
    assert_eq!(page.matches("class=\"printed\" data-at").count(), 1);
    let said = "TCP/IP, G-NIC II, 8 B: 139 us\nprinted in S. Sumimoto et al.: GigaE PM II (1999), figure 3";
    assert!(page.contains(&format!("<title>{said}</title>")));
    assert_eq!(page.matches("tcp nodelay, printed in GigaE PM II (1999)</li>").count(), 1);
    results.plan.paper.clear();
    assert!(!html::page(&results).contains("class=\"printed\" data-at"));
}

pub(crate) fn nics_of_the_papers_stand_beside_those_of_the_run() {
    let mut results = second();
    assert!(machine::nic_table(&results).is_none());
    let inventory = Plan::load("inventory").unwrap();
    (results.plan.nic, results.plan.source) = (inventory.nic, inventory.source);
    let table = machine::nic_table(&results).unwrap();
    let (here, there): (Vec<_>, Vec<_>) =
        table.rows.iter().partition(|row| row[0].starts_with("here: "));
    assert_eq!((here.len(), there.len()), (1, results.plan.nic.len()), "{table:?}");
    assert_eq!(here[0][0], format!("here: {}", results.environment.link[0].local.driver));
    assert!(there.iter().any(|row| row[1] == "PCI, 64 bits, 33 MHz" && row[5] == "pm2, table 2"));
    assert!(table.note.contains("GigaE PM II") && table.note.contains("Fujita"), "{}", table.note);
    let text = gigae_eval_report::text::summary(&results, false);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
    for page in [html::page(&results), markdown::page(&results), text] {
        assert!(page.contains("NICs beside those of the papers") && page.contains("88E8056"));
    }
}

pub(crate) fn the_same_figures_lead_to_the_same_sentences() {
    for results in [results, second] {
        let once = found::findings(&results());
        assert!(!once.is_empty());
        assert_eq!(once, found::findings(&results()));
    }
}

pub(crate) fn the_papers_ratios_stand_beside_ours() {
    let results = results();
    let ratios = tables::ratios(&results);
    let cable: Vec<_> = ratios.iter().filter(|ratio| ratio.link == "cable").collect();
    let papers: Vec<String> = cable.iter().map(|ratio| ratio.say(ratio.paper)).collect();
    assert_eq!(papers, ["109.6 %", "87.2 %", "3.13x", "1.65x"]);
    // TCP's are those that the plans have.
    let plans = ["latency", "bandwidth"].map(|name| Plan::load(name).unwrap());
    let printed = |plan: &Plan, at: &str| {
        let mut all = plan.paper.iter().filter(|one| one.source == "pm2" && one.at == at);
        let tcp = all.find(|one| one.of.transport == "tcp").unwrap();
        tcp.best.unwrap_or_else(|| tcp.points[0].1)
    };
    let trip = format!("{} us / ", printed(&plans[0], "figure 3"));
    let stream = format!(" / {} MB/s", printed(&plans[1], "figure 2"));
    assert!(cable[2].source.starts_with(&trip) && cable[3].source.ends_with(&stream), "{cable:?}");
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

pub(crate) fn the_papers_tables_stand_beside_rows_and_memory() {
    let results = results();
    let rows = ratios::row_table(&results, true).unwrap();
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
    assert!(ratios::row_table(&results, false).unwrap().header.iter().all(|name| name != "means"));
    let memory = ratios::memory_table(&results).unwrap();
    assert_eq!(memory.header, ["bytes", "borrow", "copy", "copy-warm", "map"]);
    for word in ["0.05 us", "4.61 us", "2.18 us", "cheaper"] {
        assert!(memory.note.contains(word) || memory.note.contains("dearer"), "{}", memory.note);
    }
    assert!(memory.rows.iter().flatten().all(|cell| !cell.is_empty()));
}

/// Messages over AF_PACKET are no part of what raw AF_XDP reaches.
pub(crate) fn messages_are_compared_with_the_raw_link_that_they_went_by() {
    let mut results = results();
    let raw_links = |results: &Results| -> Vec<String> {
        let all = tables::ratios(results).into_iter();
        let raw = all.filter(|ratio| ratio.link == "cable" && ratio.what.starts_with("gigae / "));
        raw.map(|ratio| ratio.what).filter(|what| !what.contains("tcp")).collect()
    };
    assert_eq!(raw_links(&results), ["gigae / xdp, round trip", "gigae / xdp, stream"]);
    for series in results.series.iter_mut().filter(|series| series.transport == "gigae") {
        series.note = Some("packet: for a test".to_owned().into());
    }
    assert!(!raw_links(&results).iter().any(|what| what.contains("xdp")));
    for series in results.series.iter_mut().filter(|series| series.transport == "xdp") {
        series.transport = "packet".into();
    }
    assert_eq!(raw_links(&results), ["gigae / packet, round trip", "gigae / packet, stream"]);
}
