//! What is left of a Gigabit Ethernet under loss, by window and recovery mode, and of 100 Gbit/s by
//! window and delay: tables in virtual time, and so exact ones, whose change shows a change of the
//! protocol.

use gigae::{Address, Endpoint, Options, TrySendError, Wait};
use gigae_sim::{Faults, Network};
use std::fmt::Write;
use std::time::Duration;

/// Losses of frames in either direction, in thousandths.
const LOSSES: [u32; 7] = [0, 1, 10, 30, 100, 200, 300];

/// Send windows in frames; receive and reorder windows are as large.
const WINDOWS: [u16; 4] = [4, 16, 64, 256];

/// Virtual time per cell.
const TIME: Duration = Duration::from_millis(100);

/// Bytes per second of a Gigabit Ethernet.
const RATE: u64 = 125_000_000;

/// Send windows in frames at 100 Gbit/s.
const FAST_WINDOWS: [u16; 4] = [128, 256, 512, 1024];

/// Microseconds from one end to the other there.
const DELAYS: [u64; 6] = [1, 5, 10, 25, 50, 100];

/// Virtual time per cell there.
const SHORT_TIME: Duration = Duration::from_millis(5);

/// The tables as text.
pub fn tables() -> String {
    table() + "\n" + &fast_table()
}

/// By window and delay at 100 Gbit/s: whether credit and flight grow until the network is full.
fn fast_table() -> String {
    let mut out = String::from(
        "Goodput in GB/s of full frames (1,468 bytes of message) on a simulated 100 Gbit/s, without loss,\n\
         with a buffer of 16 MiB, over 5 ms of virtual time. Both ends take no time for a frame.\n\n",
    );
    let _ = write!(out, "{:<18}", "one way");
    for window in FAST_WINDOWS {
        let _ = write!(out, "{:>12}", format!("window {window}"));
    }
    out.push('\n');
    for micros in DELAYS {
        let _ = write!(out, "{:<18}", format!("{micros} us"));
        for window in FAST_WINDOWS {
            let delay = Duration::from_micros(micros);
            let faults = Faults { delay, rate: 100 * RATE, buffer: 16 << 20, ..Faults::default() };
            // A frame takes 0.12 us.
            let bytes = goodput(faults, (window, false), (SHORT_TIME, 100));
            let _ = write!(out, "{:>12.2}", bytes as f64 / SHORT_TIME.as_secs_f64() / 1e9);
        }
        out.push('\n');
    }
    out
}

/// By window, loss and recovery mode at 1 Gbit/s.
fn table() -> String {
    let mut out = String::from(
        "Goodput in MB/s of full frames (1,468 bytes of message) on a simulated Gigabit Ethernet, 10 us\n\
         away, with a buffer of 128 KiB, over 100 ms of virtual time. Loss is of frames either way;\n\
         preamble and gap between frames take no time.\n",
    );
    for (name, go_back_n) in [("selective repeat", false), ("go-back-N", true)] {
        let _ = write!(out, "\n{name:<18}");
        for window in WINDOWS {
            let _ = write!(out, "{:>12}", format!("window {window}"));
        }
        out.push('\n');
        for loss in LOSSES {
            let _ = write!(out, "{:<18}", format!("loss {:.1} %", f64::from(loss) / 10.0));
            for window in WINDOWS {
                let (loss, delay) = (f64::from(loss) / 1000.0, Duration::from_micros(10));
                let faults =
                    Faults { loss, delay, rate: RATE, buffer: 128 << 10, ..Faults::default() };
                // Both look every two microseconds: far less than a frame takes.
                let bytes = goodput(faults, (window, go_back_n), (TIME, 2_000));
                let rate = bytes as f64 / TIME.as_secs_f64() / 1e6;
                let _ = write!(out, "{rate:>12.1}");
            }
            out.push('\n');
        }
    }
    out
}

/// Bytes of messages that are received in this time, if both ends look so often (in nanoseconds).
fn goodput(
    faults: Faults,
    (window, go_back_n): (u16, bool),
    (time, look): (Duration, u64),
) -> usize {
    let net = Network::new(1, faults);
    let open = |seed| {
        let options = Options::new("simulated").wait(Wait::Sleep).linger(Duration::ZERO);
        let options = options.tuned(1024, |config| {
            config.send_window = window;
            config.receive_window = window;
            config.reorder_window = if go_back_n { 0 } else { window };
        });
        options.open_simulated(&net, seed).expect("memory for frames")
    };
    let (a, b): (Endpoint, Endpoint) = (open(1), open(2));
    let to = a.peer(Address::from(b.link().mac)).expect("there is room");
    let message = [7; 1468];
    let mut received = 0;
    while net.now() < time.as_nanos() as u64 {
        loop {
            match a.try_send(to, &message) {
                Ok(()) => {}
                Err(TrySendError::WouldBlock(())) => break,
                Err(e) => unreachable!("the peer answers within its timeout: {e}"),
            }
        }
        while let Ok(Some(message)) = b.try_recv() {
            received += message.len();
        }
        net.advance_to(net.now() + look);
    }
    received
}
