//! The suite for all links, on the cards: every mode that opens, and AF_PACKET.

use super::modes;
use super::serial::Serial;
use super::testbed::{GuestEnd, MTU, Testbed};
use crate::job::{Job, Report, Test};
use gigae::{Backend, Mode};
use gigae_link::conformance::{Enter, Kernels, LinkPair, PairOptions};
use gigae_link::{Link, conformance_tests};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_wire::{Envelope, NodeAddr, Route};
use gigae_xdp::{XdpConfig, XdpLink};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// What the pairs are made on: the suite's makers are functions without a state.
static TESTBED: OnceLock<&'static Testbed> = OnceLock::new();

/// The MTU at which they are made.
static NOW: AtomicUsize = AtomicUsize::new(MTU as usize);

/// What the cards hold.
static HELD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// What a panic said last.
static SAID: Mutex<String> = Mutex::new(String::new());

const UDP: Envelope = Envelope::Udp { port: 4791 };

/// Tests of thousands of round trips, which take an emulator half a minute. They are done in the
/// mode that the self-test chooses, at the usual MTU.
const SLOW: [&str; 2] =
    ["two_threads_echo_each_others_frames", "two_threads_echo_the_longest_frames"];

type Tests = [(&'static str, fn()); 32];

/// Runs all of it.
pub(super) fn run(job: &Job, testbed: &'static Testbed, serial: &Serial) -> Result<(), String> {
    TESTBED.get_or_init(|| testbed);
    HELD.store(job.held, Ordering::Relaxed);
    let former = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut said) = SAID.lock() {
            *said = info.to_string().replace('\n', " ");
        }
    }));
    let outcome = modes::mtus(job).into_iter().try_for_each(|mtu| {
        modes::set_mtu(testbed, mtu)?;
        NOW.store(mtu as usize, Ordering::Relaxed);
        let chosen = modes::try_open(testbed, Backend::Auto).0.filter(|_| mtu == MTU);
        for (name, tests) in suites(mtu, testbed) {
            let slow = chosen.as_ref().is_some_and(|mode| mode.ends_with(name));
            suite(&format!("{name}, MTU {mtu}"), &tests, slow, serial);
        }
        Ok(())
    });
    std::panic::set_hook(former);
    outcome
}

/// Those that can be run at an MTU, with their names. Beyond the usual one, the best mode and
/// AF_PACKET: what long frames add is above the driver's modes.
fn suites(mtu: u32, testbed: &Testbed) -> Vec<(&'static str, Tests)> {
    let mode = |mode| Backend::XdpMode(mode);
    let long: [(&str, Backend, Tests); 2] = [
        ("best", Backend::Xdp, conformance_tests!("", Envelope::DEFAULT, best, now_mtu(), held())),
        (
            "packet",
            Backend::Packet,
            conformance_tests!("", Envelope::DEFAULT, packet, now_mtu(), held()),
        ),
    ];
    let all: [(&str, Backend, Tests); 5] = [
        (
            "zero-copy",
            mode(Mode::XdpZeroCopy),
            conformance_tests!("", Envelope::DEFAULT, zero_copy, now_mtu(), held()),
        ),
        (
            "native",
            mode(Mode::XdpNative),
            conformance_tests!("", Envelope::DEFAULT, native, now_mtu(), held()),
        ),
        (
            "generic",
            mode(Mode::XdpGeneric),
            conformance_tests!("", Envelope::DEFAULT, generic, now_mtu(), held()),
        ),
        (
            "packet",
            Backend::Packet,
            conformance_tests!("", Envelope::DEFAULT, packet, now_mtu(), held()),
        ),
        ("best in UDP", Backend::Xdp, conformance_tests!("", UDP, best, now_mtu(), held())),
    ];
    let chosen = if mtu == MTU { &all[..] } else { &long[..] };
    chosen
        .iter()
        .filter(|(_, backend, _)| modes::try_open(testbed, *backend).0.is_some())
        .map(|(name, _, tests)| (*name, *tests))
        .collect()
}

/// The MTU of the cards now.
fn now_mtu() -> usize {
    NOW.load(Ordering::Relaxed)
}

/// What the cards hold, in frames.
fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

fn suite(of: &str, tests: &Tests, slow: bool, serial: &Serial) {
    serial.progress(format!("conformance: {of}"));
    let tests = tests.iter().map(|(name, test)| (name.trim_start_matches("::"), test));
    for (name, test) in tests.filter(|(name, _)| slow || !SLOW.contains(name)) {
        let name = name.to_owned();
        let failure = catch_unwind(*test)
            .err()
            .map(|_| SAID.lock().map_or_else(|_| "it panicked".to_owned(), |said| said.clone()));
        serial.send(&Report::Test(Test { of: of.to_owned(), name, failure }));
    }
}

fn zero_copy(options: &PairOptions) -> LinkPair {
    pair(options, &|end| xdp(end, options, Some(Mode::XdpZeroCopy)))
}

fn native(options: &PairOptions) -> LinkPair {
    pair(options, &|end| xdp(end, options, Some(Mode::XdpNative)))
}

fn generic(options: &PairOptions) -> LinkPair {
    pair(options, &|end| xdp(end, options, Some(Mode::XdpGeneric)))
}

fn best(options: &PairOptions) -> LinkPair {
    pair(options, &|end| xdp(end, options, None))
}

fn packet(options: &PairOptions) -> LinkPair {
    pair(options, &|end| {
        let mut config = PacketConfig::new(&end.interface, options.filter.clone());
        config.tx_frames = options.tx_frames;
        config.rx_frames = options.rx_frames;
        Box::new(PacketLink::open(config).expect("a packet link"))
    })
}

fn xdp(end: &GuestEnd, options: &PairOptions, mode: Option<Mode>) -> Box<dyn Link> {
    let mut config = XdpConfig::new(&end.interface, options.filter.clone());
    config.tx_frames = options.tx_frames;
    config.rx_frames = options.rx_frames;
    config.mode = mode;
    Box::new(XdpLink::open(config).expect("an AF_XDP link"))
}

/// Links on both cards.
fn pair(options: &PairOptions, open: &dyn Fn(&GuestEnd) -> Box<dyn Link>) -> LinkPair {
    let testbed: &'static Testbed = TESTBED.get().expect("set before");
    let ends = &testbed.ends;
    let [a, b] = [0, 1].map(|i: usize| {
        let _inside = ends[i].enter().expect("a way into the namespace");
        open(&ends[i])
    });
    // Some cards negotiate their link again when a program comes or goes, also the one of the test
    // before.
    ends.iter().for_each(|end| end.await_carrier().expect("a carrier"));
    let envelope = options.filter.envelope;
    let [at_a, at_b] = [0, 1].map(|i: usize| match envelope {
        Envelope::Ethernet { .. } => NodeAddr::Ethernet(ends[i].mac),
        Envelope::Udp { .. } => NodeAddr::Ip { ip: ends[i].ip.into(), next_hop: ends[i].mac },
    });
    let enter = |i: usize| -> Enter {
        Box::new(move || Box::new(ends[i].enter().expect("a way into the namespace")))
    };
    LinkPair {
        a,
        b,
        to_b: Route::new(envelope, at_a, at_b).expect("addresses of the envelope"),
        to_a: Route::new(envelope, at_b, at_a).expect("addresses of the envelope"),
        kernels: Some(Kernels {
            addresses: [ends[0].ip.into(), ends[1].ip.into()],
            enter: [enter(0), enter(1)],
        }),
        keep_alive: Box::new(()),
    }
}
