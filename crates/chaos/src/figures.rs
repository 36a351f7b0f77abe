//! What was tried, and what came of it.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of one run or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Runs.
    pub runs: u64,
    /// Faults that were brought about.
    pub faults: u64,
    /// Frames that endpoints sent, as far as their processes lived to say so.
    pub frames: u64,
    /// Frames that were sent again.
    pub repeated: u64,
    /// Messages accepted for sending.
    pub sent: u64,
    /// Messages that arrived, each compared.
    pub delivered: u64,
    /// Tagged messages that were received, each compared.
    pub tagged: u64,
    /// Messages that were handed back as failed.
    pub failed: u64,
    /// Errors of calls by kind, and messages that failed by reason.
    pub errors: BTreeMap<String, u64>,
    /// Bytes that went by TCP and came back as they were.
    pub tcp: u64,
    /// Most CPU time of an end with nothing to do, in parts of a thousand of one processor.
    pub idle: u64,
}

impl std::ops::AddAssign<&Figures> for Figures {
    fn add_assign(&mut self, other: &Figures) {
        self.runs += other.runs;
        self.faults += other.faults;
        self.frames += other.frames;
        self.repeated += other.repeated;
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.tagged += other.tagged;
        self.failed += other.failed;
        self.tcp += other.tcp;
        self.idle = self.idle.max(other.idle);
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, faults, frames, repeated, sent, delivered, failed, tcp, idle, .. } = self;
        let tagged = self.tagged;
        write!(
            f,
            "{runs} runs, {faults} faults, {frames} frames ({repeated} repeated); {sent} messages: \
             {delivered} arrived, {failed} came back, 0 lost; {tagged} tagged messages"
        )?;
        let untold = sent.saturating_sub(delivered + failed);
        if untold > 0 {
            write!(f, "; of {untold} nobody was left to be told, their endpoint being at its end")?;
        }
        if !self.errors.is_empty() {
            let errors: Vec<_> =
                self.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            write!(f, "; errors: {}", errors.join(", "))?;
        }
        write!(f, "; TCP {} KB; idle CPU {}.{} %", tcp / 1000, idle / 10, idle % 10)
    }
}
