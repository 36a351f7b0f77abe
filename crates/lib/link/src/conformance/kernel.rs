//! The kernel's own traffic on the same interface.

use super::{CHANNEL, Enter, Link, Maker, PairOptions, frame, receive, send};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

/// Bytes that go each way over TCP: some hundred segments.
const STREAM: usize = 256 * 1024;

/// A card that holds less than this many frames has no room for the kernel's and the link's at
/// times, and loses TCP's, too.
const FEW: usize = 128;

/// How often a frame is sent that such a card loses.
const TRIES: usize = 10;

/// Longest wait for the kernel's own traffic.
const SOON: Duration = Duration::from_secs(60);

/// A TCP connection and UDP datagrams while the link's frames go to and fro.
pub fn the_kernels_own_traffic_passes_beside_the_link(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let Some(kernels) = pair.kernels.take() else { return };
    let [_, server_at] = kernels.addresses;
    let [at_a, at_b] = kernels.enter;
    let (ready, port) = mpsc::channel();
    let server = std::thread::spawn(move || serve(&at_b, server_at, &ready));
    let (tcp, udp) = port.recv_timeout(SOON).expect("the server's ports");
    let client = std::thread::spawn(move || ask(&at_a, server_at, tcp, udp));
    let few = options.rx_frames < FEW;
    let mut i = 0;
    while i < 100 || !client.is_finished() {
        let there = frame(&pair.to_b, CHANNEL, i, 1000);
        crosses(&mut *pair.a, &mut *pair.b, &there, few);
        let back = frame(&pair.to_a, CHANNEL, i, 1000);
        crosses(&mut *pair.b, &mut *pair.a, &back, few);
        i += 1;
    }
    client.join().expect("the client's side");
    server.join().expect("the server's side");
}

/// Sends a frame that arrives: again if it was lost, as by a card that holds `few`.
fn crosses(from: &mut dyn Link, to: &mut dyn Link, bytes: &[u8], few: bool) {
    for _ in 0..TRIES {
        send(from, bytes);
        if !few || arrives(to) {
            assert_eq!(receive(to, 1), [bytes]);
            return;
        }
    }
    panic!("{TRIES} frames were lost, one after the other");
}

/// Whether a frame comes soon.
fn arrives(link: &mut dyn Link) -> bool {
    (0..20).any(|_| link.wait(Some(Duration::from_millis(10))).expect("wait"))
}

fn serve(enter: &Enter, at: IpAddr, ready: &mpsc::Sender<(u16, u16)>) {
    let _inside = enter();
    let tcp = TcpListener::bind((at, 0)).expect("a TCP port");
    let udp = UdpSocket::bind((at, 0)).expect("a UDP port");
    udp.set_read_timeout(Some(SOON)).expect("a timeout");
    let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("a port").port();
    ready.send((port(tcp.local_addr()), port(udp.local_addr()))).expect("a client");
    let mut datagram = [0; 2000];
    for _ in 0..10 {
        let (length, from) = udp.recv_from(&mut datagram).expect("a datagram");
        udp.send_to(&datagram[..length], from).expect("its answer");
    }
    let (mut stream, _) = tcp.accept().expect("a connection");
    briefly(&stream);
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let mut bytes = vec![0; STREAM];
    stream.read_exact(&mut bytes).expect("the client's bytes");
    stream.write_all(&bytes).expect("the same back");
}

fn ask(enter: &Enter, server: IpAddr, tcp: u16, udp: u16) {
    let _inside = enter();
    let any: IpAddr = match server {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).expect("a UDP port");
    socket.set_read_timeout(Some(SOON)).expect("a timeout");
    for i in 0..10u8 {
        let mut answer = [0; 2000];
        socket.send_to(&[i; 1000], (server, udp)).expect("a datagram");
        let (length, _) = socket.recv_from(&mut answer).expect("its answer");
        assert_eq!(answer[..length], [i; 1000]);
    }
    let mut stream = TcpStream::connect_timeout(&(server, tcp).into(), SOON).expect("a connection");
    briefly(&stream);
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let bytes: Vec<u8> = (0..STREAM).map(|i| (i % 251) as u8).collect();
    stream.write_all(&bytes).expect("our bytes");
    let mut back = vec![0; STREAM];
    stream.read_exact(&mut back).expect("the same back");
    assert!(bytes == back, "TCP changed bytes");
}

/// A few frames on the way at most: a card that has no room for more would lose the link's, too.
fn briefly(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_send_buffer_size(stream, 4096).expect("a small buffer");
}
