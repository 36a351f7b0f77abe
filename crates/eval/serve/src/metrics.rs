//! `gigae serve --metrics`: what the server does, in Prometheus' text format (exposition format,
//! version 0.0.4), by HTTP. It is read only, asks no client who it is, and is closed unless it is
//! asked for.

use gigae_eval_measure::environment::VERSION;
use gigae_eval_measure::probe::Answered;
use gigae_eval_measure::transport::Task;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for one question and its answer, and how long the question may be.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_QUESTION: usize = 8 << 10;

/// How often an interruption is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// How a client's connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientResult {
    /// It had its turn and went.
    Done,
    /// It vanished, or its connection broke.
    Failed,
    /// It was over one of the owner's limits, or too many waited.
    Limited,
    /// It did not prove the key.
    Unproved,
    /// Its address is not among those that are served.
    Address,
}

impl ClientResult {
    const ALL: [Self; 5] = [Self::Done, Self::Failed, Self::Limited, Self::Unproved, Self::Address];

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Unproved => "unproved",
            Self::Address => "address",
        }
    }
}

/// What is counted.
#[derive(Debug)]
pub(super) struct Counts(Mutex<MetricsState>);

#[derive(Debug, Default)]
struct MetricsState {
    started: f64,
    results: BTreeMap<ClientResult, u64>,
    serving: bool,
    waiting: usize,
    /// By experiment and transport.
    repetitions: BTreeMap<(&'static str, String), Work>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Work {
    count: u64,
    bytes: u64,
    seconds: f64,
    /// Bytes per second of the last one.
    last: f64,
}

impl Default for Counts {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Mutex::new(MetricsState { started: now.as_secs_f64(), ..MetricsState::default() }))
    }
}

impl Counts {
    pub(super) fn count(&self, result: ClientResult) {
        *self.state().results.entry(result).or_default() += 1;
    }

    pub(super) fn queue(&self, serving: bool, waiting: usize) {
        let mut state = self.state();
        (state.serving, state.waiting) = (serving, waiting);
    }

    /// A repetition that was answered to its end; the transport is a known one.
    pub(super) fn repetition(&self, task: &Task, answered: &Answered) {
        let mut state = self.state();
        let key = (task.experiment.name(), task.transport.clone());
        let work = state.repetitions.entry(key).or_default();
        work.count += 1;
        work.bytes += answered.bytes;
        work.seconds += answered.cost.seconds;
        if answered.measured_seconds > 0.0 {
            work.last = answered.measured_bytes as f64 / answered.measured_seconds;
        }
    }

    /// The page.
    fn page(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let one = |value: f64| [(String::new(), value)];
        family(
            "gigae_build_info",
            "gauge",
            "Version of gigae.",
            &[(format!("{{version=\"{VERSION}\"}}"), 1.0)],
        );
        family(
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            &one(state.started),
        );
        let results = ClientResult::ALL.map(|result| {
            let count = state.results.get(&result).copied().unwrap_or(0);
            (format!("{{result=\"{}\"}}", result.name()), count as f64)
        });
        family("gigae_serve_clients_total", "counter", "Clients by how it ended.", &results);
        let serving = f64::from(u8::from(state.serving));
        family(
            "gigae_serve_clients",
            "gauge",
            "Clients that are served now: 0 or 1.",
            &one(serving),
        );
        family(
            "gigae_serve_clients_waiting",
            "gauge",
            "Clients that wait for their turn.",
            &one(state.waiting as f64),
        );
        let each = |value: fn(&Work) -> f64| -> Vec<_> {
            let label = |(experiment, transport): &(&str, String)| {
                format!("{{experiment=\"{experiment}\",transport=\"{transport}\"}}")
            };
            state.repetitions.iter().map(|(key, work)| (label(key), value(work))).collect()
        };
        family(
            "gigae_serve_repetitions_total",
            "counter",
            "Repetitions that were answered.",
            &each(|work| work.count as f64),
        );
        family(
            "gigae_serve_received_bytes_total",
            "counter",
            "Payload that arrived in them.",
            &each(|work| work.bytes as f64),
        );
        family(
            "gigae_serve_measured_seconds_total",
            "counter",
            "Time for which they were measured.",
            &each(|work| work.seconds),
        );
        let streams: Vec<_> =
            state.repetitions.iter().filter(|(_, work)| work.last > 0.0).collect();
        let last = streams
            .iter()
            .map(|((_, transport), work)| (format!("{{transport=\"{transport}\"}}"), work.last));
        family(
            "gigae_serve_stream_bytes_per_second",
            "gauge",
            "Goodput of the last stream that arrived.",
            &last.collect::<Vec<_>>(),
        );
        text
    }

    fn state(&self) -> MutexGuard<'_, MetricsState> {
        // Figures are assigned one by one; there is nothing to be found half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers questions, one after the other, until `interrupted` is set.
pub(super) fn answer(listener: &TcpListener, counts: &Counts, interrupted: &AtomicBool) {
    while !interrupted.load(Ordering::Relaxed) {
        if !super::ready::readable(listener, LOOK) {
            continue;
        }
        match listener.accept() {
            // Who does not take his answer has none.
            Ok((stream, _)) => drop(one(stream, counts)),
            // All descriptors are in use, or who asked is gone.
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn one(mut stream: TcpStream, counts: &Counts) -> std::io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut question = Vec::new();
    while !question.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || question.len() > LONGEST_QUESTION {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut part = [0; 1024];
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => question.extend(&part[..len]),
        }
    }
    let line = question.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", counts.page())
        }
        (Some("GET"), _) => ("404 Not Found", "text/plain", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all((head + &body).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::plan::{Condition, Setting, Wait};
    use std::collections::BTreeSet;

    fn task() -> Task {
        Task {
            experiment: Experiment::Stream,
            transport: "tcp".into(),
            setting: Setting::Default,
            condition: Condition::default(),
            wait: Wait::Sleep,
            size: 8,
            warmup: 0.0,
            measure: 1.0,
            rate: None,
        }
    }

    /// The samples of a page, each checked as the format has it: a family's help and type first,
    /// then its samples, no sample twice.
    fn parse(page: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let (mut families, mut family) = (BTreeSet::new(), (String::new(), String::new()));
        assert!(page.ends_with('\n'));
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(families.insert(name.to_owned()) && help.ends_with('.'), "{line}");
                family = (name.to_owned(), String::new());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(name == family.0 && ["counter", "gauge"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                family.1 = kind.to_owned();
            } else {
                let (key, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = key.split_once('{').unwrap_or((key, "}"));
                let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
                assert!(
                    name == family.0 && !family.1.is_empty() && name.chars().all(legal),
                    "{line}"
                );
                for label in labels.strip_suffix('}').unwrap().split(',').filter(|l| !l.is_empty())
                {
                    let (label, value) = label.split_once('=').unwrap();
                    assert!(label.chars().all(legal), "{line}");
                    let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap();
                    assert!(!value.contains(['"', '\\', '\n']), "{line}");
                }
                let value: f64 = value.parse().unwrap();
                assert!(samples.insert(key.to_owned(), value).is_none(), "{line} twice");
            }
        }
        samples
    }

    #[test]
    fn the_page_is_in_the_text_format_and_says_what_was_counted() {
        let counts = Counts::default();
        let empty = parse(&counts.page());
        assert_eq!(empty["gigae_serve_clients_total{result=\"done\"}"], 0.0);
        counts.count(ClientResult::Done);
        counts.count(ClientResult::Unproved);
        counts.queue(true, 3);
        let answered = Answered {
            bytes: 1000,
            measured_bytes: 900,
            measured_seconds: 0.5,
            ..Answered::default()
        };
        counts.repetition(&task(), &answered);
        counts.repetition(&task(), &answered);
        let full = parse(&counts.page());
        for (name, value) in [
            ("gigae_serve_clients_total{result=\"done\"}", 1.0),
            ("gigae_serve_clients_total{result=\"unproved\"}", 1.0),
            ("gigae_serve_clients", 1.0),
            ("gigae_serve_clients_waiting", 3.0),
            ("gigae_serve_repetitions_total{experiment=\"stream\",transport=\"tcp\"}", 2.0),
            ("gigae_serve_received_bytes_total{experiment=\"stream\",transport=\"tcp\"}", 2000.0),
            ("gigae_serve_stream_bytes_per_second{transport=\"tcp\"}", 1800.0),
        ] {
            assert_eq!(full[name], value, "{name}");
        }
        assert!(full["process_start_time_seconds"] > 1.7e9);
    }

    /// The names of metrics in an expression of PromQL: what is neither a function, a label, nor a
    /// word of the language.
    fn metrics_in(expression: &str) -> BTreeSet<String> {
        let mut bare = String::new();
        let mut depth = 0;
        for c in expression.chars() {
            depth += i32::from(c == '{' || c == '[');
            if depth == 0 {
                bare.push(c);
            }
            depth -= i32::from(c == '}' || c == ']');
        }
        while let Some((before, rest)) = bare.split_once(" by (") {
            bare = format!("{before} {}", rest.split_once(')').unwrap().1);
        }
        let mut names = BTreeSet::new();
        let mut rest = &bare[..];
        while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, after) =
                rest[at..].split_at(rest[at..].find(|c| !word(c)).unwrap_or(rest.len() - at));
            let is_operator = ["and", "or", "unless", "bool"].contains(&name);
            // An aggregation has its function before `by` and its argument behind that.
            let is_function = after.trim_start().starts_with('(');
            if !is_operator && !is_function {
                names.insert(name.to_owned());
            }
            rest = after;
        }
        names
    }

    #[test]
    fn the_dashboard_names_no_metric_that_the_server_does_not_have() {
        let counts = Counts::default();
        let page = counts.page();
        let has: BTreeSet<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../grafana/gigae-serve.json")).unwrap();
        let of_panels = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
            panel["targets"].as_array().unwrap().iter().map(|t| t["expr"].as_str().unwrap())
        });
        // label_values(METRIC, LABEL)
        let of_variables = dashboard["templating"]["list"].as_array().unwrap().iter();
        let of_variables = of_variables.filter_map(|variable| variable["query"]["query"].as_str());
        let of_variables =
            of_variables.map(|query| query.rsplit_once(',').expect("a label behind it").0);
        let named: BTreeSet<_> = of_panels.chain(of_variables).flat_map(metrics_in).collect();
        for name in &named {
            // Prometheus itself says whether it could read the page.
            assert!(has.contains(&name[..]) || name == "up", "the server has no {name}");
        }
        let unused: Vec<_> = has.iter().filter(|name| !named.contains(**name)).collect();
        assert!(unused.is_empty(), "the dashboard does not show {unused:?}");
    }

    #[test]
    fn names_of_metrics_are_found_in_expressions() {
        let expression =
            "sum by (a, b) (rate(one_total{c=~\"d\"}[5m])) / count(two == 0) or vector(1)";
        assert!(metrics_in(expression).iter().eq(["one_total", "two"]));
        assert!(metrics_in("quantile by (x) (0.5, three{y=\"z\"})").iter().eq(["three"]));
    }

    /// What is answered to these bytes.
    fn answered(question: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asking = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        asking.write_all(question).unwrap();
        asking.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = one(listener.accept().unwrap().0, &Counts::default());
        let mut text = String::new();
        let _ = asking.read_to_string(&mut text);
        text
    }

    #[test]
    fn every_request_is_answered_or_ends_the_connection() {
        let good = answered(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = good.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        parse(body);
        assert!(answered(b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(answered(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(answered(b"\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert_eq!(answered(b"GET /metrics"), "");
        assert_eq!(answered(&[b'a'; LONGEST_QUESTION * 2]), "");
    }
}
