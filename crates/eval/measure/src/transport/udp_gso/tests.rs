//! Parts become messages, and what is missing is missed.

use super::parts::Assembly;
use super::*;
use crate::channel::{Channel, ReceivedMessage};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::{Condition, Setting, Wait};
use std::io::IoSliceMut;

/// Bytes of a message, and of each of its three parts.
const SIZE: usize = 8;
const PART: usize = 3;

/// A part of a message, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct MessagePart {
    number: u8,
    part: u8,
}

fn part(number: u8, part: u8) -> MessagePart {
    MessagePart { number, part }
}

/// All parts of a message.
fn all_of(number: u8) -> [MessagePart; 3] {
    [0, 1, 2].map(|which| part(number, which))
}

/// A train of these parts of messages: each part has the message's number in all its bytes.
fn train(of: &[MessagePart]) -> Vec<u8> {
    let datagram = |&MessagePart { number, part }: &MessagePart| {
        let header = [number, 0, 0, 0, part, 0, 0, 0];
        header.into_iter().chain([number; PART])
    };
    of.iter().flat_map(datagram).collect()
}

/// Puts a train where the kernel would.
fn scatter(mut bytes: &[u8], room: &mut [IoSliceMut<'_>]) {
    for piece in room {
        let (now, later) = bytes.split_at(piece.len().min(bytes.len()));
        piece[..now.len()].copy_from_slice(now);
        bytes = later;
    }
    assert!(bytes.is_empty());
}

/// The numbers of the messages that become complete when these trains come.
fn complete(trains: &[&[MessagePart]]) -> Vec<u32> {
    let mut assembly = Assembly::new(SIZE, PART);
    let mut numbers = Vec::new();
    for of in trains {
        scatter(&train(of), &mut assembly.room());
        assembly.take(of.len(), |ReceivedMessage { number, bytes }| {
            assert_eq!(bytes, SIZE);
            numbers.push(number);
        });
    }
    numbers
}

#[test]
fn messages_are_complete_however_trains_divide_them() {
    let parts: Vec<MessagePart> = (0..200).flat_map(all_of).collect();
    for length in [1, 2, 3, 7, 64] {
        let trains: Vec<_> = parts.chunks(length).collect();
        assert_eq!(complete(&trains), (0..200).collect::<Vec<u32>>(), "{length}");
    }
}

#[test]
fn a_message_without_one_of_its_parts_is_lost_and_no_other() {
    let lost = |which: MessagePart, length: usize| {
        let all = (0..5).flat_map(all_of);
        let rest: Vec<_> = all.filter(|part| *part != which).collect();
        complete(&rest.chunks(length).collect::<Vec<_>>())
    };
    for which in 0..3 {
        for length in [1, 2, 5, 14] {
            let whole = lost(part(2, which), length);
            assert_eq!(whole, [0, 1, 3, 4], "part {which}, trains of {length}");
        }
    }
    assert_eq!(complete(&[&[part(0, 1), part(0, 0), part(0, 2)], &all_of(1)]), [1]);
    let mixed = [part(0, 0), part(1, 1), part(1, 2)];
    assert_eq!(complete(&[&mixed]), [0_u32; 0], "parts of two messages");
}

/// Two connected sockets on the loopback interface for datagrams of this length.
fn pair(datagram: usize) -> [Trains; 2] {
    let site = Site::find("lo").unwrap();
    let task = Task {
        experiment: Experiment::Rtt,
        transport: "udp-gso".into(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Spin,
        size: datagram,
        warmup: 0.0,
        measure: 0.05,
        rate: None,
    };
    let [(one, here), (other, there)] = [(); 2].map(|()| socket(&site).unwrap());
    connect(&one, &there, &task).unwrap();
    connect(&other, &here, &task).unwrap();
    [one, other].map(|socket| Trains::new(socket, datagram).unwrap())
}

/// Sends messages of these numbers and gives those that arrive, for as long as it takes.
fn carried(ends: &mut [impl Channel; 2], numbers: u32, size: usize) -> Vec<u32> {
    let [from, to] = ends;
    for number in 0..numbers {
        assert!(from.send(number, size).unwrap());
    }
    from.flush().unwrap();
    let mut came = Vec::new();
    while came.len() < numbers as usize {
        if let Some(arrival) = to.receive().unwrap() {
            assert_eq!(arrival.bytes, size);
            came.push(arrival.number);
        }
    }
    came
}

#[test]
fn short_messages_share_a_train() {
    let mut ends = pair(8).map(|trains| Datagrams::new(trains, 8));
    assert_eq!(carried(&mut ends, 100, 8), (0..100).collect::<Vec<u32>>());
    let [sent, received] = ends.map(|end| end.calls());
    assert_eq!((sent.send, sent.sent), (2, 100));
    assert_eq!(received.received, 100);
    assert!(received.receive <= 100, "{received:?}");
}

#[test]
fn a_long_message_is_a_train() {
    let (size, part) = (16 << 10, 1366);
    let ends = pair(PART_HEADER + part);
    let mut ends = ends.map(|trains| Parts::new(trains, size, part));
    assert_eq!(carried(&mut ends, 2, size), [0, 1]);
    let [sent, received] = ends.map(|end| end.calls());
    // Of 24 datagrams, none is alone in a call.
    assert_eq!((sent.send, sent.sent, received.received), (1, 24, 24));
}

#[test]
fn datagrams_of_another_length_are_refused_with_the_reason() {
    let [mut trains, _] = pair(100);
    assert_eq!(trains.received(300).unwrap(), 3);
    let error = trains.received(301).unwrap_err().to_string();
    assert!(error.contains("same MTU"), "{error}");
}

#[test]
fn a_train_that_finds_no_room_is_a_call_that_sends_nothing() {
    // The loopback interface always has room; the queue between these two is soon full.
    let (socket, _peer) = std::os::unix::net::UnixDatagram::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let socket = std::os::fd::OwnedFd::from(socket).into();
    let (calls, slept) = (Calls::default(), Slept::No);
    let mut trains = Trains { socket, datagram: 8, calls, sleeps: false, slept };
    while trains.send(&[IoSlice::new(&[0; 16])]).unwrap() {}
    let Calls { all, send, sent, .. } = trains.calls;
    assert_eq!((send, sent), (all - 1, 2 * (all - 1)));
}
