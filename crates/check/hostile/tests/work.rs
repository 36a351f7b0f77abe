//! Instructions that a hostile frame costs its victim, counted by valgrind's callgrind: they are
//! about the same after thousands of frames, when those have filled the victim's tables.
//!
//! This program runs itself under callgrind, once for each kind of frame. Compilers and
//! optimisation do not matter: the same run is compared with itself. Without valgrind the test is
//! ignored; if `CI` is set it fails.
#![allow(missing_docs)]

#[path = "../../../lib/proto/tests/callgrind/mod.rs"]
mod callgrind;

use gigae_hostile::{Carrier, KINDS};
use std::hint::black_box;
use std::path::Path;

/// The kind of frames and what carries them, for the program that is counted.
const KIND: &str = "GIGAE_HOSTILE_KIND";
const CARRIER: &str = "GIGAE_HOSTILE_CARRIER";
const CARRIERS: [(&str, Carrier); 2] = [("ethernet", Carrier::Ethernet), ("udp", Carrier::Udp)];

/// How much more a frame may cost later: tables that grew are farther apart in memory, which
/// instructions do not show, and trees are deeper by a level.
const GROWTH: f64 = 1.25;

// The compiler may make one function of two that do the same.
#[inline(never)]
fn measured_early(look: &mut dyn FnMut()) {
    black_box("early");
    look();
}

#[inline(never)]
fn measured_late(look: &mut dyn FnMut()) {
    black_box("late");
    look();
}

fn counted(kind: usize) {
    let carrier = std::env::var(CARRIER).expect("it is said");
    let (_, carrier) = CARRIERS.into_iter().find(|known| known.0 == carrier).expect("a carrier");
    let [early, late] = gigae_hostile::work(kind, carrier, [measured_early, measured_late]);
    println!("early {early}\nlate {late}");
}

fn a_hostile_frame_costs_as_much_after_thousands_as_at_first() {
    let of = |carrier| KINDS.iter().enumerate().map(move |(kind, name)| (kind, name, carrier));
    for (kind, name, carrier) in CARRIERS.into_iter().flat_map(|(carrier, _)| of(carrier)) {
        let out = format!("work-{kind}-{carrier}.callgrind");
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(out);
        let program = std::env::current_exe().expect("this program");
        let number = kind.to_string();
        let environment = [(KIND, &*number), (CARRIER, carrier)];
        let (profile, output) = callgrind::run(&program, &[], &environment, &out);
        let said = String::from_utf8(output.stdout).expect("text");
        let [early, late] = ["early", "late"].map(|when| {
            let line = said.lines().find_map(|line| line.strip_prefix(when)).expect("a number");
            let frames = line.trim().parse::<f64>().expect("a number");
            profile.inclusive(&format!("measured_{when}"), "Ir") as f64 / frames
        });
        println!("{carrier}, {name}: {early:.0} instructions for a frame, {late:.0} later");
        let growth = format!("{early:.0} instructions, then {late:.0}");
        assert!(late <= early * GROWTH, "{carrier}, {name}: {growth}");
    }
}

fn main() {
    if let Ok(kind) = std::env::var(KIND) {
        return counted(kind.parse().expect("a number"));
    }
    let trials = vec![callgrind::trial(
        "a_hostile_frame_costs_as_much_after_thousands_as_at_first",
        callgrind::obstacle(),
        a_hostile_frame_costs_as_much_after_thousands_as_at_first,
    )];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
