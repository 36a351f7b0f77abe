//! Bulk TCP streams that fill the link while something else is measured on it.
//!
//! They go the way of the messages, from the measuring end to the answering one, as an ordinary
//! program sends: 64 KiB at a time, buffers as the kernel tunes them, the congestion control of all
//! TCP here. Each has its own thread at either end, kept off the measuring thread's CPU where there
//! is another. They end with the value that holds them; nothing of them is counted in the figures
//! but what they do to these.

use crate::channel::JOIN_TIMEOUT;
use crate::site::Site;
use crate::transport::common::try_again;
use gigae_eval_model::transport::CONGESTION_CONTROL;
use gigae_host::affinity;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that are written and read at a time.
const CHUNK: usize = 64 << 10;

/// How often a thread that can neither send nor receive looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Streams that run until this is dropped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// A socket that waits for the streams, and its port.
pub fn listen(site: &Site) -> io::Result<(Socket, u16)> {
    let socket = stream_socket(site.ip)?;
    socket.bind(&SocketAddr::new(site.ip, 0).into())?;
    socket.listen(128)?;
    let port = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
    Ok((socket, port))
}

fn stream_socket(ip: IpAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(ip, 0));
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    // Absent or forbidden: the kernel's default, as for the measured TCP.
    let _ = socket.set_tcp_congestion(CONGESTION_CONTROL.as_bytes());
    Ok(socket)
}

impl Load {
    /// Takes in what `streams` connections from `peer` send. Others are closed at once.
    pub fn drain(site: &Site, listener: Socket, peer: IpAddr, streams: u32) -> io::Result<Self> {
        listener.set_read_timeout(Some(LOOK))?;
        let mut load = Self::new();
        let (stop, cpus) = (Arc::clone(&load.stop), others(site));
        load.spawn(move || {
            keep_to(&cpus);
            let mut threads = Vec::new();
            while threads.len() < streams as usize && !stop.load(Ordering::Relaxed) {
                let Ok((socket, from)) = listener.accept() else { continue };
                if from.as_socket().is_some_and(|from| from.ip() == peer) {
                    let stop = Arc::clone(&stop);
                    threads.push(std::thread::spawn(move || sink(&socket, &stop)));
                }
            }
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        Ok(load)
    }

    /// Sends by `streams` connections, all of them made before this returns.
    pub fn pour(site: &Site, to: SocketAddr, streams: u32) -> io::Result<Self> {
        let mut load = Self::new();
        for _ in 0..streams {
            let socket = stream_socket(to.ip())?;
            socket.connect_timeout(&to.into(), JOIN_TIMEOUT)?;
            socket.set_write_timeout(Some(LOOK))?;
            let (stop, cpus) = (Arc::clone(&load.stop), others(site));
            load.spawn(move || {
                keep_to(&cpus);
                source(&socket, &stop);
            });
        }
        Ok(load)
    }

    fn new() -> Self {
        Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() }
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) {
        self.threads.push(std::thread::spawn(work));
    }
}

/// The CPUs that are not the measuring thread's; all if it has the only one.
fn others(site: &Site) -> Vec<usize> {
    let all = affinity::allowed();
    let others: Vec<usize> = all.iter().copied().filter(|cpu| Some(*cpu) != site.cpu).collect();
    if others.is_empty() { all } else { others }
}

fn keep_to(cpus: &[usize]) {
    // If this fails the thread inherits the CPUs of the one that made it.
    let _ = affinity::keep_to(cpus);
}

fn source(mut socket: &Socket, stop: &AtomicBool) {
    let chunk = vec![0x5a; CHUNK];
    while !stop.load(Ordering::Relaxed) {
        match socket.write(&chunk) {
            Ok(_) => {}
            Err(error) if try_again(&error) => {}
            Err(_) => return,
        }
    }
    // What is still queued is worth nothing: the link is to be free for what comes next.
    let _ = socket.set_linger(Some(Duration::ZERO));
}

fn sink(mut socket: &Socket, stop: &AtomicBool) {
    let mut chunk = vec![0; CHUNK];
    if socket.set_read_timeout(Some(LOOK)).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        match socket.read(&mut chunk) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if try_again(&error) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn streams_flow_until_they_are_dropped_and_strangers_are_not_let_in() {
        let site = Site::find("lo").unwrap();
        let (listener, port) = listen(&site).unwrap();
        let to = SocketAddr::new(site.ip, port);
        let stranger = IpAddr::from([198, 18, 0, 1]);
        let (closed, port) = listen(&site).unwrap();
        let refusing = Load::drain(&site, closed, stranger, 1).unwrap();
        let mut refused = stream_socket(site.ip).unwrap();
        refused.connect(&SocketAddr::new(site.ip, port).into()).unwrap();
        assert!(matches!(refused.read(&mut [0; 1]), Ok(0) | Err(_)), "a stranger was let in");
        drop(refusing);
        let sinks = Load::drain(&site, listener, site.ip, 2).unwrap();
        let sources = Load::pour(&site, to, 2).unwrap();
        assert_eq!(sources.threads.len(), 2);
        drop(sources);
        drop(sinks);
    }

    #[test]
    fn a_load_whose_peer_never_comes_ends_when_it_is_dropped() {
        let site = Site::find("lo").unwrap();
        let (listener, _) = listen(&site).unwrap();
        let begin = Instant::now();
        drop(Load::drain(&site, listener, site.ip, 3).unwrap());
        assert!(begin.elapsed() < Duration::from_secs(60), "it hung");
    }
}
