//! Messages beside TCP, over the best mode and over AF_PACKET, at every MTU.

use super::exchange::{ExchangeProgress, Wanted, exchange};
use super::modes;
use super::serial::Serial;
use super::testbed::{MTU, Testbed};
use crate::job::{Job, Report};
use gigae::Backend;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that go to and fro over TCP at a time: some ten segments.
const BLOCK: usize = 16 << 10;

/// Longest wait for TCP.
const SOON: Duration = Duration::from_secs(60);

/// Pause between datagrams of a host's other traffic.
const PAUSE: Duration = Duration::from_millis(100);

/// Where they go: the service that discards them (RFC 863). No process listens.
const DISCARD: u16 = 9;

/// A peer that is slow under emulation is not lost.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);

/// At a longer MTU, this many times fewer messages: what is looked for there shows early.
const FEWER: u32 = 10;

/// All exchanges, reported one by one.
pub(super) fn run(job: &Job, testbed: &Testbed, serial: &Serial) -> Result<(), String> {
    for mtu in modes::mtus(job) {
        modes::set_mtu(testbed, mtu)?;
        let messages = if mtu == MTU { job.messages } else { job.messages / FEWER };
        for (name, backend) in [("auto", Backend::Auto), ("packet", Backend::Packet)] {
            serial.progress(format!("{messages} messages both ways, {name}, MTU {mtu}"));
            let wanted = Wanted { backend, messages, peer_timeout: PEER_TIMEOUT, may_fail: false };
            let mut result = exchange(testbed, wanted, |progress| tcp(testbed, progress));
            result.of = format!("{name}, MTU {mtu}");
            serial.send(&Report::Exchange(result));
        }
    }
    Ok(())
}

/// Bytes to and fro over TCP for as long as the exchange lasts, each looked at; how many.
///
/// An interface of a real host has other traffic, so this one has it, too. A driver that resets its
/// card for a program can leave a segment of TCP's in the queue in front of it until the next frame
/// is sent. TCP does not repeat what is still in that queue (`TCPSpuriousRtxHostQueues`), so
/// without other traffic it stops for good.
pub(super) fn tcp(testbed: &Testbed, progress: &ExchangeProgress) -> Result<u64, String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| other_traffic(testbed, &over));
        let bytes = converse(testbed, progress);
        over.store(true, Ordering::Relaxed);
        let others = others.join().unwrap_or(Ok(()));
        others.map_err(|error| format!("a socket beside TCP: {error}"))?;
        bytes
    })
}

/// A datagram from each end now and then.
fn other_traffic(testbed: &Testbed, over: &AtomicBool) -> std::io::Result<()> {
    let mut sockets = Vec::new();
    for (end, other) in testbed.ends.iter().zip(testbed.ends.iter().rev()) {
        let _inside = end.enter()?;
        sockets.push((UdpSocket::bind((end.ip, 0))?, (other.ip, DISCARD)));
    }
    while !over.load(Ordering::Relaxed) {
        for (socket, to) in &sockets {
            // Refused while the interface is down, and after a datagram to a port that no process
            // has.
            let _ = socket.send_to(&[0], to);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// See [`tcp`].
fn converse(testbed: &Testbed, progress: &ExchangeProgress) -> Result<u64, String> {
    let listener = {
        let _inside = testbed.ends[1].enter().map_err(|error| error.to_string())?;
        TcpListener::bind((testbed.ends[1].ip, 0)).map_err(|error| error.to_string())?
    };
    let at = listener.local_addr().map_err(|error| error.to_string())?;
    let stream = {
        let _inside = testbed.ends[0].enter().map_err(|error| error.to_string())?;
        TcpStream::connect_timeout(&at, SOON).map_err(|error| format!("TCP: {error}"))?
    };
    let (echo, _) = listener.accept().map_err(|error| format!("TCP: {error}"))?;
    for end in [&stream, &echo] {
        let limited = end.set_read_timeout(Some(SOON)).and(end.set_write_timeout(Some(SOON)));
        limited.map_err(|error| format!("TCP: {error}"))?;
    }
    std::thread::scope(|scope| {
        let answers = scope.spawn(|| answer(echo));
        let asked = ask(stream, progress);
        let answered = answers.join().unwrap_or(Ok(()));
        asked
            .and_then(|bytes| answered.map(|()| bytes))
            .map_err(|error| format!("TCP beside: {error}"))
    })
}

fn ask(mut stream: TcpStream, progress: &ExchangeProgress) -> std::io::Result<u64> {
    let (mut out, mut back, mut bytes) = (vec![0; BLOCK], vec![0; BLOCK], 0);
    while !progress.over.load(Ordering::Relaxed) || bytes == 0 {
        gigae_body::stream(bytes, &mut out);
        stream.write_all(&out)?;
        stream.read_exact(&mut back)?;
        if out != back {
            return Err(std::io::Error::other(format!("changed bytes after {bytes}")));
        }
        bytes += BLOCK as u64;
    }
    Ok(bytes)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(()),
            bytes => stream.write_all(&block[..bytes])?,
        }
    }
}
