//! What a server does while a client measures: ports, figures, a client that vanishes.

use crate::server::{SOON, Server, beside_a_stream, run, task};
use gigae_eval_measure::site::Site;
use gigae_eval_measure::transport::Task;
use gigae_eval_model::plan::{Condition, Experiment, Setting, TcpOptions, Wait};
use gigae_eval_serve::ServeConfig;
use gigae_eval_session::control::{Reply, Request};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

#[test]
fn a_client_that_vanishes_in_mid_run_leaves_a_server_that_serves_the_next() {
    let server = Server::start();
    let task = Task {
        experiment: Experiment::Rtt,
        transport: "udp".into(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Sleep,
        size: 8,
        warmup: 0.0,
        measure: 30.0,
        rate: None,
    };
    let mut session = server.client();
    let address = Site::find("lo").unwrap().address(9);
    let ready = session.ask(&Request::Run { task, address }, SOON).unwrap();
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    drop(session);
    assert!(server.serves());
}

#[test]
fn bulk_streams_have_a_port_where_there_is_more_than_one() {
    let server = Server::start();
    let mut session = server.client();
    let Reply::Ready(to) = run(&mut session, beside_a_stream(None), 9) else { panic!() };
    assert!(TcpStream::connect((to.ip, to.bulk)).is_ok());
    assert_eq!(session.ask(&Request::Cancel, SOON * 4).unwrap(), Reply::Cancelled);
    assert!(TcpStream::connect((to.ip, to.bulk)).is_err(), "it is still open");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::at(listener, None, ServeConfig::default(), true);
    let mut session = server.client();
    let reply = run(&mut session, beside_a_stream(None), 9);
    let Reply::Failed { reason, unavailable: true } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("--one-port"), "{reason}");
}

#[test]
fn with_one_port_udp_and_tcp_come_by_that_of_the_control_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::at(listener, None, ServeConfig::default(), true);
    let mut session = server.client();
    let Reply::Ready(to) = run(&mut session, task("udp", None, 1.0), 9) else { panic!() };
    assert_eq!(to.port, server.address.port());
    assert_eq!(session.ask(&Request::Cancel, SOON * 4).unwrap(), Reply::Cancelled);
    // The request says from which port the measured connection comes.
    let from: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&from.into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    let setting = Setting::Tcp(TcpOptions::default());
    let tcp = Task { setting, ..task("tcp", None, 20.0) };
    let Reply::Ready(to) = run(&mut session, tcp, port) else { panic!() };
    assert_eq!(to.port, server.address.port());
    socket.connect(&SocketAddr::new(to.ip, to.port).into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(&[0; 14_000]).unwrap();
    let reply = session.ask(&Request::Finish { bytes: 14_000 }, SOON * 4).unwrap();
    assert!(matches!(&reply, Reply::Done(answered) if answered.bytes == 14_000), "{reply:?}");
    // Others at that port are still clients.
    drop(session);
    assert!(server.serves());
}

#[test]
fn figures_can_be_read_while_a_client_is_served() {
    let [listener, metrics] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = metrics.local_addr().unwrap();
    let server = Server::at(listener, Some(metrics), ServeConfig::default(), false);
    let page = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let says = |line: &str| page().lines().any(|other| other == line);
    assert!(says("gigae_serve_clients 0"));
    let mut session = server.client();
    assert!(matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    let deadline = Instant::now() + SOON;
    while !says("gigae_serve_clients 1") {
        assert!(Instant::now() < deadline, "{}", page());
    }
    drop(session);
    assert!(server.serves());
    while !says("gigae_serve_clients_total{result=\"done\"} 2") {
        assert!(Instant::now() < deadline, "{}", page());
    }
}
