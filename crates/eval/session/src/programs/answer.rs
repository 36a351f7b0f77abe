//! The answering end of other programs: one at a time, from a closed list, if the server's owner
//! allows it.

use super::process::{LISTEN, ProgramError, ProgramProcess};
use super::{all, check, is_installed};
use crate::control::answering::{failed, next};
use crate::control::{ControlError, Reply, Request, Session};
use gigae_eval_measure::site::Site;
use gigae_eval_model::job::Job;
use gigae_host::affinity;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether a program waits at its port.
const LOOK: Duration = Duration::from_millis(5);

/// How much longer than it measures a program's measuring end may take: to be started, to connect,
/// to report.
pub const OVERTIME: Duration = Duration::from_secs(10);

/// The refusal if the server's owner does not allow programs.
const FORBIDDEN: &str = "its owner allows no other programs; leave out --with, or ask for 'gigae serve --allow-programs'";

/// What the server's owner allows, and what keeps a program from being reached.
#[derive(Clone, Copy, Debug)]
pub struct ProgramPolicy {
    /// Programs at all.
    pub allowed: bool,
    /// A rate, which programs do not keep.
    pub limited: bool,
}

impl ProgramPolicy {
    /// Why no program is run here, if none is.
    fn refusal(self, site: &Site) -> Option<&'static str> {
        if !self.allowed {
            return Some(FORBIDDEN);
        }
        if self.limited {
            return Some(
                "programs keep to no rate, and its owner allows only one (--max-rate); leave out --with",
            );
        }
        let one_port = "programs need ports of their own, and it has one for all (--one-port); leave out --with";
        site.shared_port.as_ref().map(|_| one_port)
    }
}

/// The programs that are installed here, for who asks.
pub fn list(site: &Site, policy: ProgramPolicy) -> Reply {
    match policy.refusal(site) {
        Some(why) => failed(why),
        None => {
            let here = all().iter().filter(|program| is_installed(**program));
            Reply::Programs(here.map(|program| program.name().to_owned()).collect())
        }
    }
}

/// Runs a program's answering end until the client has done with it. The reply is the one that ends
/// it; `None` when the server is to end.
pub fn answer(
    session: &mut Session,
    site: &Site,
    policy: ProgramPolicy,
    job: &Job,
    interrupted: &AtomicBool,
) -> Result<Option<Reply>, ControlError> {
    if let Some(why) = policy.refusal(site) {
        return Ok(Some(failed(why)));
    }
    let (mut process, port) = match start(site, job, interrupted) {
        Ok(started) => started,
        Err(ProgramError::Interrupted) => return Ok(None),
        Err(trouble) => return Ok(Some(failed(&trouble.to_string()))),
    };
    session.send(&Reply::Listening { at: SocketAddr::new(site.ip, port) })?;
    let longest = Duration::from_secs(job.seconds.into()) + OVERTIME * 2;
    let request = next(session, longest, interrupted)?;
    // One that has served once may have ended in order; any other end is worth a word.
    let ended = process.ended();
    Ok(match (request, ended) {
        (None, _) => None,
        (Some(Request::Cancel), None) => Some(Reply::Cancelled),
        (Some(Request::Cancel), Some(status)) if status.success() => Some(Reply::Cancelled),
        (Some(Request::Cancel), Some(status)) => Some(failed(&process.gone(status).to_string())),
        (Some(_), _) => Some(failed("a program is running; end it first")),
    })
}

/// Starts the answering end and waits until it can be reached.
fn start(
    site: &Site,
    job: &Job,
    interrupted: &AtomicBool,
) -> Result<(ProgramProcess, u16), ProgramError> {
    let (program, _) = check(job).map_err(ProgramError::Refused)?;
    let name = program.name();
    let udp = program.waits_at_udp(job);
    let unable = |source| ProgramError::Start { program: name, source };
    let port = free_port(site.ip, udp).map_err(unable)?;
    let at = SocketAddr::new(site.ip, port);
    let [_, file] = program.form().files;
    let mut process = affinity::pinned(site.cpu, || {
        ProgramProcess::start(name, file, &program.answering(job, at))
    })?;
    let deadline = Instant::now() + LISTEN;
    while !listens(port, udp) {
        if let Some(status) = process.ended() {
            return Err(process.gone(status));
        }
        if interrupted.load(Ordering::Relaxed) {
            return Err(ProgramError::Interrupted);
        }
        if Instant::now() > deadline {
            return Err(process.late("did not wait for a connection"));
        }
        std::thread::sleep(LOOK);
    }
    Ok((process, port))
}

/// A port that is free now. Another process may take it before the program does, which then says
/// so.
pub fn free_port(ip: IpAddr, udp: bool) -> std::io::Result<u16> {
    let any = SocketAddr::new(ip, 0);
    let local = match udp {
        true => UdpSocket::bind(any)?.local_addr()?,
        false => TcpListener::bind(any)?.local_addr()?,
    };
    Ok(local.port())
}

/// Whether a program listens at this port in the calling thread's network (proc_net(5)). Asking by
/// a connection would be taken for the client by programs that serve one.
pub fn listens(port: u16, udp: bool) -> bool {
    let files = if udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    files.iter().any(|file| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        text.is_ok_and(|text| is_in(&text, port, udp))
    })
}

/// States of sockets in these files: waiting for connections; of UDP, all that are not connected.
const TCP_LISTEN: &str = "0A";
const UDP_OPEN: &str = "07";

fn is_in(table: &str, port: u16, udp: bool) -> bool {
    let state = if udp { UDP_OPEN } else { TCP_LISTEN };
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let here = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        here == Some(port) && fields.nth(1) == Some(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_at_which_somebody_waits_is_seen_and_only_while_he_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(port, false));
        // A connection from there is no waiting.
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!listens(one.local_addr().unwrap().port(), false));
        drop(listener);
        // A child that another test starts at this moment has it, too, until it runs its program.
        let end = Instant::now() + Duration::from_secs(30);
        while listens(port, false) {
            assert!(Instant::now() < end, "port {port} is still open");
            std::thread::sleep(Duration::from_millis(1));
        }
        let socket =
            UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
        assert!(listens(socket.local_addr().unwrap().port(), true));
    }

    #[test]
    fn a_table_that_makes_no_sense_has_nobody_in_it() {
        for table in ["", "head\n", "head\n 0:", "head\n 0: 0100007F:zz 0 0A", "head\nx y:0050 z"] {
            assert!(!is_in(table, 80, false), "{table}");
        }
        assert!(is_in("head\n 0: 00000000:0050 00000000:0000 0A 0", 80, false));
    }
}
