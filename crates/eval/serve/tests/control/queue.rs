//! Clients that wait for their turn.

use crate::server::{SOON, Server, key};
use gigae_eval_session::control::{self, ControlError, Limits, Reply, Request, Session, Waiting};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A client in a thread, and what it is told while it waits.
fn queue(server: &Server) -> (Receiver<Waiting>, JoinHandle<Result<Session, ControlError>>) {
    let (told, hear) = channel();
    let to = server.address.to_string();
    let connect = move || control::connect(&to, &key(), &mut |one| told.send(*one).is_ok());
    (hear, std::thread::spawn(connect))
}

#[test]
fn clients_queue_and_hear_their_place() {
    let server = Server::limited(Limits { seconds: Some(600.0), rate: None });
    let first = server.client();
    assert_eq!(first.limits.seconds, Some(600.0));
    let (hear, second) = queue(&server);
    let told = hear.recv_timeout(SOON).unwrap();
    assert!(told.before == 1 && told.at_most.is_some_and(|most| most <= 600.0), "{told:?}");
    let (hear_third, third) = queue(&server);
    assert_eq!(hear_third.recv_timeout(SOON).unwrap().before, 2);
    drop(first);
    let mut second = second.join().unwrap().unwrap();
    assert!(matches!(second.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    // The third has moved up.
    let moved = || hear_third.recv_timeout(SOON).unwrap().before;
    while moved() != 1 {}
    drop(second);
    let mut third = third.join().unwrap().unwrap();
    assert!(matches!(third.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
}

#[test]
fn who_goes_while_waiting_makes_room() {
    let server = Server::start();
    let first = server.client();
    let (hear, second) = queue(&server);
    assert_eq!(hear.recv_timeout(SOON).unwrap().before, 1);
    let (hear_third, third) = queue(&server);
    assert_eq!(hear_third.recv_timeout(SOON).unwrap().before, 2);
    // Its next word finds nobody, and it gives up.
    drop(hear);
    assert!(matches!(second.join().unwrap(), Err(ControlError::GivenUp)));
    while hear_third.recv_timeout(SOON).unwrap().before != 1 {}
    drop(first);
    assert!(third.join().unwrap().is_ok());
}

#[test]
fn a_server_that_ends_says_so_to_all() {
    let server = Server::start();
    let mut first = server.client();
    let (hear, second) = queue(&server);
    assert_eq!(hear.recv_timeout(SOON).unwrap().before, 1);
    drop(server);
    assert!(matches!(second.join().unwrap(), Err(ControlError::Over(_))));
    let last: Result<Reply, _> = first.receive(SOON);
    assert!(matches!(last, Ok(Reply::Over { .. })), "{last:?}");
}
