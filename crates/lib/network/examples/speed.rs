//! Frames that the simulator moves in a second, on one core. Run it with
//! `cargo run --release -p gigae-network --example speed`.

use gigae_network::workload::{Framing, Lengths, Poisson, drive};
use gigae_network::yardstick::{Homa, HomaConfig};
use gigae_network::{
    Buffer, Context, Frame, Host, LeafSpine, Link, Network, Rate, Switch, Time, Topology,
};
use oorandom::Rand32;
use std::time::Instant;

/// Sends frames to random hosts for ever, at most as fast as its port.
struct Source {
    random: Rand32,
    hosts: u32,
    /// The next frame is not before this.
    next: Time,
    /// The mean pause between two frames in picoseconds.
    pause: u32,
}

impl Host for Source {
    type Payload = ();

    fn receive(&mut self, _frame: Frame<()>, _context: &mut Context<'_>) {}

    fn timer(&mut self, _token: u64, _context: &mut Context<'_>) {}

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<()>> {
        if context.now() < self.next {
            return None;
        }
        self.next = context.now() + Time(u64::from(self.random.rand_range(0..2 * self.pause)));
        context.set_timer(self.next, 0);
        let source = context.host();
        let other = self.random.rand_range(0..self.hosts - 1);
        let destination = other + u32::from(other >= source);
        let flow = self.random.rand_u32();
        let (length, priority, marked, payload) = (1_518, 0, false, ());
        Some(Frame { source, destination, flow, length, priority, marked, payload })
    }
}

fn report(name: &str, begin: Instant, network: &Network<impl Host>) {
    let seconds = begin.elapsed().as_secs_f64();
    let totals = network.totals();
    println!(
        "{name}: {:.2} million frames in {seconds:.2} s: {:.2} million frames/s, {:.1} million \
         events/s, {:.1} ms of virtual time, {} dropped",
        totals.sent as f64 / 1e6,
        totals.sent as f64 / 1e6 / seconds,
        totals.events as f64 / 1e6 / seconds,
        network.now().seconds() * 1e3,
        totals.dropped,
    );
}

fn random_frames(name: &str, topology: Topology, time: Time) {
    let hosts = topology.hosts();
    // A frame of 1,538 B every 1.25 of its times: 80 % load.
    let pause = (topology.host_rate().time(1_538).0 * 5 / 4) as u32;
    let source = |seed| Source { random: Rand32::new(seed), hosts, next: Time::ZERO, pause };
    let sources = (0..u64::from(hosts)).map(source).collect();
    let mut network = Network::new(topology, sources, 1);
    for host in 0..hosts {
        network.call(host, |_, _| {});
    }
    let begin = Instant::now();
    network.run(time);
    report(name, begin, &network);
}

fn main() {
    let link = Link::new(Rate::gbit(10), Time::ns(100));
    let buffer = Buffer::PerPort(512 << 10);
    let star = Switch { buffer, ..Switch::new(Time::ns(250)) };
    let one_switch = Topology::one_switch(16, link, star, Time::us(1));
    let tiers = Topology::leaf_spine(LeafSpine::published(), Time::us(1));
    let shared = Buffer::Shared { bytes: 8 << 20, alpha: (1, 1) };
    let mut plan = LeafSpine::published();
    plan.switch.buffer = shared;
    let shared = Topology::leaf_spine(plan, Time::us(1));
    random_frames("16 hosts, one switch, random frames", one_switch.clone(), Time::ms(200));
    random_frames("144 hosts, two tiers, random frames", tiers.clone(), Time::ms(20));
    random_frames("144 hosts, two tiers, shared buffers", shared, Time::ms(20));

    let config = HomaConfig::published();
    for (name, topology, count) in
        [("16 hosts, Homa, W4", one_switch, 15_000), ("144 hosts, Homa, W4", tiers, 30_000)]
    {
        let framing: Framing = config.framing;
        let lengths = Lengths::named("w4").expect("a known name");
        let mut traffic = Poisson::new(&topology, framing, lengths, 0.8, count, 1);
        let hosts = (0..topology.hosts()).map(|_| Homa::new(config)).collect();
        let mut network = Network::new(topology, hosts, 1);
        let begin = Instant::now();
        let records = drive(&mut network, &mut traffic, Time::NEVER);
        assert!(records.iter().all(|record| record.completed != Time::NEVER));
        report(name, begin, &network);
    }
}
