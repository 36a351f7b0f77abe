//! Discovery: requests and answers that no honest node would send.

use crate::frames::{Hostile, ethernet, network, sealed};
use crate::meter::within;
use crate::script::Script;
use gigae::{MacAddr, Options};
use gigae_sim::{Network, Port};
use gigae_wire::{Envelope, Epoch, Flags, Header, Here, Kind, SeqNo, is_node_name};
use std::collections::BTreeSet;

/// Two endpoints, and 4,096 neighbours at most with all channels open.
const MEMORY: usize = 8 << 20;

const MOST_STEPS: usize = 5000;

/// Answers that an endpoint gives in a tenth of a second (`PROTOCOL.md` 10.4).
const MOST_ANSWERS: u64 = 16;

/// Discovery. A hostile node answers questions as any number of nodes, and asks as any of them.
///
/// # Panics
/// If an endpoint does, remembers too much or a name that could do harm, answers more often than it
/// may, answers to a group, or does not find the honest one.
pub fn discovery(input: &[u8]) {
    within(MEMORY, || {
        let net = network();
        let open = |n: u32, name: &str| {
            let options = Options::new("sim").name(name).tuned(128, |_| {});
            options.open_simulated(&net, n).expect("a simulated port")
        };
        let (requester, other) = (open(1, "asker"), open(2, "other"));
        let macs = [requester.link().mac, other.link().mac];
        let mut hostile = Hostile::new(&net, macs.map(|mac| vec![mac]));
        let (port, own) = net.add_port();
        let mut script = Script::new(input);
        let mut question = Epoch::UNKNOWN;
        let mut answers = 0;
        let begin = net.now();
        let mut step = 0;
        while step < MOST_STEPS && !script.is_over() {
            step += 1;
            match script.byte() % 8 {
                0 => requester.ask().expect("there is a wire"),
                1 => hostile.send(&net, &mut script),
                2 => net.advance_to(net.now() + 1000 * u64::from(script.u16())),
                n => net.send(port, &frame(n, own, macs, question, &mut script)),
            }
            net.advance_to(net.now() + 6000);
            requester.progress().expect("no link fails");
            other.progress().expect("no link fails");
            hostile.learn(&net);
            answers += look(&net, port, &mut question);
        }
        let periods = (net.now() - begin) / 100_000_000 + 2;
        assert!(answers <= 2 * MOST_ANSWERS * periods, "{answers} answers in {periods} periods");
        // A tenth of a second later the honest one is found, also if attackers have filled the
        // table.
        net.advance_to(net.now() + 200_000_000);
        requester.ask().expect("there is a wire");
        // The answer waits for a second at most.
        for nanos in [6_000, 1_000_000_000, 6_000, 6_000, 6_000] {
            net.advance_to(net.now() + nanos);
            requester.progress().expect("no link fails");
            other.progress().expect("no link fails");
        }
        let found = requester.neighbours();
        let mut seen = BTreeSet::new();
        for neighbour in &found {
            assert!(is_node_name(&neighbour.name), "{neighbour:?}");
            assert!(seen.insert(neighbour.address.to_string()), "{neighbour:?} is there twice");
        }
        assert!(found.len() <= 16_384);
        let honest = |n: &gigae::Neighbour| n.mac == macs[1] && n.port == 0 && n.name == "other";
        assert!(found.iter().any(honest), "{found:?}");
    });
}

/// Learns the requester's question and counts answers.
fn look(net: &Network, port: Port, question: &mut Epoch) -> u64 {
    let mut answers = 0;
    while let Some(frame) = net.receive(port) {
        let Ok((_, inner)) = Envelope::DEFAULT.open(&frame) else { continue };
        let Ok((header, _)) = Header::parse(inner) else { continue };
        match header.kind {
            Kind::Who if header.channel == 0 => *question = header.src_epoch,
            Kind::Here => {
                assert!(frame[0] & 1 == 0, "an answer to a group");
                answers += 1;
            }
            _ => {}
        }
    }
    answers
}

/// A question or an answer.
fn frame(
    way: u8,
    own: MacAddr,
    honest: [MacAddr; 2],
    question: Epoch,
    script: &mut Script<'_>,
) -> Vec<u8> {
    let ask = way < 5;
    let attacker = MacAddr([2, 0, 0xbb, 1, script.byte(), script.byte()]);
    let from =
        script.pick(&[own, own, attacker, attacker, attacker, honest[0], MacAddr::BROADCAST]);
    let to = script.pick(&[MacAddr::BROADCAST, honest[0], honest[0], honest[1]]);
    let right = script.byte() < 240;
    let number = Epoch(script.u32());
    let header = Header {
        kind: if ask { Kind::Who } else { Kind::Here },
        channel: script.pick(&[0, 0, 0, 9]),
        src_port: script.u16() & 3,
        dst_port: if right { 0 } else { script.u16() },
        src_epoch: if ask { number } else { Epoch::UNKNOWN },
        dst_epoch: if ask || !right { number } else { question },
        seq: SeqNo(0),
        ack: SeqNo(0),
        credit: if ask { number.0 as u16 } else { 0 },
        flags: Flags::NONE,
    };
    let mut payload = Vec::new();
    if !ask {
        let mut buffer = [0; Here::LONGEST];
        let ip = Some(script.u32().to_be_bytes().into());
        let here = Here {
            max_payload: script.u16(),
            mtu: script.u16(),
            ip,
            channels: [script.byte(); 32],
            name: script.pick(&["asker", "liar", "a.b"]),
        };
        let len = here.write(&mut buffer);
        payload.extend_from_slice(&buffer[..len]);
        // A name that no node may have, or a length that is none.
        let odd = script.byte();
        if odd > 200 {
            let at = payload.len() - 1 - usize::from(odd) % 8;
            payload[at] = script.byte();
        }
    }
    sealed(&ethernet(from, to), &header, &payload)
}
