//! Results that no network gave.

use super::{
    About, Bisection, ClusterResults, Host, Incast, SCHEMA, Sizes, TransportResults, rounded,
};
use crate::rounds;

/// So many hosts on one switch. Figures differ by a few percent, always in the same way.
pub fn synthetic(hosts: usize) -> ClusterResults {
    let transport = |name: &str, trip: f64, rate: f64| {
        let mut one = TransportResults::new(name, hosts);
        let mut state: u32 = 1;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            1.0 + f64::from(state >> 16) / 65_536.0 * 0.05
        };
        for pair in 0..one.trip_p50.len() {
            let p50 = trip * noise();
            one.trip_p50[pair] = Some(rounded(p50));
            one.trip_p99[pair] = Some(rounded(p50 * 1.5 * noise()));
            one.forward[pair] = Some(rounded(rate / noise()));
            one.backward[pair] = Some(rounded(rate / noise()));
        }
        for shift in 0..rounds::shifts(hosts) {
            let half = hosts / 2;
            let bisection = |back| Bisection {
                shift,
                back,
                pairs: half,
                sum: rounded(rate * half as f64),
                least: rate * 0.9,
                most: rate,
            };
            one.bisection.extend([bisection(false), bisection(true)]);
        }
        let senders = (hosts - 1).min(rounds::MOST_SENDERS);
        one.incast = (0..hosts)
            .map(|_| {
                let goodput = rounded(rate / noise());
                Some(Incast { senders, goodput, fairness: 0.98, repeated: 3, times: 2 })
            })
            .collect();
        one
    };
    let host = |number: usize| Host {
        name: format!("h{}", number + 1),
        rank: number as u32,
        interface: "eth0".into(),
        mac: format!("02:00:00:00:{:02x}:{:02x}", number >> 8, number & 0xFF),
        ip: [198, 18, (number >> 8) as u8, number as u8].into(),
        mtu: 1500,
        about: About::default(),
    };
    ClusterResults {
        schema: SCHEMA.into(),
        date: "2026-11-30T12:00:00Z".into(),
        duration: 60.0,
        command: "gigae eval --cluster-run".into(),
        gigae: "0.1.0".into(),
        git: "synthetic".into(),
        launcher: "PMIx".into(),
        ranks: hosts as u32,
        machines: hosts,
        seconds: 0.2,
        warmup: 0.05,
        sizes: Sizes { trip: 8, stream: 65_536, incast: 1400 },
        hosts: (0..hosts).map(host).collect(),
        unused: Vec::new(),
        transports: vec![transport("gigae", 12.0, 1180.0), transport("tcp", 30.0, 1120.0)],
        skipped: Vec::new(),
        failures: Vec::new(),
        failed: 0,
    }
}
