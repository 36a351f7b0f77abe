//! What the view looks like in several states and sizes, and what keys make of it.

use super::draw::draw;
use super::keys::KeyPress;
use super::live::{Rates, Source};
use super::model::{Event, KeyAction, Line, Metric, Model, NewValue, Row};
use super::{run, soak};
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use std::collections::VecDeque;
use std::time::Duration;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What is drawn on a screen of this size, line by line without the blanks at their ends.
fn drawn(model: &mut Model, (width, height): (u16, u16), now: Duration) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, now, frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(width.max(1).into());
    let text = lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    text.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn place(about: &str, rows: &[String]) -> Event {
    let source = Box::new(Source::ends(None, None));
    Event::Link { about: about.into(), rows: rows.to_vec(), source }
}

fn step(done: u64, now: &str) -> Event {
    Event::Step {
        share: done as f64 / 372.0,
        count: format!("repetition {} of 372", done + 1),
        left: Some(seconds(43)),
        now: now.into(),
    }
}

fn titles() -> Vec<String> {
    let one = |size: u32| {
        ["gigae", "udp", "tcp nodelay"].map(|of| format!("cable rtt {of} spin {size} B"))
    };
    [8, 256, 1400].into_iter().flat_map(one).collect()
}

fn row(title: &str, figures: [&str; 5]) -> Event {
    Event::Row(Row { title: title.into(), cells: figures.map(str::to_owned).into(), bad: false })
}

/// A run in its midst, 30 s after its beginning.
fn midst() -> Model {
    let mut model = Model::new("gigae eval --plan quick".into(), run::LINES, run::HEADER);
    let titles = titles();
    model.update(place("cable (fabric), MTU 1500, eth0", &titles), seconds(0));
    for second in 0..30 {
        let at = seconds(second);
        let trip = 2.5 + (second % 5) as f64;
        let (now, more) = (format!("{trip:.2} us"), "380k/s".to_owned());
        let new = NewValue { metric: Metric::Trip, value: trip, now, more };
        model.update(Event::Value(new), at);
        let busy = if second < 15 { 1.0 } else { 0.4 };
        let wire = [[119e6, 84e3], [1e6, 9e3]];
        model.look(&Rates { wire: Some(wire), cpus: [Some(busy), Some(0.97)], repeated: 0 }, at);
    }
    model.update(Event::Again { gigae: 3, tcp: 0 }, seconds(20));
    model.look(&Rates { repeated: 2, ..Rates::default() }, seconds(29));
    model.update(row(&titles[0], ["2.61 us", "4/6", "2.58 to 2.70", "100 %", "99 %"]), seconds(29));
    model.update(row(&titles[4], ["5.02 us", "3/6", "4.90 to 5.11", "98 %", "97 %"]), seconds(29));
    let failed = Row { title: titles[8].clone(), cells: vec!["failed".into()], bad: true };
    model.update(Event::Row(failed), seconds(29));
    model.update(
        Event::Last(format!("last: {}: 2.60 us; 2.00 calls, 1.00 frames each", titles[0])),
        seconds(29),
    );
    model.update(step(23, &titles[0]), seconds(30));
    model.own = "view 0.2 % of a CPU".into();
    model
}

#[test]
fn a_run_on_an_ordinary_screen() {
    assert_eq!(drawn(&mut midst(), (80, 24), seconds(33)), WIDE);
}

const WIDE: &str = "\
gigae eval --plan quick                           cable (fabric), MTU 1500, eth0
cable rtt gigae spin 8 B, so far 2.61 us                    repetition 24 of 372
████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 6 %, 40s left
last: cable rtt gigae spin 8 B: 2.60 us; 2.00 calls, 1.00 frames each
                                                         last minute
round trip 6.50 us    380k/s                                       ▄█▄█▅█▅█▅▇▆█
goodput    -
interface  120 MB/s   out 119, in 1.00, 93.0k frames/s             ████████████
CPU here   40 %                                                    ██████▄▄▄▄▄▄
CPU there  97 %                                                    ████████████
sent again 5          gigae 3, TCP 2                                       █  ▆

  figures so far                         median    n          95 %    CPU  there
> cable rtt gigae spin 8 B              2.61 us  4/6  2.58 to 2.70  100 %   99 %
  cable rtt udp spin 8 B
  cable rtt tcp nodelay spin 8 B
  cable rtt gigae spin 256 B
  cable rtt udp spin 256 B              5.02 us  3/6  4.90 to 5.11   98 %   97 %
  cable rtt tcp nodelay spin 256 B
  cable rtt gigae spin 1400 B
  cable rtt udp spin 1400 B
  cable rtt tcp nodelay spin 1400 B      failed

q end  ? keys                                                view 0.2 % of a CPU
";

#[test]
fn a_run_on_a_small_screen_leaves_out_what_matters_least() {
    assert_eq!(drawn(&mut midst(), (40, 12), seconds(33)), SMALL);
}

const SMALL: &str = "\
gigae eval --plan quick
cable rtt gigae spin 8 B, so far 2.61 us
█░░░░░░░░░░░░░░░░░░░░░░░░░ 6 %, 40s left
round trip 6.50 us            ▆▇█▆▇█▆▇█
goodput    -
interface  120 MB/s           █████████
CPU here   40 %               ████▅▄▄▄▄
  figures so far 1-3 of 9    median    n
> cable rtt gigae spin 8 B  2.61 us  4/6
  cable rtt udp spin 8 B
  cable rtt tcp nodelay sp
q end  ? keys        view 0.2 % of a CPU
";

#[test]
fn before_the_first_figure_there_are_titles_and_no_numbers() {
    let mut model = Model::new("gigae eval".into(), run::LINES, run::HEADER);
    let text = drawn(&mut model, (80, 24), seconds(0));
    assert!(text.contains("beginning") && text.contains(" 0 %"), "{text}");
    model.update(place("memory", &titles()[..2]), seconds(0));
    let text = drawn(&mut model, (80, 24), seconds(0));
    assert!(text.contains("cable rtt udp spin 8 B") && !text.contains("us"), "{text}");
}

#[test]
fn a_soak_with_a_deviation_says_it() {
    let mut model = Model::new("gigae soak".into(), soak::LINES, soak::HEADER);
    let said = "first deviation, 2026-01-01T00:00:00Z, 5s after the beginning, client 2: stall";
    model.update(Event::Said(said.into()), seconds(5));
    let cells = ["12.0", "3.1", "4.2k", "8.1", "0"].map(str::to_owned).into();
    model.update(Event::Row(Row { title: "client 2".into(), cells, bad: false }), seconds(5));
    for size in [(80, 24), (60, 12)] {
        let text = drawn(&mut model, size, seconds(6));
        assert!(text.contains("first deviation") && text.contains("GigaE"), "{text}");
        assert!(text.contains("client 2") && text.contains("4.2k"), "{text}");
    }
    assert!(!drawn(&mut model, (80, 24), seconds(6)).contains("round trip"));
}

/// Rows of the table that are on the screen.
fn rows(text: &str) -> Vec<&str> {
    let row = |line| str::strip_prefix(line, "  ").or(line.strip_prefix("> "));
    text.lines().filter_map(row).filter(|line| line.starts_with("cable rtt")).collect()
}

#[test]
fn nothing_fails_on_a_screen_of_any_size() {
    let mut model = midst();
    model.update(Event::Said("something".into()), seconds(30));
    for help in [false, true] {
        model.help = help;
        for (width, height) in
            (0..130).flat_map(|width| [0, 1, 2, 3, 5, 8, 13, 21, 60].map(|h| (width, h)))
        {
            drawn(&mut model, (width, height), seconds(33));
        }
    }
}

#[test]
fn keys_scroll_the_table_and_stop_at_its_ends() {
    let mut model = midst();
    let screen = (40, 12);
    let first = |model: &mut Model| rows(&drawn(model, screen, seconds(33)))[0].to_owned();
    drawn(&mut model, screen, seconds(33));
    let (page, last) = (model.page, 9 - model.page);
    assert!((2..9).contains(&page));
    for (key, top) in [
        (KeyPress::Up, 0),
        (KeyPress::Down, 1),
        (KeyPress::PageDown, (1 + page).min(last)),
        (KeyPress::Last, last),
        (KeyPress::Down, last),
        (KeyPress::PageUp, last.saturating_sub(page)),
        (KeyPress::First, 0),
    ] {
        assert_eq!(model.press(key), None);
        assert_eq!(model.top, top, "{key:?}");
    }
    model.press(KeyPress::Down);
    assert!(first(&mut model).starts_with("cable rtt udp spin 8 B"));
    // A larger screen has room for all again.
    drawn(&mut model, (80, 40), seconds(33));
    assert_eq!(model.top, 0);
}

#[test]
fn a_new_link_is_shown_unless_somebody_scrolled() {
    let other = vec!["gigabit rtt tcp spin 8 B".to_owned()];
    for scrolled in [false, true] {
        let mut model = midst();
        drawn(&mut model, (40, 8), seconds(33));
        if scrolled {
            model.press(KeyPress::Down);
        }
        model.update(place("gigabit", &other), seconds(34));
        let text = drawn(&mut model, (40, 8), seconds(34));
        assert_eq!(text.contains("gigabit rtt"), !scrolled, "{text}");
    }
}

#[test]
fn a_key_ends_the_run_and_another_shows_the_keys() {
    let mut model = midst();
    assert_eq!(model.press(KeyPress::Help), None);
    assert!(drawn(&mut model, (80, 24), seconds(33)).contains("Ctrl-C"));
    model.press(KeyPress::Down);
    assert!(!model.help, "scrolling shows the table");
    assert_eq!(model.press(KeyPress::End), Some(KeyAction::End));
    assert!(drawn(&mut model, (80, 24), seconds(33)).contains("ending"));
}

#[test]
fn the_last_minute_is_means_but_what_was_sent_again_adds_up() {
    let past: VecDeque<_> =
        [(1, 1.0), (31, 2.0), (32, 4.0), (60, 7.0)].map(|(at, value)| (seconds(at), value)).into();
    let line =
        |metric| Line { metric, now: String::new(), more: String::new(), past: past.clone() };
    let parts = |of| line(of).parts(seconds(60), 4);
    assert_eq!(parts(Metric::Trip), [Some(1.0), None, Some(3.0), Some(7.0)]);
    assert_eq!(parts(Metric::Again), [Some(1.0), None, Some(6.0), Some(7.0)]);
    assert!(line(Metric::Trip).parts(seconds(60), 0).is_empty());
}

#[test]
fn what_is_long_past_is_forgotten() {
    let mut model = midst();
    let new =
        NewValue { metric: Metric::Trip, value: 9.0, now: "9.00 us".into(), more: String::new() };
    model.update(Event::Value(new), seconds(85));
    let trips = &model.lines[0].past;
    assert!(trips.len() < 10 && trips.front().unwrap().0 >= seconds(25), "{trips:?}");
}
