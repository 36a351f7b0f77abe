//! What befalls a card in mid-traffic: down and up, another MTU, its driver taken away.

use super::exchange::{ExchangeProgress, Wanted, exchange};
use super::serial::Serial;
use super::testbed::{MTU, Testbed};
use super::traffic::tcp;
use crate::job::{Job, Report};
use gigae::Backend;
use std::time::Duration;

/// Messages each way, and when it happens.
const MESSAGES: u32 = 4000;
const AT: u32 = 500;

/// How long an interface stays as it was made.
const LASTS: Duration = Duration::from_millis(300);

/// Long enough for a card that negotiates its link for seconds.
const PATIENT: Duration = Duration::from_secs(30);

/// A peer whose driver is gone does not come back by itself.
const IMPATIENT: Duration = Duration::from_secs(2);

/// An MTU that every card has, and that is shorter than the messages.
const SHORT: u32 = 1000;

type EventFn = fn(&Testbed, &ExchangeProgress) -> Result<(), String>;

/// All of them, over the best mode and over AF_PACKET.
pub(super) fn run(_job: &Job, testbed: &Testbed, serial: &Serial) -> Result<(), String> {
    let events: [(&str, EventFn, bool); 4] = [
        ("down and up", down_and_up, false),
        ("MTU 1000 and back", shorter_mtu, false),
        ("unbound and bound", unbound, true),
        ("TCP after all", nothing, false),
    ];
    for (name, backend) in [("auto", Backend::Auto), ("packet", Backend::Packet)] {
        for (what, event, may_fail) in events {
            serial.progress(format!("{what}, {name}"));
            let peer_timeout = if may_fail { IMPATIENT } else { PATIENT };
            let wanted = Wanted { backend, messages: MESSAGES, peer_timeout, may_fail };
            let mut result = exchange(testbed, wanted, |progress| {
                progress.await_received(AT);
                match what {
                    "TCP after all" => tcp(testbed, progress),
                    _ => event(testbed, progress).map(|()| 0),
                }
            });
            result.of = format!("{what}, {name}");
            serial.send(&Report::Exchange(result));
            testbed.restore().map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn nothing(_: &Testbed, _: &ExchangeProgress) -> Result<(), String> {
    Ok(())
}

fn down_and_up(testbed: &Testbed, progress: &ExchangeProgress) -> Result<(), String> {
    for (i, end) in (1..).zip(&testbed.ends) {
        progress.await_received(i * AT);
        end.up(false).map_err(|error| format!("taking it down: {error}"))?;
        std::thread::sleep(LASTS);
        end.up(true).map_err(|error| format!("bringing it up: {error}"))?;
        end.await_carrier().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn shorter_mtu(testbed: &Testbed, _: &ExchangeProgress) -> Result<(), String> {
    let set = |mtu| testbed.ends[1].mtu(mtu).map_err(|error| format!("MTU {mtu}: {error}"));
    set(SHORT)?;
    std::thread::sleep(LASTS);
    set(MTU)
}

fn unbound(testbed: &Testbed, _: &ExchangeProgress) -> Result<(), String> {
    let end = &testbed.ends[1];
    end.unbind().map_err(|error| format!("unbinding: {error}"))?;
    std::thread::sleep(LASTS);
    end.bind().map_err(|error| format!("binding: {error}"))
}
