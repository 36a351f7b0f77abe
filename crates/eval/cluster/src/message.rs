//! What rank 0 and the others say over their control connections.

use crate::results::About;
use gigae_eval_measure::probe::Answered;
use gigae_eval_measure::site::ChannelAddress;
use gigae_eval_measure::transport::Task;
use serde::{Deserialize, Serialize};

/// Characters that are kept of what another rank says in words.
const MOST_WORDS: usize = 400;

/// What another rank says in words, for a terminal and for reports.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST_WORDS).collect()
}

/// What another rank says of its host, in the same way.
pub(crate) fn printable_about(about: &About) -> About {
    let About { kernel, cpu, driver, gigae } = about;
    let [kernel, cpu, driver, gigae] = [kernel, cpu, driver, gigae].map(|text| printable(text));
    About { kernel, cpu, driver, gigae }
}

/// What rank 0 wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    /// You measure. Of the hosts of your machine you are the one in this place.
    Measure {
        /// The place, from 0.
        place: usize,
        /// How many hosts your machine has.
        of: usize,
    },
    /// Close what is open, and open these ends.
    Open(Vec<End>),
    /// Join your ends with these addresses, and measure. No address: leave this end out.
    Run(Vec<Option<ChannelAddress>>),
    /// Those who send to you are done, and have sent this many bytes each.
    Finish(Vec<u64>),
    /// The run goes on without you for now.
    Wait,
    /// The run is over, or you are not needed.
    Over,
}

/// One end that a rank opens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// What to do.
    pub(crate) task: Task,
    /// Whether this end asks or sends.
    pub(crate) asks: bool,
}

/// What a rank answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Report {
    /// The first thing: who it is.
    Hello {
        /// Its rank.
        rank: u32,
        /// Its host.
        about: About,
    },
    /// To [`Command::Open`].
    Opened(Vec<Result<ChannelAddress, Failure>>),
    /// To [`Command::Run`], of the ends that ask, in their order.
    Asked(Vec<Result<Sent, Failure>>),
    /// To [`Command::Finish`], of the ends that answer, in their order.
    Answered(Vec<Result<Answered, Failure>>),
}

/// What an end that asks has measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sent {
    /// Bytes that it sent.
    pub(crate) bytes: u64,
    /// How long that took, in seconds.
    pub(crate) seconds: f64,
    /// Segments or frames that were sent again.
    pub(crate) repeated: u64,
    /// Round trips.
    pub(crate) trips: Option<Trips>,
    /// What the transport says of itself.
    pub(crate) note: Option<String>,
}

/// Round trips in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trips {
    /// The median.
    pub(crate) p50: f64,
    /// The 99th percentile.
    pub(crate) p99: f64,
    /// How many there were.
    pub(crate) n: u64,
}

/// An end has no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    /// Why, in one line.
    pub(crate) reason: String,
    /// The transport cannot be used there at all.
    pub(crate) unavailable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_another_rank_are_short_and_without_control_characters() {
        let text = format!("a\u{1b}[2J\n{}", "x".repeat(100_000));
        let about =
            About { kernel: text.clone(), cpu: text.clone(), driver: text.clone(), gigae: text };
        let About { kernel, cpu, driver, gigae } = printable_about(&about);
        for word in [kernel, cpu, driver, gigae] {
            assert!(word.starts_with("a [2J x") && word.chars().count() == MOST_WORDS, "{word}");
            assert!(!word.chars().any(char::is_control), "{word}");
        }
    }
}
