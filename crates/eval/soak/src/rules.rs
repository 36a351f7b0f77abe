//! What is a deviation: rules over the samples of all ends, without a clock and without side
//! effects.
//!
//! | counter | rises: |
//! |---|---|
//! | changes of carrier | deviation |
//! | `rx_errors`, `rx_crc_errors`, `tx_carrier_errors` and the kernel's other errors, collisions | deviation |
//! | a driver's counters whose names say error, CRC, timeout, reset, hang | deviation |
//! | `rx_dropped`, `tx_dropped`, `rx_missed_errors`, `rx_fifo_errors`, `rx_over_errors`, a driver's drops | figure: a full queue drops under load |
//! | GigaE: failed messages, damaged frames, black holes, refused descriptors | deviation |
//! | GigaE: retransmissions, timeouts, STOPs, duplicates and what was out of its window, drops | figure |
//! | TCP: segments with errors | deviation |
//! | TCP: retransmissions | figure |
//! | any counter falls | deviation: the driver was reset |
//!
//! Drops by full queues of the switch are figures, too. A carrier that is off is a deviation, and
//! so is a kernel message of warning level that names the device, or of critical level about
//! anything.

use gigae_eval_model::soak::KernelMessage;
use gigae_eval_model::soak::{DeviationKind, FoundDeviation, Passed};
use gigae_eval_model::soak::{GigaeCounters, Sample};
use gigae_eval_model::traffic::{STREAMS, Stream};
use std::collections::BTreeMap;
use std::time::Duration;

/// Level of a kernel message that is a warning; lower ones are worse.
pub const WARNING: u8 = 4;
/// Level of one that is grave whatever it is about.
const CRITICAL: u8 = 2;

/// A process takes what it needs, and its allocator settles, within this time.
pub const SETTLED: Duration = Duration::from_secs(60);
/// Resident memory may be larger by half than when it had settled, and by so much.
const MORE_MEMORY: u64 = 32 << 20;
/// Open descriptors may be more by this many.
const MORE_DESCRIPTORS: u64 = 16;

/// Words in drivers' names of counters that mean that something is broken.
const BROKEN: [&str; 8] = ["err", "crc", "timeout", "reset", "hang", "hung", "abort", "fault"];
/// Words that mean that there was no room.
const NO_ROOM: [&str; 7] = ["drop", "miss", "fifo", "no_buf", "over", "discard", "no_dma"];

/// Whether a driver's counter is watched.
pub fn is_of_interest(counter: &str) -> bool {
    is_error(counter) || is_drop(counter)
}

/// Whether a counter is one of frames for which there was no room.
pub fn is_drop(counter: &str) -> bool {
    NO_ROOM.iter().any(|word| counter.contains(word))
}

fn is_error(counter: &str) -> bool {
    counter == "collisions"
        || (!is_drop(counter) && BROKEN.iter().any(|word| counter.contains(word)))
}

/// Whether a kernel message is a deviation.
pub fn is_grave(message: &KernelMessage) -> bool {
    let text = message.text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    message.level <= CRITICAL
        || message.ours
            && (message.level <= WARNING || says(&["reset", "timed out", "hung", "hang"]))
}

/// What rules remember of an end.
#[derive(Default)]
struct Remembered {
    last: Option<Sample>,
    /// When each stream of each peer last brought something.
    moved: Vec<[Duration; STREAMS.len()]>,
    stalled: Vec<[bool; STREAMS.len()]>,
    process: Option<SettledProcess>,
}

/// A process as it was when it had settled, and whether its growth was reported.
struct SettledProcess {
    pid: u32,
    since: Duration,
    rss: u64,
    descriptors: u64,
    reported: bool,
}

/// The rules, and what they remember.
pub struct SoakRules {
    stall: Duration,
    ends: BTreeMap<String, Remembered>,
}

impl SoakRules {
    /// Nothing for longer than `stall` is a stall.
    pub fn new(stall: Duration) -> Self {
        Self { stall, ends: BTreeMap::new() }
    }

    /// A new round begins: endpoints and connections are new, and counters count from there.
    pub fn begin_round(&mut self) {
        for end in self.ends.values_mut() {
            *end = Remembered { process: end.process.take(), ..Remembered::default() };
        }
    }

    /// Judges a sample of an end, taken at a time since the soak began.
    pub fn judge(&mut self, end: &str, at: Duration, sample: &Sample) -> Vec<FoundDeviation> {
        let mut found = sample.found.clone();
        if sample.more > 0 {
            found.push(FoundDeviation::new(
                DeviationKind::Failed,
                format!("and {} more of such", sample.more),
            ));
        }
        found.extend(
            sample.ended.iter().map(|why| FoundDeviation::new(DeviationKind::Failed, why.clone())),
        );
        let remembered = self.ends.entry(end.to_owned()).or_default();
        kernel(sample, &mut found);
        links(remembered.last.as_ref(), sample, &mut found);
        if let Some(last) = &remembered.last {
            protocols(last, sample, &mut found);
        }
        growth(&mut remembered.process, at, sample, &mut found);
        stalls(remembered, at, self.stall, &sample.passed, &mut found);
        remembered.last = Some(sample.clone());
        found
    }
}

fn kernel(sample: &Sample, found: &mut Vec<FoundDeviation>) {
    let grave = sample.kernel.iter().filter(|message| is_grave(message));
    found.extend(
        grave.map(|message| FoundDeviation::new(DeviationKind::Kernel, message.text.clone())),
    );
}

fn links(last: Option<&Sample>, sample: &Sample, found: &mut Vec<FoundDeviation>) {
    for now in &sample.interfaces {
        let name = &now.name;
        let before = last.and_then(|last| last.interfaces.iter().find(|i| i.name == *name));
        let changes = before.map_or(0, |before| now.changes.saturating_sub(before.changes));
        let down = now.up == Some(false);
        // A link that stays down is reported once.
        let was_down = before.is_some_and(|before| before.up == Some(false));
        if changes > 0 {
            let state = if down { "down" } else { "up" };
            let what = format!("{name}: the link changed {changes} times and is {state}");
            found.push(FoundDeviation::new(DeviationKind::Link, what));
        } else if down && !was_down {
            found.push(FoundDeviation::new(
                DeviationKind::Link,
                format!("{name}: the link is down"),
            ));
        }
        for (counter, value) in &now.counters {
            let before = before.and_then(|before| before.counters.get(counter));
            rise(&format!("{name}: {counter}"), before, *value, is_error(counter), found);
        }
    }
}

/// A counter that falls was reset; one of errors must not rise.
fn rise(
    name: &str,
    before: Option<&u64>,
    now: u64,
    is_error: bool,
    found: &mut Vec<FoundDeviation>,
) {
    match before {
        Some(before) if now < *before => found.push(FoundDeviation::new(
            DeviationKind::Errors,
            format!("{name} fell from {before} to {now}: the driver was reset"),
        )),
        Some(before) if now > *before && is_error => {
            let what = format!("{name} rose by {} to {now}", now - before);
            found.push(FoundDeviation::new(DeviationKind::Errors, what));
        }
        _ => {}
    }
}

fn protocols(last: &Sample, sample: &Sample, found: &mut Vec<FoundDeviation>) {
    let mut check = |kind, name: &str, before: u64, now: u64| {
        if now > before {
            found.push(FoundDeviation::new(kind, format!("{name} rose by {}", now - before)));
        }
    };
    let (before, now): (&GigaeCounters, &GigaeCounters) = (&last.gigae, &sample.gigae);
    check(DeviationKind::Failed, "gigae: failed messages", before.failed, now.failed);
    check(DeviationKind::Errors, "gigae: damaged frames", before.damaged, now.damaged);
    check(DeviationKind::Errors, "gigae: black holes", before.black_holes, now.black_holes);
    check(DeviationKind::Errors, "gigae: refused descriptors", before.invalid, now.invalid);
    check(DeviationKind::Errors, "TCP: segments with errors", last.tcp.errors, sample.tcp.errors);
}

/// A process may grow until it has settled, and then within a bound. More growth is reported once.
fn growth(
    known: &mut Option<SettledProcess>,
    at: Duration,
    sample: &Sample,
    found: &mut Vec<FoundDeviation>,
) {
    let (rss, descriptors) = (sample.rss, sample.descriptors);
    let process = match known {
        Some(process) if process.pid == sample.pid => process,
        _ => known.insert(SettledProcess {
            pid: sample.pid,
            since: at,
            rss,
            descriptors,
            reported: false,
        }),
    };
    if at < process.since + SETTLED {
        process.rss = process.rss.max(rss);
        process.descriptors = process.descriptors.max(descriptors);
    } else if !process.reported {
        let bound = process.rss + process.rss / 2 + MORE_MEMORY;
        let before = process.rss >> 20;
        if rss > bound {
            let what = format!("the process has {} MiB and had settled at {before}", rss >> 20);
            found.push(FoundDeviation::new(DeviationKind::Memory, what));
        }
        if descriptors > process.descriptors + MORE_DESCRIPTORS {
            let before = process.descriptors;
            let what = format!("the process has {descriptors} descriptors and had {before}");
            found.push(FoundDeviation::new(DeviationKind::Memory, what));
        }
        process.reported = rss > bound || descriptors > process.descriptors + MORE_DESCRIPTORS;
    }
}

/// Every stream of every peer must bring something now and then. Each stall is reported once.
fn stalls(
    end: &mut Remembered,
    at: Duration,
    longest: Duration,
    passed: &[Passed],
    found: &mut Vec<FoundDeviation>,
) {
    end.moved.resize(passed.len(), [at; STREAMS.len()]);
    end.stalled.resize(passed.len(), [false; STREAMS.len()]);
    let received = |passed: &[Passed], peer: usize, stream: Stream| {
        passed.get(peer).map(|streams: &Passed| streams[stream as usize].received.bytes)
    };
    for peer in 0..passed.len() {
        for stream in STREAMS {
            let before = end.last.as_ref().and_then(|last| received(&last.passed, peer, stream));
            let (moved, stalled) =
                (&mut end.moved[peer][stream as usize], &mut end.stalled[peer][stream as usize]);
            if before != received(passed, peer, stream) {
                (*moved, *stalled) = (at, false);
            } else if at.saturating_sub(*moved) > longest && !*stalled {
                *stalled = true;
                let for_long = at.saturating_sub(*moved).as_secs();
                let what =
                    format!("{}, peer {}: nothing for {for_long} s", stream.name(), peer + 1);
                found.push(FoundDeviation::new(DeviationKind::Stall, what));
            }
        }
    }
}

/// At the end of a round: what one end sent the other must have received.
pub fn missing(sender: &Passed, receiver: &Passed) -> Vec<FoundDeviation> {
    let differ = |stream: &Stream| {
        let (sent, received) = (sender[*stream as usize].sent, receiver[*stream as usize].received);
        (sent != received).then(|| {
            let what = format!(
                "{}: {} ({} bytes) were sent and {} ({} bytes) verified",
                stream.name(),
                sent.count,
                sent.bytes,
                received.count,
                received.bytes
            );
            FoundDeviation::new(DeviationKind::Lost, what)
        })
    };
    STREAMS.iter().filter_map(differ).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::soak::{Amount, Both, Interface};

    const STALL: Duration = Duration::from_secs(30);

    fn calm() -> Sample {
        let counters = ["rx_errors", "rx_crc_errors", "rx_dropped", "rx_missed_errors"]
            .map(|name| (name.to_owned(), 5));
        Sample {
            pid: 1,
            rss: 20 << 20,
            descriptors: 20,
            interfaces: vec![Interface {
                name: "eth0".into(),
                up: Some(true),
                changes: 2,
                counters: counters.into(),
            }],
            passed: vec![Passed::default()],
            ..Sample::default()
        }
    }

    /// What is found in the second sample of two.
    fn after(change: impl FnOnce(&mut Sample)) -> Vec<DeviationKind> {
        let mut rules = SoakRules::new(STALL);
        assert_eq!(rules.judge("hub", Duration::ZERO, &calm()), []);
        let mut sample = calm();
        change(&mut sample);
        let found = rules.judge("hub", Duration::from_secs(5), &sample);
        found.into_iter().map(|finding| finding.kind).collect()
    }

    fn set(sample: &mut Sample, counter: &str, value: u64) {
        sample.interfaces[0].counters.insert(counter.into(), value);
    }

    #[test]
    fn calm_is_no_deviation() {
        assert_eq!(after(|_| {}), []);
    }

    #[test]
    fn a_flap_is_reported_even_if_the_link_is_up_again() {
        assert_eq!(after(|sample| sample.interfaces[0].changes += 2), [DeviationKind::Link]);
        assert_eq!(after(|sample| sample.interfaces[0].up = Some(false)), [DeviationKind::Link]);
        assert_eq!(after(|sample| sample.interfaces[0].up = None), []);
    }

    #[test]
    fn errors_are_deviations_and_drops_are_figures() {
        assert_eq!(after(|sample| set(sample, "rx_errors", 6)), [DeviationKind::Errors]);
        assert_eq!(after(|sample| set(sample, "rx_crc_errors", 9)), [DeviationKind::Errors]);
        assert_eq!(after(|sample| set(sample, "rx_dropped", 900)), []);
        assert_eq!(after(|sample| set(sample, "rx_missed_errors", 900)), []);
        for name in ["driver:tx_timeout_count", "driver:rx_queue_0_crc", "tx_carrier_errors"] {
            assert!(is_of_interest(name) && is_error(name), "{name}");
        }
        for name in ["driver:rx_no_buffer", "driver:rx_queue_0_drops", "rx_fifo_errors"] {
            assert!(is_of_interest(name) && !is_error(name), "{name}");
        }
        assert!(!is_of_interest("rx_packets") && !is_of_interest("peer_ifindex"));
    }

    #[test]
    fn a_counter_that_falls_is_a_reset() {
        assert_eq!(after(|sample| set(sample, "rx_dropped", 0)), [DeviationKind::Errors]);
    }

    #[test]
    fn what_the_protocols_count_is_judged() {
        assert_eq!(after(|sample| sample.gigae.failed = 1), [DeviationKind::Failed]);
        assert_eq!(after(|sample| sample.gigae.damaged = 1), [DeviationKind::Errors]);
        assert_eq!(after(|sample| sample.gigae.black_holes = 1), [DeviationKind::Errors]);
        assert_eq!(after(|sample| sample.gigae.invalid = 1), [DeviationKind::Errors]);
        assert_eq!(after(|sample| sample.tcp.errors = 1), [DeviationKind::Errors]);
        assert_eq!(
            after(|sample| {
                sample.gigae.retransmissions = 9;
                sample.gigae.discarded = 9;
                sample.gigae.dropped = 9;
                sample.tcp.retransmissions = 9;
            }),
            []
        );
    }

    #[test]
    fn what_workers_found_is_passed_on() {
        let found = FoundDeviation::new(DeviationKind::Torn, "x");
        assert_eq!(after(|sample| sample.found.push(found)), [DeviationKind::Torn]);
        assert_eq!(after(|sample| sample.ended = Some("x".into())), [DeviationKind::Failed]);
        assert_eq!(after(|sample| sample.more = 3), [DeviationKind::Failed]);
    }

    #[test]
    fn kernel_messages_count_by_level_and_device() {
        let grave =
            |level, ours, text: &str| is_grave(&KernelMessage { level, ours, text: text.into() });
        assert!(grave(4, true, "odd") && grave(6, true, "Reset adapter") && grave(1, false, "x"));
        assert!(!grave(4, false, "odd") && !grave(6, true, "renamed") && !grave(3, false, "x"));
        let message = KernelMessage { level: 4, ours: true, text: "x".into() };
        assert_eq!(after(|sample| sample.kernel.push(message)), [DeviationKind::Kernel]);
    }

    #[test]
    fn growth_is_reported_once_and_only_after_the_process_has_settled() {
        let mut rules = SoakRules::new(Duration::MAX);
        let mut judge = |seconds, rss: u64, descriptors, pid| {
            let sample = Sample { rss: rss << 20, descriptors, pid, ..calm() };
            rules.judge("hub", Duration::from_secs(seconds), &sample).len()
        };
        assert_eq!(judge(0, 10, 20, 1), 0);
        assert_eq!(judge(50, 100, 20, 1), 0, "it settles");
        assert_eq!(judge(70, 150, 30, 1), 0, "within the bound");
        assert_eq!(judge(80, 190, 40, 1), 2);
        assert_eq!(judge(90, 300, 40, 1), 0, "reported already");
        assert_eq!(judge(100, 300, 40, 2), 0, "another process");
    }

    #[test]
    fn a_stall_is_reported_once_and_again_after_it_moved() {
        let mut rules = SoakRules::new(STALL);
        let mut bytes = 0;
        let mut judge = |seconds, moves: bool| {
            bytes += u64::from(moves);
            let amount = Amount { count: bytes, bytes };
            let both = Both { sent: Amount::default(), received: amount };
            let sample = Sample { passed: vec![[both; STREAMS.len()]], ..calm() };
            rules.judge("hub", Duration::from_secs(seconds), &sample).len()
        };
        assert_eq!(judge(0, false), 0);
        assert_eq!(judge(25, true), 0);
        assert_eq!(judge(50, false), 0);
        assert_eq!(judge(60, false), STREAMS.len());
        assert_eq!(judge(100, false), 0, "reported already");
        assert_eq!(judge(110, true), 0);
        assert_eq!(judge(145, false), STREAMS.len());
    }

    #[test]
    fn a_new_round_counts_from_zero() {
        let mut rules = SoakRules::new(STALL);
        let busy = Sample { gigae: GigaeCounters { failed: 7, ..Default::default() }, ..calm() };
        rules.judge("hub", Duration::ZERO, &busy);
        rules.begin_round();
        assert_eq!(rules.judge("hub", Duration::from_secs(100), &calm()), []);
    }

    #[test]
    fn what_was_sent_and_not_verified_is_lost() {
        let mut passed = [Passed::default(); 2];
        assert_eq!(missing(&passed[0], &passed[1]), []);
        passed[0][Stream::Tagged as usize].sent = Amount { count: 2, bytes: 9 };
        passed[1][Stream::Tagged as usize].received = Amount { count: 1, bytes: 4 };
        let found = missing(&passed[0], &passed[1]);
        assert_eq!((found.len(), found[0].kind), (1, DeviationKind::Lost));
    }
}
