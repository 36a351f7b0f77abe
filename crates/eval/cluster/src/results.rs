//! The results of a run: who took part, and every figure. The form is fixed by
//! `schema/gigae.cluster.1.json`, which is kept by hand. Pairs are lists of figures in one order,
//! [`rounds::index`]'s, since a thousand hosts have half a million pairs.

#[doc(hidden)]
pub mod testing;

use crate::rounds;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::net::IpAddr;

/// The form of the results.
pub const SCHEMA: &str = "gigae.cluster/1";

/// Most hosts of a run.
pub const MOST_HOSTS: usize = 4096;

/// All results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterResults {
    /// The form, [`SCHEMA`].
    pub schema: String,
    /// When the run began, in UTC (RFC 3339).
    pub date: String,
    /// How long it took, in seconds.
    pub duration: f64,
    /// The command of each rank.
    pub command: String,
    /// Version of this program.
    pub gigae: String,
    /// Its git version.
    pub git: String,
    /// What the launcher speaks.
    pub launcher: String,
    /// How many ranks it started.
    pub ranks: u32,
    /// How many machines the hosts are on: fewer than hosts if some are namespaces of one.
    pub machines: usize,
    /// Measured seconds of each measurement.
    pub seconds: f64,
    /// Discarded seconds before them.
    pub warmup: f64,
    /// Payloads in bytes.
    pub sizes: Sizes,
    /// The hosts, in the order of their ranks.
    pub hosts: Vec<Host>,
    /// Ranks that did not measure, because their host has an earlier one.
    pub unused: Vec<UnusedRank>,
    /// What was measured.
    pub transports: Vec<TransportResults>,
    /// Transports that could not be used.
    pub skipped: Vec<Skipped>,
    /// Measurements that failed: the first ones.
    pub failures: Vec<PairFailure>,
    /// How many failed.
    pub failed: u64,
}

/// Payloads in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Of a round trip.
    pub trip: usize,
    /// Of a message of a stream.
    pub stream: usize,
    /// Of a message of many senders.
    pub incast: usize,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its rank.
    pub rank: u32,
    /// Its interfaces, with commas between them.
    pub interface: String,
    /// The Ethernet address of the first one.
    pub mac: String,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// What else is known of it.
    pub about: About,
}

/// What is worth knowing of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its kernel.
    pub kernel: String,
    /// Its CPU.
    pub cpu: String,
    /// Its interface's driver.
    pub driver: String,
    /// Version of gigae.
    pub gigae: String,
}

/// A rank that did not measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnusedRank {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
}

/// Figures of a transport. Absent ones could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportResults {
    /// Its name.
    pub name: String,
    /// What it said of itself, at rank 0 or the next one.
    pub note: Option<String>,
    /// Median round trip of each pair, in microseconds.
    pub trip_p50: Vec<Option<f64>>,
    /// The 99th percentile.
    pub trip_p99: Vec<Option<f64>>,
    /// Goodput from the first node of each pair to the second, in 10^6 bytes per second.
    pub forward: Vec<Option<f64>>,
    /// The other way.
    pub backward: Vec<Option<f64>>,
    /// All pairs across two halves at once.
    pub bisection: Vec<Bisection>,
    /// Many to one, for each host; absent where it failed.
    pub incast: Vec<Option<Incast>>,
}

/// All pairs across two halves of the hosts at once, one way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bisection {
    /// Host `i` of the first half has the partner `i + shift` of the second half.
    pub shift: usize,
    /// Whether the second half sends.
    pub back: bool,
    /// Pairs that were measured.
    pub pairs: usize,
    /// The sum of their goodputs, in 10^6 bytes per second.
    pub sum: f64,
    /// The least of them.
    pub least: f64,
    /// The greatest of them.
    pub most: f64,
}

/// Many to one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// How many sent at once.
    pub senders: usize,
    /// Goodput of all together, in 10^6 bytes per second: the median of several times.
    pub goodput: f64,
    /// Jain's index of the senders' rates, of the last time.
    pub fairness: f64,
    /// Frames or segments that were sent again, of all times.
    pub repeated: u64,
    /// How often it was measured.
    pub times: usize,
}

/// A transport that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// Its name.
    pub transport: String,
    /// The host that said so.
    pub host: String,
    /// Why.
    pub reason: String,
}

/// A measurement that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFailure {
    /// What was measured.
    pub what: String,
    /// The transport.
    pub transport: String,
    /// From which host, or the first of the pair.
    pub from: String,
    /// To which.
    pub to: String,
    /// Why it failed.
    pub reason: String,
}

/// Results cannot be read. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON, or not of this form.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is of another form.
    #[error("it is of the form '{0}', not '{SCHEMA}'")]
    Schema(String),
    /// Lists do not have as many figures as there are hosts or pairs.
    #[error("it has not one figure for each host and pair in '{0}'")]
    Count(String),
}

impl TransportResults {
    /// Nothing yet, for so many hosts.
    pub fn new(name: &str, hosts: usize) -> Self {
        let none = vec![None; hosts * (hosts - 1) / 2];
        Self {
            name: name.to_owned(),
            note: None,
            trip_p50: none.clone(),
            trip_p99: none.clone(),
            forward: none.clone(),
            backward: none,
            bisection: Vec::new(),
            incast: vec![None; hosts],
        }
    }

    /// The median round trip of two different hosts.
    pub fn trip(&self, hosts: usize, a: usize, b: usize) -> Option<f64> {
        self.trip_p50[rounds::index(hosts, a, b)]
    }

    /// The goodput from one host to another.
    pub fn rate(&self, hosts: usize, from: usize, to: usize) -> Option<f64> {
        let list = if from < to { &self.forward } else { &self.backward };
        list[rounds::index(hosts, from, to)]
    }

    fn has_counts(&self, hosts: usize) -> bool {
        let pairs = hosts * hosts.saturating_sub(1) / 2;
        [&self.trip_p50, &self.trip_p99, &self.forward, &self.backward]
            .iter()
            .all(|list| list.len() == pairs)
            && self.incast.len() == hosts
    }
}

impl ClusterResults {
    /// Whether a text seems to be results of a cluster, so that other results are read by others.
    pub fn is_one(text: &str) -> bool {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        serde_json::from_str(text).is_ok_and(|head: Head| head.schema.starts_with("gigae.cluster/"))
    }

    /// Reads results.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let results: Self = serde_json::from_str(text)?;
        if results.schema != SCHEMA {
            return Err(ParseError::Schema(results.schema));
        }
        let hosts = results.hosts.len();
        if !(2..=MOST_HOSTS).contains(&hosts) {
            return Err(ParseError::Count("hosts".into()));
        }
        match results.transports.iter().find(|one| !one.has_counts(hosts)) {
            Some(one) => Err(ParseError::Count(one.name.clone())),
            None => Ok(results),
        }
    }

    /// As a JSON file. A line for each list: of half a million pairs, indented figures would be
    /// most of the file.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("results are plain data") + "\n"
    }

    /// All pairs as comma-separated values (RFC 4180): a line for each pair and transport.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "transport,host_a,host_b,trip_p50_us,trip_p99_us,a_to_b_mb_s,b_to_a_mb_s\r\n",
        );
        let count = self.hosts.len();
        let names: Vec<String> = self.hosts.iter().map(|host| quoted(&host.name)).collect();
        let cell = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        for one in &self.transports {
            for a in 0..count {
                for b in a + 1..count {
                    let at = rounds::index(count, a, b);
                    let _ = write!(
                        text,
                        "{},{},{},{},{},{},{}\r\n",
                        one.name,
                        names[a],
                        names[b],
                        cell(one.trip_p50[at]),
                        cell(one.trip_p99[at]),
                        cell(one.forward[at]),
                        cell(one.backward[at]),
                    );
                }
            }
        }
        text
    }
}

/// A cell, in quotes where it needs them. A spreadsheet must not take it for a formula.
fn quoted(text: &str) -> String {
    let text =
        if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.into() };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// With so many digits as a measurement has: results of a thousand hosts are large.
pub(crate) fn rounded(value: f64) -> f64 {
    let digits = if value.abs() < 100.0 { 1e3 } else { 1e1 };
    (value * digits).round() / digits
}

#[cfg(test)]
mod schema;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::synthetic;

    #[test]
    fn results_are_read_as_they_were_written() {
        let results = synthetic(5);
        let text = results.to_json();
        assert!(ClusterResults::is_one(&text) && !ClusterResults::is_one("{\"schema\":\"x\"}"));
        assert_eq!(ClusterResults::parse(&text).unwrap(), results);
        let other = text.replace(SCHEMA, "gigae.cluster/2");
        assert!(ClusterResults::is_one(&other));
        let error = ClusterResults::parse(&other).unwrap_err().to_string();
        assert!(error.contains("gigae.cluster/2"), "{error}");
        let mut fewer = results;
        fewer.transports[0].forward.pop();
        let error = ClusterResults::parse(&fewer.to_json()).unwrap_err().to_string();
        assert!(error.contains("figure for each") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn the_table_has_a_line_for_each_pair_and_transport() {
        let mut results = synthetic(4);
        results.hosts[1].name = "=a,\"b\"".into();
        results.transports[0].trip_p99[0] = None;
        let text = results.to_csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 6);
        assert!(lines[1].starts_with("gigae,h1,\"'=a,\"\"b\"\"\","), "{}", lines[1]);
        assert!(lines.iter().all(|line| !line.is_empty()));
        let cells: Vec<&str> = lines[2].split(',').collect();
        assert_eq!((cells.len(), cells[1], cells[2]), (7, "h1", "h3"));
    }

    #[test]
    fn figures_have_few_digits() {
        assert_eq!([rounded(12.34567), rounded(1234.567)], [12.346, 1234.6]);
    }
}
