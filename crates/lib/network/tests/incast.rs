//! Many senders to one host in virtual time: no frame is dropped, the link is
//! full, and all get the same.

use gigae_network::real::Real;
use gigae_network::{Buffer, Link, Network, Rate, Switch, Time, Topology};

/// Bytes of a message that fills a frame, and those of the frame on the wire.
const FULL: usize = 1_468;
const WIRE: u64 = 1_538;

fn network(senders: u32) -> Network<Real> {
    let switch = Switch { buffer: Buffer::PerPort(512 << 10), ..Switch::new(Time::ns(250)) };
    let link = Link::new(Rate::gbit(10), Time::ns(100));
    let topology = Topology::one_switch(senders + 1, link, switch, Time::us(2));
    let hosts = Real::hosts(senders + 1, 1, |options| options);
    Network::new(topology, hosts.expect("memory for frames"), 1)
}

/// Lets each sender send so many full messages to host 0.
fn send(network: &mut Network<Real>, senders: u32, count: u32) {
    for sender in 1..=senders {
        for _ in 0..count {
            network.call(sender, |host, context| host.send(0, vec![7; FULL], context));
        }
    }
}

/// The time that so many full messages take on the link.
fn ideal(messages: u64) -> u64 {
    Rate::gbit(10).time(1).0 * WIRE * messages
}

fn incast(senders: u32) {
    const COUNT: u32 = 69;
    let mut network = network(senders);
    send(&mut network, senders, COUNT);
    let all = (senders * COUNT) as usize;
    while network.host(0).received.len() < all && network.now() < Time::ms(2_000) {
        network.run(network.now() + Time::us(100));
    }
    let received = &network.host(0).received;
    assert_eq!(received.len(), all);
    assert_eq!(network.totals().dropped, 0);
    let ratio = received[all - 1].0.0 as f64 / ideal(all as u64) as f64;
    println!("{senders} senders: {ratio:.3} of the ideal time");
    assert!(ratio <= 1.05, "{ratio}");
}

#[test]
fn an_incast_of_20_drops_nothing_and_fills_the_link() {
    incast(20);
}

#[test]
fn an_incast_of_100_drops_nothing_and_fills_the_link() {
    incast(100);
}

#[test]
fn an_incast_of_1000_drops_nothing_and_fills_the_link() {
    incast(1_000);
}

#[test]
fn fifteen_endless_senders_get_the_same() {
    let mut network = network(15);
    send(&mut network, 15, 4_000);
    network.run(Time::ms(20));
    let mut shares = [0_f64; 15];
    for (_, from, _) in &network.host(0).received {
        shares[*from as usize - 1] += 1.0;
    }
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|s| s * s).sum::<f64>());
    let jain = sum * sum / (15.0 * squares);
    println!("Jain {jain:.4}, {shares:?}");
    assert!(jain >= 0.98, "{jain}");
    assert!(sum > 0.95 * Time::ms(20).0 as f64 / ideal(1) as f64, "{sum} messages");
    assert_eq!(network.totals().dropped, 0);
}
