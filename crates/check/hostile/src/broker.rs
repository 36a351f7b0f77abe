//! What a local user can send to a broker, and what it can get from it.

use crate::meter::within;
use crate::script::Script;
use gigae_broker::{
    Answer, BrokerConfig, PeerProcess, PortGrant, Quotas, REQUEST_LEN, Request, UserUsage,
};
use std::path::Path;

/// A configuration, some grants and texts of a kilobyte.
const MEMORY: usize = 1 << 20;

const MOST_STEPS: usize = 1000;

/// Two users may have ports. The configuration names one of them by a group.
pub(crate) const CONFIG: &str = "nics = ['eth1', 'eth2']\nusers = [1]\ngroups = [20]\nports_per_user = 3\n\
                      mib_per_user = 8\nports = 5\nmib = 12";

/// A grant that was made: to whom, and how much memory it may have.
struct MadeGrant {
    uid: u32,
    bytes: u64,
    grant: PortGrant,
}

/// The broker's messages and quotas: requests put together or drawn at random, granted and given
/// back in any order.
///
/// # Panics
/// If a reader does, or takes what it would not write; if a client gets what it may not have; or if
/// the sums in the quotas are wrong.
pub fn broker(input: &[u8]) {
    within(MEMORY, || {
        let config = BrokerConfig::parse(CONFIG, Path::new("broker.toml")).expect("it is right");
        let mut quotas = Quotas::new(config);
        let mut grants: Vec<MadeGrant> = Vec::new();
        let mut script = Script::new(input);
        for _ in 0..MOST_STEPS {
            if script.is_over() {
                break;
            }
            match script.byte() % 4 {
                0 => answer(&mut script),
                1 if !grants.is_empty() => {
                    let place = usize::from(script.byte()) % grants.len();
                    quotas.release(grants.swap_remove(place).grant);
                }
                _ => {
                    let uid = u32::from(script.byte() % 4);
                    let elsewhere = script.byte() > 250;
                    let peer = PeerProcess { uid, groups: vec![uid * 10], pid: 1, elsewhere };
                    let Ok(request) = Request::parse(&request(&mut script)) else { continue };
                    assert_eq!(Request::parse(&request.bytes()).as_ref(), Ok(&request));
                    if let Ok(grant) = quotas.grant(&peer, &request) {
                        assert!(uid == 1 || uid == 2, "user {uid} is not allowed");
                        assert!(!elsewhere, "a process of another network namespace");
                        assert!(request.tx_frames > 0 && request.rx_frames > 0);
                        grants.push(MadeGrant { uid, bytes: request.memory() as u64, grant });
                    }
                }
            }
            check(&quotas, &grants);
        }
        grants.drain(..).for_each(|granted| quotas.release(granted.grant));
        check(&quotas, &grants);
    });
}

fn check(quotas: &Quotas, grants: &[MadeGrant]) {
    let usage = |of: &dyn Fn(u32) -> bool| {
        let its = grants.iter().filter(|granted| of(granted.uid));
        its.fold(UserUsage::default(), |sum, granted| UserUsage {
            ports: sum.ports + 1,
            bytes: sum.bytes + granted.bytes,
        })
    };
    for uid in 0..4 {
        let has = usage(&|of| of == uid);
        assert_eq!(quotas.of(uid), has);
        assert!(has.ports <= 3 && has.bytes <= 8 << 20, "user {uid} has {has:?}");
    }
    let all = usage(&|_| true);
    assert_eq!(quotas.in_all(), all);
    assert!(all.ports <= 5 && all.bytes <= 12 << 20, "all have {all:?}");
}

/// A request that is nearly right, or any bytes.
pub(crate) fn request(script: &mut Script<'_>) -> Vec<u8> {
    if script.byte() > 200 {
        return script.take(2 * REQUEST_LEN).to_vec();
    }
    let frames = [0, 1, 128, 128, 1024, u32::MAX];
    let right = Request {
        interface: script
            .pick(&[None, Some("eth1"), Some("eth2"), Some("eth0")])
            .map(str::to_owned),
        ethertype: script.pick(&[0x88b5, 0x88b5, 0x88b5, 0x0800]),
        channels: (0..script.byte()).collect(),
        long_frames: script.byte() < 128,
        tx_frames: script.pick(&frames),
        rx_frames: script.pick(&frames),
        rx_ready: script.u32(),
    };
    let mut bytes = right.bytes();
    for _ in 0..script.byte() % 3 {
        let at = usize::from(script.byte()) % bytes.len();
        bytes[at] = script.byte();
    }
    bytes
}

/// An answer, which a client reads.
fn answer(script: &mut Script<'_>) {
    let mut bytes = script
        .pick(&[
            &b"gigb\x02\x00\x02\x00"[..],
            b"gigb\x02\x00\x03\x02",
            b"gigb\x02\x00\x04\x00",
            b"",
        ])
        .to_vec();
    let length = usize::from(script.byte());
    bytes.extend(script.take(length));
    match Answer::parse(&bytes) {
        Ok(Answer::Refusal(refusal)) => {
            assert!(!refusal.text.chars().any(char::is_control), "{refusal:?}");
        }
        Ok(port) => assert_eq!(Answer::parse(&port.bytes()), Ok(port)),
        Err(_) => {}
    }
}
