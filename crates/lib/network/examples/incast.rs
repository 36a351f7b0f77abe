//! Incast: senders with 100 kB each to one host, at 10 Gbit/s with a buffer of 512 KiB: the
//! library's endpoints, without and with shared credit, and models. Run it with
//! `cargo run --release -p gigae-network --example incast`; numbers of senders may follow.

use gigae::Options;
use gigae_network::real::Real;
use gigae_network::workload::{Incast, MessageHost, drive};
use gigae_network::yardstick::{Dctcp, Homa, HomaConfig, Swift, Windowed};
use gigae_network::{Buffer, Host, Link, Network, Rate, Switch, Time, Topology};

/// Bytes of a message of the library that fills a frame, and messages of each sender: 101 kB.
const FULL: usize = 1_468;
const COUNT: u32 = 69;
const LIMIT: Time = Time::ms(10_000);

fn topology(senders: u32) -> Topology {
    let (buffer, mark_above) = (Buffer::PerPort(512 << 10), Some(65 * 1_518));
    let switch = Switch { buffer, mark_above, ..Switch::new(Time::ns(250)) };
    let link = Link::new(Rate::gbit(10), Time::ns(100));
    Topology::one_switch(senders + 1, link, switch, Time::us(2))
}

fn print<H: Host>(name: &str, senders: u32, wire: u64, last: Time, network: &Network<H>) {
    let least = Rate::gbit(10).time(1).0 * wire * u64::from(senders);
    let ratio = if last == Time::NEVER { f64::INFINITY } else { last.0 as f64 / least as f64 };
    println!("{senders:>6} {name:>8} {ratio:>8.3} {:>9}", network.totals().dropped);
}

/// A model of a protocol.
fn model<H: MessageHost>(name: &str, senders: u32, new: impl Fn() -> H) {
    let mut network = Network::new(topology(senders), (0..=senders).map(|_| new()).collect(), 1);
    let records = drive(&mut network, &mut Incast::new(senders, 100_000), LIMIT);
    let last = records.iter().map(|record| record.completed).max().expect("senders");
    let wire = HomaConfig::published().framing.wire_bytes(100_000);
    print(name, senders, wire, last, &network);
}

/// The library, with credit shared among senders or not: its messages have at most a frame.
fn real(name: &str, senders: u32, shared_credit: bool) {
    let options = |options: Options| options.shared_credit(shared_credit);
    let hosts = Real::hosts(senders + 1, 1, options).expect("memory for frames");
    let mut network = Network::new(topology(senders), hosts, 1);
    for sender in 1..=senders {
        for _ in 0..COUNT {
            network.call(sender, |host, context| host.send(0, vec![7; FULL], context));
        }
    }
    let all = (senders * COUNT) as usize;
    while network.host(0).received.len() < all && network.now() < LIMIT {
        network.run(network.now() + Time::us(100));
    }
    let received = &network.host(0).received;
    let last = if received.len() == all { received[all - 1].0 } else { Time::NEVER };
    print(name, senders, 1_538 * u64::from(COUNT), last, &network);
}

fn main() {
    let framing = HomaConfig::published().framing;
    let homa = HomaConfig { retry: Some(Time::us(500)), ..HomaConfig::published() };
    let swift = Swift::new(framing.payload, Time::us(50), Time::us(50)).with_window(1.0);
    let (dctcp, timeout) = (Dctcp::new(framing.payload), Time::ms(5));
    println!("{:>6} {:>8} {:>8} {:>9}", "hosts", "", "/ ideal", "dropped");
    let counts = std::env::args().skip(1).map(|count| count.parse().expect("senders"));
    let mut counts: Vec<u32> = counts.collect();
    if counts.is_empty() {
        counts = vec![20, 100];
    }
    for senders in counts {
        real("gigae", senders, false);
        real("shared", senders, true);
        model("Homa", senders, || Homa::new(homa));
        model("DCTCP", senders, || Windowed::new(framing, dctcp.clone(), timeout));
        model("Swift", senders, || Windowed::new(framing, swift.clone(), timeout));
    }
}
