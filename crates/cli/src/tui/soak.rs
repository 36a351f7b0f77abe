//! What a soak reports to its view, with every sample of its ends.

use super::View;
use super::live::Source;
use super::model::{Event, Metric, NewValue, Row};
use gigae_eval_measure::site::Site;
use gigae_eval_model::duration;
use gigae_eval_model::number::{many, megabytes, mib};
use gigae_eval_model::traffic::STREAMS;
use gigae_eval_session::remark::remark;
use gigae_eval_soak::state::{SoakEnd, SoakPoint, SoakState};
use gigae_eval_soak::watch::ProgressSink;
use std::time::Duration;

/// The figures of a soak, the most important first. It times no messages, so it has no round trips.
pub(super) const LINES: &[Metric] =
    &[Metric::Gigae, Metric::Tcp, Metric::Again, Metric::Cpu, Metric::Wire, Metric::Memory];

/// The columns of its table.
pub(super) const HEADER: &[&str] =
    &["verified at", "GigaE MB", "TCP MB", "messages", "memory MiB", "sent again"];

impl ProgressSink for View {
    fn line(&mut self, text: &str) {
        // It is said again when the terminal is as it was.
        remark(text);
        self.report(Event::Said(text.to_owned()));
    }

    fn place(&mut self, site: &Site, about: &str) {
        let source = Box::new(Source::machine(site));
        self.report(Event::Link { about: about.to_owned(), rows: Vec::new(), source });
    }

    fn progress(&mut self, state: &SoakState) {
        let Some(point) = state.points.last() else { return };
        let (elapsed, total) =
            (state.elapsed.min(state.settings.duration), state.settings.duration);
        let deviations = match state.deviated() {
            0 => "no deviation".into(),
            1 => "1 deviation".into(),
            more => format!("{more} deviations"),
        };
        self.report(Event::Step {
            share: elapsed / total.max(f64::MIN_POSITIVE),
            count: format!("{} of {}", duration::say(elapsed), duration::say(total)),
            left: Some(Duration::from_secs_f64(state.left())),
            now: deviations,
        });
        for event in figures(point) {
            self.report(event);
        }
        let sums = [state.sums.retransmissions, state.sums.tcp_retransmissions];
        let [gigae, tcp] = std::array::from_fn(|of| sums[of].saturating_sub(self.reported[of]));
        if gigae + tcp > 0 {
            self.reported = sums;
            self.report(Event::Again { gigae, tcp });
        }
        for end in &state.ends {
            self.report(Event::Row(row(end)));
        }
        let Some(last) = state.deviations.last() else { return };
        let (end, kind) = (&last.end, last.kind.name());
        self.report(Event::Last(format!("{} {end}: {kind}: {}", last.utc, last.what)));
    }
}

fn figures(point: &SoakPoint) -> Vec<Event> {
    let seconds = point.seconds.max(f64::MIN_POSITIVE);
    let rate = |metric, bytes: u64, more| {
        let value = bytes as f64 / seconds;
        Event::Value(NewValue { metric, value, now: format!("{} MB/s", megabytes(value)), more })
    };
    let messages = format!("{} messages/s", many(point.messages as f64 / seconds));
    vec![
        rate(Metric::Gigae, point.gigae_bytes, messages),
        rate(Metric::Tcp, point.tcp_bytes, String::new()),
        Event::Value(NewValue {
            metric: Metric::Memory,
            value: point.rss as f64,
            now: format!("{} MiB", mib(point.rss)),
            more: "the largest process's".into(),
        }),
    ]
}

fn row(end: &SoakEnd) -> Row {
    let bytes = |tcp: bool| {
        let of = STREAMS.iter().filter(|stream| stream.is_tcp() == tcp);
        of.map(|stream| end.verified[*stream as usize].bytes).sum::<u64>() as f64
    };
    let own = STREAMS.iter().filter(|stream| !stream.is_tcp());
    let messages: u64 = own.map(|stream| end.verified[*stream as usize].count).sum();
    let cells = vec![
        megabytes(bytes(false)),
        megabytes(bytes(true)),
        many(messages as f64),
        mib(end.last.rss),
        end.last.gigae.retransmissions.to_string(),
    ];
    Row { title: end.name.clone(), cells, bad: false }
}
