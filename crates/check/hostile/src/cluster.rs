//! Cluster files, and what was found on the wire put into them. An input is either the text itself,
//! or says what to put together, since few random texts get past a parser.

use crate::meter::within;
use crate::script::Script;
use gigae::{Address, Cluster, MacAddr, Neighbour};
use gigae_wire::is_node_name;
use std::path::Path;

/// Some texts of a few kilobytes, parsed.
const MEMORY: usize = 16 << 20;

/// Endpoints that one input may add.
const MOST_CHANGES: usize = 64;

/// The reader of cluster files, and what adds to them what was found on the wire.
///
/// # Panics
/// If it does, lets a name or number through that it should refuse, or changes a text so that it
/// cannot be read any more or what a person wrote is lost.
pub fn cluster(input: &[u8]) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        let path = Path::new("cluster.toml");
        let text = match script.byte() % 4 {
            0 => String::from_utf8_lossy(script.rest()).into_owned(),
            way => nodes(way, &mut script),
        };
        let Ok(mut cluster) = Cluster::parse(text, path) else { return };
        check(&cluster);
        for _ in 0..MOST_CHANGES {
            if script.is_over() {
                break;
            }
            let before = cluster.text().to_owned();
            let count = cluster.nodes().len();
            if cluster.add(&found(&mut script)).is_err() {
                continue;
            }
            check(&cluster);
            assert!(cluster.nodes().len() <= count + 1);
            let kept = is_within(&before, cluster.text());
            assert!(kept, "text was lost: {before:?} became {:?}", cluster.text());
        }
        Cluster::parse(cluster.text().to_owned(), path).expect("it is read back");
    });
}

fn check(cluster: &Cluster) {
    for (number, node) in cluster.nodes().iter().enumerate() {
        assert!(is_node_name(&node.name) && !node.nics.is_empty(), "{node:?}");
        assert_eq!(cluster.number(&node.name).ok(), Some(number), "two of one name");
        if let Ok(address) = cluster.address(number) {
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        assert!(node.nics.iter().all(|nic| nic.mac.is_some() || nic.ip.is_some()));
    }
    let _ = cluster.address(cluster.nodes().len()).expect_err("there is none");
}

/// Whether all of one text is in another, in order.
fn is_within(text: &str, of: &str) -> bool {
    let mut of = of.chars();
    text.chars().all(|c| of.any(|other| other == c))
}

/// A file with some nodes, and perhaps something odd in one line.
fn nodes(way: u8, script: &mut Script<'_>) -> String {
    let mut text = match way {
        1 => Cluster::template(gigae::Envelope::DEFAULT),
        2 => Cluster::template(gigae::Envelope::Udp { port: script.u16().max(1) }),
        _ => "envelope = { ethertype = 0x88b5 }\n".to_owned(),
    };
    for _ in 0..script.byte() % 6 {
        let neighbour = found(script);
        let ip = neighbour.ip.map(|ip| format!(", ip = \"{ip}\"")).unwrap_or_default();
        let node = format!(
            "[[node]]\nname = \"{}\"\nnic = [{{ mac = \"{}\"{ip} }}]\n",
            neighbour.name, neighbour.mac
        );
        text.push_str(&node);
    }
    let odd = script.byte();
    if odd > 128 {
        let at = usize::from(script.u16()) % (text.len() + 1);
        let at = (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let bytes = script.take(usize::from(odd - 128));
        text.insert_str(at, &String::from_utf8_lossy(bytes));
    }
    text
}

/// An endpoint as it may describe itself: what the wire's parser lets through.
fn found(script: &mut Script<'_>) -> Neighbour {
    let names = ["n1", "n2", "a.b-c_d", "-", "n1-2", &"x".repeat(63)];
    let name = names[usize::from(script.byte()) % names.len()].to_owned();
    let mac = MacAddr([2, 0, 0, 0, script.byte() & 1, script.byte() & 7]);
    let ip = match script.byte() % 3 {
        0 => None,
        1 => Some([198, 18, 0, script.byte() & 7].into()),
        _ => Some(std::net::Ipv6Addr::from(u128::from(script.u64())).into()),
    };
    let port = script.pick(&[0, 0, 7, u16::MAX]);
    Neighbour {
        name,
        address: Address::from(mac).port(port),
        mac,
        ip,
        mtu: 1500,
        max_message: 1468,
        port,
        channels: vec![0],
    }
}
