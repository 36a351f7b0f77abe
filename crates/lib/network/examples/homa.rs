//! The Homa model beside the figures that Homa's authors published: 16 hosts on one switch at 10
//! Gbit/s, requests and responses of the same length, slowdown at the 99th percentile. Run it with
//! `cargo run --release -p gigae-network --example homa`.

use gigae_network::workload::{Echo, Lengths, Poisson, SlowdownTable, drive};
use gigae_network::yardstick::{Homa, HomaConfig};
use gigae_network::{Link, Network, Rate, Switch, Time, Topology};
use std::time::Instant;

const PUBLISHED: &str = include_str!("../data/homa-published.txt");

fn main() {
    let scale: f64 = std::env::args().nth(1).map_or(1.0, |scale| scale.parse().expect("a factor"));
    let link = Link::new(Rate::gbit(10), Time::ns(100));
    // A request of 100 B and its response take 5.4 us: published are slowdowns of 2.5 to 2.8 and
    // round trips of 15 us.
    let topology = Topology::one_switch(16, link, Switch::new(Time::ns(250)), Time::ns(2_100));
    let controlled = HomaConfig::published();
    let single = HomaConfig { degree: 1, ..controlled };
    for (name, count) in [("w3", 150_000.0), ("w4", 15_000.0), ("w5", 2_000.0)] {
        for (system, config) in [("HomaP1", controlled), ("degree 1", single)] {
            let begin = Instant::now();
            let lengths = Lengths::named(name).expect("a known name");
            let count = (count * scale) as u32;
            // Half of the load are requests.
            let traffic = Poisson::new(&topology, config.framing, lengths, 0.38, count, 1);
            let hosts = (0..16).map(|_| Homa::new(config)).collect();
            let mut network = Network::new(topology.clone(), hosts, 1);
            let records = drive(&mut network, &mut Echo(traffic), Time::NEVER);
            // Without the first tenth and the last one.
            let last = records.iter().map(|record| record.message.at).max().expect("messages");
            let span = Time(last.0 / 10)..Time(last.0 / 10 * 9);
            let table = SlowdownTable::of_echoes(&records, &topology, config.framing, span);
            let p99: Vec<String> =
                table.classes.iter().map(|class| format!("{:.1}", class.quantile(0.99))).collect();
            let wanted = format!("{} 76 {system} ", name.to_uppercase());
            let published = PUBLISHED.lines().find_map(|line| line.strip_prefix(&wanted));
            println!(
                "{name} {system:>8}: {} (published {}); {:.1} million frames, {:.1} s",
                p99.join(" "),
                published.unwrap_or("nothing").split_whitespace().collect::<Vec<_>>().join(" "),
                network.totals().sent as f64 / 1e6,
                begin.elapsed().as_secs_f64(),
            );
        }
    }
}
