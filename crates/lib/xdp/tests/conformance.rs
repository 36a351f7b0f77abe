//! The AF_XDP backend on a fabric, held to the suite for all links, in both copy modes.

mod common;

use common::{over_ipv4, over_ipv6};
use gigae_fabric::testing;
use gigae_link::conformance::{LinkPair, PairOptions};
use gigae_link::{Mode, conformance_tests};
use gigae_wire::Envelope;

const UDP: Envelope = Envelope::Udp { port: 4791 };

fn main() {
    let mut tests = Vec::new();
    tests.extend(conformance_tests!("generic", Envelope::DEFAULT, generic));
    tests.extend(conformance_tests!("native", Envelope::DEFAULT, native));
    tests.extend(conformance_tests!("generic, MTU 3400", Envelope::DEFAULT, generic, 3400));
    tests.extend(conformance_tests!("native, MTU 3400", Envelope::DEFAULT, native, 3400));
    tests.extend(conformance_tests!("generic, MTU 9000", Envelope::DEFAULT, generic, 9000));
    tests.extend(conformance_tests!("native, MTU 9000", Envelope::DEFAULT, native, 9000));
    tests.extend(conformance_tests!(
        "generic_udp_over_ipv6, MTU 9000",
        UDP,
        generic_over_ipv6,
        9000
    ));
    tests.extend(conformance_tests!("children", Envelope::DEFAULT, common::children));
    tests.extend(conformance_tests!(
        "children, MTU 9000",
        Envelope::DEFAULT,
        common::children,
        9000
    ));
    tests.extend(conformance_tests!("generic_udp_over_ipv4", UDP, generic));
    tests.extend(conformance_tests!("generic_udp_over_ipv6", UDP, generic_over_ipv6));
    testing::run(&tests);
}

fn generic(options: &PairOptions) -> LinkPair {
    common::pair(options, Mode::XdpGeneric, over_ipv4)
}

fn generic_over_ipv6(options: &PairOptions) -> LinkPair {
    common::pair(options, Mode::XdpGeneric, over_ipv6)
}

fn native(options: &PairOptions) -> LinkPair {
    common::pair(options, Mode::XdpNative, over_ipv4)
}
