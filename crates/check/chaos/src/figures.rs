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
    /// Operations on remote memory: done, lost with their peer, refused since their memory was
    /// gone.
    pub remote: [u64; 3],
    /// Notices of writes.
    pub notices: u64,
    /// Frames that links dropped, their rings being empty.
    pub dropped: u64,
    /// The longest time in milliseconds without a message after one of several links failed.
    pub pause: u64,
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
        self.remote.iter_mut().zip(other.remote).for_each(|(sum, more)| *sum += more);
        self.notices += other.notices;
        self.dropped += other.dropped;
        self.pause = self.pause.max(other.pause);
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
        let Self { tagged, notices, dropped, pause, remote: [done, lost, refused], .. } = self;
        write!(
            f,
            "{runs} runs, {faults} faults, {frames} frames ({repeated} repeated); {sent} messages: \
             {delivered} arrived, {failed} came back, 0 lost; {tagged} tagged messages; remote memory: \
             {done} done, {lost} came back, {refused} refused, {notices} notices"
        )?;
        let unknown = sent.saturating_sub(delivered + failed);
        if unknown > 0 {
            write!(f, "; the end of {unknown} is unknown, since their endpoint was closed")?;
        }
        if *dropped > 0 {
            write!(f, "; {dropped} frames dropped by links")?;
        }
        if *pause > 0 {
            write!(f, "; longest pause {pause} ms")?;
        }
        if !self.errors.is_empty() {
            let errors: Vec<_> =
                self.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            write!(f, "; errors: {}", errors.join(", "))?;
        }
        write!(f, "; TCP {} KB; idle CPU {}.{} %", tcp / 1000, idle / 10, idle % 10)
    }
}
