//! The log: what the library does and why, on standard error.
//!
//! The crates of the library emit events ([`tracing`]). A program that has its own subscriber gets
//! them there. For all others, [`log_to_stderr`] shows those that `GIGAE_LOG` asks for. It has no
//! spans to keep: there are none. Why this is not `tracing-subscriber`:
//! docs/decisions/0059-logs.md.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Once;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Names what is shown.
const VARIABLE: &str = "GIGAE_LOG";

/// What the targets of all events begin with: the names of the crates.
const TARGETS: &str = "gigae";

/// Shows on standard error what `GIGAE_LOG` asks for, from now on, in the whole process: `error`,
/// `warn`, `info`, `debug` or `trace`, or a list of levels by crate, as `info,gigae_proto=debug`. A
/// value that is none of these is said there, and nothing is shown.
///
/// Does nothing if the variable is not set, from the second call on, and in a program that has set
/// a subscriber of [`tracing`] before. The command, the C library and the libfabric provider call
/// it by themselves.
pub fn log_to_stderr() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(wanted) = std::env::var_os(VARIABLE).filter(|wanted| !wanted.is_empty()) else {
            return;
        };
        match wanted.to_string_lossy().parse() {
            Ok(filter) => {
                let log = Log { filter, process: std::process::id() };
                // Events go to the program's own subscriber, if it has one.
                let _ = tracing::subscriber::set_global_default(log);
            }
            Err(why) => {
                say(&format!("gigae: nothing is logged: {VARIABLE} is {wanted:?}: {why}\n"));
            }
        }
    });
}

/// Writes what it can. A failure cannot be reported. Without the standard library's lock: a thread
/// that held it during fork(2) does not exist in the child, which would wait for ever.
fn say(line: &str) {
    let _ = rustix::io::retry_on_intr(|| rustix::io::write(std::io::stderr(), line.as_bytes()));
}

/// Levels by what a target begins with, the longest first; the empty one is for all.
#[derive(Debug, PartialEq)]
struct TargetFilter(Vec<(String, LevelFilter)>);

impl FromStr for TargetFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = |part: &str| {
            let (target, level) = part.split_once('=').unwrap_or(("", part));
            let (target, level) = (target.trim(), level.trim());
            if !target.is_empty() && !target.starts_with(TARGETS) {
                return Err(format!("no target begins with {target:?}; all begin with 'gigae'"));
            }
            // Without a word, `tracing` takes it for `error`.
            let parsed = level.parse::<LevelFilter>().ok().filter(|_| !level.is_empty());
            let level = parsed.ok_or_else(|| {
                format!(
                    "{level:?} is not a level; write error, warn, info, debug, trace, or a list as \
                     info,gigae_proto=debug"
                )
            })?;
            Ok((target.to_owned(), level))
        };
        let mut rules: Vec<_> = text.split(',').map(rule).collect::<Result<_, _>>()?;
        rules.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(Self(rules))
    }
}

impl TargetFilter {
    fn shows(&self, about: &Metadata<'_>) -> bool {
        let rule = self.0.iter().find(|(target, _)| about.target().starts_with(target.as_str()));
        rule.is_some_and(|(_, most)| about.level() <= most)
    }
}

/// Shows events.
struct Log {
    filter: TargetFilter,
    /// Several processes may write to one terminal.
    process: u32,
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.is_event() && self.filter.shows(about)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.filter.0.iter().map(|(_, level)| *level).max()
    }

    fn event(&self, event: &Event<'_>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (now.as_secs(), now.subsec_micros());
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let about = event.metadata();
        let mut line = LogLine(format!(
            "{hour:02}:{minute:02}:{second:02}.{micros:06} {} {:5} {}:",
            self.process,
            about.level(),
            about.target()
        ));
        event.record(&mut line);
        line.0.push('\n');
        say(&line.0);
    }

    // There are no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message, which comes first, and the fields behind it.
struct LogLine(String);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn filter(text: &str) -> Result<Vec<(String, LevelFilter)>, String> {
        text.parse::<TargetFilter>().map(|filter| filter.0)
    }

    #[test]
    fn levels_are_for_all_targets_or_for_some() {
        let all = |level| Ok(vec![(String::new(), level)]);
        assert_eq!(filter("debug"), all(LevelFilter::DEBUG));
        assert_eq!(filter("WARN"), all(LevelFilter::WARN));
        assert_eq!(filter("off"), all(LevelFilter::OFF));
        let proto = ("gigae_proto".to_owned(), LevelFilter::TRACE);
        let rest = (String::new(), LevelFilter::INFO);
        assert_eq!(filter("info, gigae_proto = trace"), Ok(vec![proto, rest]));
    }

    /// As in a child process of a thread that held the lock.
    #[test]
    fn a_line_is_written_whoever_holds_the_lock_of_standard_error() {
        let lock = std::io::stderr().lock();
        let (said, is_said) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            say("");
            let _ = said.send(());
        });
        let came = is_said.recv_timeout(std::time::Duration::from_secs(10));
        drop(lock);
        thread.join().unwrap();
        assert_eq!(came, Ok(()));
    }

    #[test]
    fn what_is_no_level_is_refused_with_what_to_write() {
        for wrong in ["debgu", "info,", "gigae_proto", "gigae_proto=all", "=", " "] {
            let why = filter(wrong).unwrap_err();
            assert!(why.contains("is not a level; write error, warn, info"), "{wrong}: {why}");
        }
        let why = filter("proto=debug").unwrap_err();
        assert!(why.contains("all begin with 'gigae'"), "{why}");
    }

    #[test]
    fn a_line_has_the_message_and_then_the_fields() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        struct CapturingSubscriber;
        impl Subscriber for CapturingSubscriber {
            fn enabled(&self, _: &Metadata<'_>) -> bool {
                true
            }
            fn new_span(&self, _: &Attributes<'_>) -> Id {
                Id::from_u64(1)
            }
            fn record(&self, _: &Id, _: &Record<'_>) {}
            fn record_follows_from(&self, _: &Id, _: &Id) {}
            fn event(&self, event: &Event<'_>) {
                let mut line = LogLine(String::new());
                event.record(&mut line);
                assert_eq!(line.0, " session up peer=02:00:00:00:00:02 name=\"a\\n\" id=7");
                SEEN.store(true, Relaxed);
            }
            fn enter(&self, _: &Id) {}
            fn exit(&self, _: &Id) {}
        }
        tracing::subscriber::with_default(CapturingSubscriber, || {
            let peer = gigae_wire::MacAddr([2, 0, 0, 0, 0, 2]);
            tracing::info!(%peer, name = ?"a\n", id = 7, "session up");
        });
        assert!(SEEN.load(Relaxed));
    }
}
