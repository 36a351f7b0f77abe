//! Clients that wait for their turn.

use crate::server::{SOON, Server, key};
use gigae_eval_session::control::{self, ControlError, Limits, Reply, Request, Session, Waiting};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A client in a thread, and the queue updates that it gets.
fn queue(server: &Server) -> (Receiver<Waiting>, JoinHandle<Result<Session, ControlError>>) {
    let (sender, updates) = channel();
    let to = server.address.to_string();
    let connect = move || control::connect(&to, &key(), &mut |one| sender.send(*one).is_ok());
    (updates, std::thread::spawn(connect))
}

#[test]
fn clients_queue_and_get_their_place() {
    let server = Server::limited(Limits { seconds: Some(600.0), rate: None });
    let first = server.client();
    assert_eq!(first.limits.seconds, Some(600.0));
    let (second_updates, second) = queue(&server);
    let update = second_updates.recv_timeout(SOON).unwrap();
    assert!(update.before == 1 && update.at_most.is_some_and(|most| most <= 600.0), "{update:?}");
    let (third_updates, third) = queue(&server);
    assert_eq!(third_updates.recv_timeout(SOON).unwrap().before, 2);
    drop(first);
    let mut second = second.join().unwrap().unwrap();
    assert!(matches!(second.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    // The third has moved up.
    let moved = || third_updates.recv_timeout(SOON).unwrap().before;
    while moved() != 1 {}
    drop(second);
    let mut third = third.join().unwrap().unwrap();
    assert!(matches!(third.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
}

#[test]
fn a_client_that_leaves_while_waiting_makes_room() {
    let server = Server::start();
    let first = server.client();
    let (second_updates, second) = queue(&server);
    assert_eq!(second_updates.recv_timeout(SOON).unwrap().before, 1);
    let (third_updates, third) = queue(&server);
    assert_eq!(third_updates.recv_timeout(SOON).unwrap().before, 2);
    // The second client gives up at its next update.
    drop(second_updates);
    assert!(matches!(second.join().unwrap(), Err(ControlError::GivenUp)));
    while third_updates.recv_timeout(SOON).unwrap().before != 1 {}
    drop(first);
    assert!(third.join().unwrap().is_ok());
}

#[test]
fn a_server_that_ends_says_so_to_all() {
    let server = Server::start();
    let mut first = server.client();
    let (second_updates, second) = queue(&server);
    assert_eq!(second_updates.recv_timeout(SOON).unwrap().before, 1);
    drop(server);
    assert!(matches!(second.join().unwrap(), Err(ControlError::Over(_))));
    let last: Result<Reply, _> = first.receive(SOON);
    assert!(matches!(last, Ok(Reply::Over { .. })), "{last:?}");
}
