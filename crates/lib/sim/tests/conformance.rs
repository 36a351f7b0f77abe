//! The simulated link, held to the suite for all links. Needs no privileges.

use gigae_link::conformance::{LinkPair, PairOptions};
use gigae_link::{Link, conformance_tests};
use gigae_sim::{Faults, Network, SimLink};
use gigae_wire::{Envelope, Route};
use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut tests = Vec::new();
    tests.extend(conformance_tests!("simulated", Envelope::DEFAULT, pair));
    tests.extend(conformance_tests!("simulated, MTU 3400", Envelope::DEFAULT, pair, 3400));
    // The longest frame is little more than a buffer.
    tests.extend(conformance_tests!("simulated, MTU 4096", Envelope::DEFAULT, pair, 4096));
    tests.extend(conformance_tests!("simulated, MTU 9000", Envelope::DEFAULT, pair, 9000));
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn pair(options: &PairOptions) -> LinkPair {
    let network = Network::new(1, Faults::default());
    network.set_mtu(options.mtu);
    let open = || {
        let filter = options.filter.clone();
        SimLink::open(&network, filter, options.tx_frames, options.rx_frames).unwrap()
    };
    let (a, b) = (open(), open());
    let (at_a, at_b) = (a.info().mac.into(), b.info().mac.into());
    let envelope = options.filter.envelope;
    LinkPair {
        to_b: Route::new(envelope, at_a, at_b).unwrap(),
        to_a: Route::new(envelope, at_b, at_a).unwrap(),
        a: Box::new(a),
        b: Box::new(b),
        kernels: None,
        keep_alive: Box::new(network),
    }
}
