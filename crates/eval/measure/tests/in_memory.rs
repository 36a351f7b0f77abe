//! The link in memory, held to the suite for all links. Needs no privileges.

use gigae_eval_measure::in_memory::{InMemoryLink, MTU};
use gigae_link::conformance::{LinkPair, PairOptions};
use gigae_link::{Link, conformance_tests};
use gigae_wire::{Envelope, Route};
use libtest_mimic::{Arguments, Trial};

fn main() {
    let tests = conformance_tests!("in memory", Envelope::DEFAULT, pair);
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.map(trial).into()).exit();
}

fn pair(options: &PairOptions) -> LinkPair {
    let PairOptions { filter, tx_frames, rx_frames, mtu } = options;
    assert_eq!(*mtu, MTU);
    let [a, b] = InMemoryLink::pair(0, filter, *tx_frames, *rx_frames).expect("memory");
    let (at_a, at_b) = (a.info().mac.into(), b.info().mac.into());
    LinkPair {
        to_b: Route::new(filter.envelope, at_a, at_b).expect("Ethernet addresses"),
        to_a: Route::new(filter.envelope, at_b, at_a).expect("Ethernet addresses"),
        a: Box::new(a),
        b: Box::new(b),
        kernels: None,
        keep_alive: Box::new(()),
    }
}
