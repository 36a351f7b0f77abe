//! Congestion that is not in front of a receiver: transfers between pairs of hosts share a link in
//! the middle. And what a sender does after a pause.

use gigae_network::real::Real;
use gigae_network::{
    Buffer, Context, Frame, Host, HostId, LeafSpine, Link, Network, Rate, Switch, Time, Topology,
};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a message that fills a frame, and those of the frame on the wire.
const FULL: usize = 1_468;
const WIRE: f64 = 1_538.0;

/// Hosts of both kinds are in one network.
enum End {
    Gigae(Box<Real>),
    Reno(Reno),
}

#[derive(Clone)]
enum Payload {
    Gigae(Vec<u8>),
    Data(u64),
    Ack(u64),
}

/// A transfer without an end that halves its window when frames are lost, as TCP did before Cubic.
/// The receiver acknowledges each frame. A frame is lost when one that went 3 later has arrived.
#[derive(Default)]
struct Reno {
    to: Option<HostId>,
    window: f64,
    threshold: f64,
    next: u64,
    in_flight: BTreeMap<u64, Time>,
    /// Losses of earlier frames are those that the window was halved for.
    recovery: u64,
    acks: VecDeque<(HostId, u64)>,
    received: u64,
}

impl Reno {
    fn begin(&mut self, to: HostId) {
        (self.to, self.window, self.threshold) = (Some(to), 10.0, f64::INFINITY);
    }

    fn acknowledged(&mut self, number: u64) {
        if self.in_flight.remove(&number).is_none() {
            return;
        }
        let grows = if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        self.window += grows;
        while let Some((&first, _)) = self.in_flight.first_key_value()
            && first + 3 < number
        {
            self.in_flight.remove(&first);
            if first >= self.recovery {
                self.recovery = self.next;
                self.window = (self.window / 2.0).max(2.0);
                self.threshold = self.window;
            }
        }
    }
}

impl Host for End {
    type Payload = Payload;

    fn receive(&mut self, frame: Frame<Payload>, context: &mut Context<'_>) {
        match (self, frame.payload.clone()) {
            (Self::Gigae(host), Payload::Gigae(bytes)) => {
                host.receive(with(frame, bytes), context);
            }
            (Self::Reno(host), Payload::Data(number)) => {
                host.received += 1;
                host.acks.push_back((frame.source, number));
            }
            (Self::Reno(host), Payload::Ack(number)) => host.acknowledged(number),
            _ => unreachable!("hosts talk to those of their kind"),
        }
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        if let Self::Gigae(host) = self {
            host.timer(token, context);
        }
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<Payload>> {
        let source = context.host();
        let host = match self {
            Self::Gigae(host) => {
                let frame = host.next_frame(context)?;
                let bytes = Payload::Gigae(frame.payload.clone());
                return Some(with(frame, bytes));
            }
            Self::Reno(host) => host,
        };
        let new = |destination: HostId, length, payload| {
            let (flow, priority, marked) = (source ^ destination, 0, false);
            Some(Frame { source, destination, flow, length, priority, marked, payload })
        };
        if let Some((to, number)) = host.acks.pop_front() {
            return new(to, 64, Payload::Ack(number));
        }
        let to = host.to.filter(|_| (host.in_flight.len() as f64) < host.window.floor())?;
        let number = host.next;
        host.next += 1;
        host.in_flight.insert(number, context.now());
        new(to, 1_518, Payload::Data(number))
    }
}

/// The same frame with another payload.
fn with<A, B>(frame: Frame<A>, payload: B) -> Frame<B> {
    let Frame { source, destination, flow, length, priority, marked, .. } = frame;
    Frame { source, destination, flow, length, priority, marked, payload }
}

/// What came of transfers through the middle.
struct Outcome {
    dropped: u64,
    /// Messages or frames of each transfer in the last three quarters of the time.
    late: Vec<f64>,
    /// All of these as a part of what the link in the middle carries.
    goodput: f64,
}

impl Outcome {
    fn jain(&self) -> f64 {
        let (sum, squares) = self.late.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        sum * sum / (self.late.len() as f64 * squares)
    }
}

/// `count` hosts, the last `reno` of which are models, send to one each through so many Gbit/s. The
/// switches have 512 KiB for each port.
fn transfers(count: u32, reno: u32, gbit: u64, time: u64) -> Outcome {
    transfers_to(count, reno, gbit, time, 0, |host| count + host)
}

/// The same where the models begin after so many ms, and `receiver` says which host another one
/// sends to.
fn transfers_to(
    count: u32,
    reno: u32,
    gbit: u64,
    time: u64,
    later: u64,
    receiver: impl Fn(HostId) -> HostId,
) -> Outcome {
    let topology = Topology::leaf_spine(
        LeafSpine {
            leaves: 2,
            hosts_per_leaf: count,
            spines: 1,
            host_link: Link::new(Rate::gbit(10), Time::ns(100)),
            core_link: Link::new(Rate::gbit(gbit), Time::ns(100)),
            switch: Switch { buffer: Buffer::PerPort(512 << 10), ..Switch::new(Time::ns(250)) },
        },
        Time::us(2),
    );
    let is_reno = |host: u32| host % count >= count - reno;
    let hosts = Real::hosts(2 * count, 1, |options| options.shared_credit(true)).unwrap();
    let new = |(host, real): (u32, Real)| match is_reno(host) {
        true => End::Reno(Reno::default()),
        false => End::Gigae(Box::new(real)),
    };
    let hosts = (0..).zip(hosts).map(new).collect();
    let mut network = Network::new(topology, hosts, 1);
    // With a second session, each host shares credit.
    let gigae = count - reno;
    for host in 0..gigae {
        for to in [receiver(host), count + (host + 1) % gigae, (host + 1) % gigae] {
            send(&mut network, host, to, 1, 8);
        }
    }
    network.run(Time::ms(2));
    let (mut received, mut quarter) = (vec![0_u64; count as usize], Vec::new());
    let dropped = network.totals().dropped;
    for step in 0..time * 10 {
        if step == later * 10 {
            for host in gigae..count {
                network.call(host, |end, _| {
                    let End::Reno(model) = end else { unreachable!() };
                    model.begin(count + host);
                });
            }
        }
        for host in 0..gigae {
            let waiting = match network.host(host) {
                End::Gigae(real) => real.waiting(),
                End::Reno(_) => unreachable!(),
            };
            send(&mut network, host, receiver(host), 600_usize.saturating_sub(waiting), FULL);
        }
        network.run(Time::us(2_100 + 100 * step));
        for (host, received) in (0..).zip(&mut received) {
            *received += network.call(count + host, |end, _| match end {
                End::Gigae(real) => {
                    let messages = std::mem::take(&mut real.received);
                    messages.iter().filter(|(.., bytes)| bytes.len() == FULL).count() as u64
                }
                End::Reno(model) => std::mem::take(&mut model.received),
            });
        }
        if step + 1 == time * 10 / 4 {
            quarter = received.clone();
        }
    }
    let late: Vec<f64> = received.iter().zip(&quarter).map(|(all, q)| (all - q) as f64).collect();
    let link = gbit as f64 * 1e9 / 8.0 / WIRE * time as f64 / 1e3 * 0.75;
    let goodput = late.iter().sum::<f64>() / link;
    Outcome { dropped: network.totals().dropped - dropped, late, goodput }
}

/// Sends messages of this length to a host.
fn send(network: &mut Network<End>, from: HostId, to: HostId, count: usize, length: usize) {
    network.call(from, |end, context| {
        let End::Gigae(real) = end else { unreachable!("only these send messages") };
        for _ in 0..count {
            real.send(to, vec![7; length], context);
        }
    });
}

/// Most frames that may be dropped, and least of Jain's index.
fn share_the_core(count: u32, gbit: u64, most: u64, least: f64) {
    let outcome = transfers(count, 0, gbit, 60);
    let (jain, Outcome { dropped, goodput, .. }) = (outcome.jain(), &outcome);
    println!("{count} through {gbit} Gbit/s: {dropped} dropped, Jain {jain:.3}, {goodput:.3}");
    assert!(*dropped <= most, "{dropped} frames were dropped");
    assert!(jain >= least, "Jain {jain:.4}, {:?}", outcome.late);
    assert!(*goodput > 0.99, "{goodput} of the link");
}

#[test]
fn transfers_of_8_share_10_gbit_in_the_middle() {
    share_the_core(8, 10, 250, 0.99);
}

#[test]
fn transfers_of_16_share_10_gbit_in_the_middle() {
    share_the_core(16, 10, 1_200, 0.99);
}

#[test]
fn transfers_of_8_share_20_gbit_in_the_middle() {
    share_the_core(8, 20, 450, 0.99);
}

#[test]
fn transfers_of_16_share_20_gbit_in_the_middle() {
    share_the_core(16, 20, 2_000, 0.98);
}

#[test]
fn a_sender_neither_starves_nor_is_starved_beside_one_that_halves_its_window() {
    for (gigae, reno) in [(3, 1), (4, 4)] {
        let outcome = transfers(gigae + reno, reno, 10, 400);
        let own: f64 = outcome.late[..gigae as usize].iter().sum();
        let fair = outcome.late.iter().sum::<f64>() * f64::from(gigae) / f64::from(gigae + reno);
        let (part, jain) = (own / fair, outcome.jain());
        println!("{gigae} beside {reno}: {part:.2} of a fair part, Jain of all {jain:.3}");
        assert!((0.75..1.35).contains(&part), "{part}: {:?}", outcome.late);
        assert!(outcome.goodput > 0.99);
    }
}

/// The receiver's budget grows beside a window that fills the buffer.
#[test]
fn senders_to_one_receiver_do_not_starve_beside_windows_that_fill_the_buffer() {
    let outcome = transfers_to(4, 2, 10, 400, 20, |host| if host < 2 { 4 } else { 4 + host });
    let part = (outcome.late[0] + outcome.late[1]) / outcome.late.iter().sum::<f64>();
    println!("{part:.2} of the link: {:?}", outcome.late);
    assert!((0.3..0.7).contains(&part), "{part}: {:?}", outcome.late);
    assert!(outcome.goodput > 0.97);
}

/// Frames that a sender of 200 messages sends before the first answer to them can come, so long
/// after a long transfer. A round trip takes 200 us.
fn frames_after(pause: Time) -> u64 {
    let link = Link::new(Rate::gbit(10), Time::us(50));
    let topology = Topology::one_switch(3, link, Switch::new(Time::ns(250)), Time::us(2));
    let hosts = Real::hosts(3, 1, |options| options.shared_credit(true)).unwrap();
    let hosts = hosts.into_iter().map(|real| End::Gigae(Box::new(real))).collect();
    let mut network = Network::new(topology, hosts, 1);
    send(&mut network, 0, 1, 1, 8);
    network.run(Time::ms(2));
    send(&mut network, 0, 2, 5_000, FULL);
    while match network.host(2) {
        End::Gigae(real) => real.received.len() < 5_000,
        End::Reno(_) => unreachable!(),
    } {
        assert!(network.now() < Time::ms(100));
        network.run(network.now() + Time::us(10));
    }
    network.run(network.now() + pause);
    network.restart_counters();
    send(&mut network, 0, 2, 200, FULL);
    network.run(network.now() + Time::us(180));
    network.counters(0).frames
}

#[test]
fn old_credit_is_not_used_after_a_pause() {
    let (short, long) = (frames_after(Time::ms(3)), frames_after(Time::ms(50)));
    println!("{short} and {long} frames at once");
    assert_eq!(long, 16);
    assert!(short > 32, "{short}");
}
