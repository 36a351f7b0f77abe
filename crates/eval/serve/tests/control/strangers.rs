//! Who may connect, and how often.

use crate::server::{Server, connect, key, message, silent};
use gigae_eval_measure::site::Site;
use gigae_eval_serve::{self as serve, Presence, ServeConfig, Service};
use gigae_eval_session::control::{self, ControlError};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn silent_strangers_hold_up_no_client_and_are_bounded_in_number() {
    let server = Server::start();
    let mut strangers: Vec<_> = (0..20).map(|_| silent("127.0.0.2:0", server.address)).collect();
    // Each that has a handshake is greeted; the others are closed at once.
    let greeted = |stream: &mut TcpStream| stream.read(&mut [0; 4]).is_ok_and(|bytes| bytes > 0);
    let greeted = strangers.iter_mut().filter_map(|one| greeted(one).then_some(())).count();
    assert!((1..=8).contains(&greeted), "{greeted} handshakes of one source");
    assert!(server.serves());
}

/// Ends the server when its client is through, or failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_refused_addresses_is_taken_slowly_and_said_in_two_lines() {
    let (listener, key) = (TcpListener::bind("127.0.0.1:0").unwrap(), key());
    let (address, site) = (listener.local_addr().unwrap(), Site::find("lo").unwrap());
    let config =
        ServeConfig { allow: vec!["198.18.0.0/15".parse().unwrap()], ..ServeConfig::default() };
    let (stop, lines) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let (presence, metrics) = (Presence::none(), None);
            let service =
                Service { listener: &listener, key: &key, site: &site, presence, config, metrics };
            let mut log = |line: &str| lines.lock().unwrap().push(line.to_owned());
            serve::serve(service, &stop, &mut log).unwrap();
        });
        for _ in 0..500 {
            // Closed without a word.
            let mut stream = TcpStream::connect(address).unwrap();
            assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
    });
    // 64 at once, 1,000 a second after them: no machine is faster.
    assert!(begin.elapsed() >= Duration::from_millis(436), "{:?}", begin.elapsed());
    let lines = lines.into_inner().unwrap();
    assert!(lines[0].contains("not among the addresses that may come"), "{lines:?}");
    // A second one if the machine took a minute for it.
    assert!(lines.len() <= 2, "{} lines", lines.len());
}

#[test]
fn only_the_networks_that_are_allowed_are_served() {
    let allow = vec!["127.0.0.2/32".parse().unwrap()];
    let server = Server::with("127.0.0.1:0", ServeConfig { allow, ..ServeConfig::default() });
    let refused = connect(server.address, &key());
    assert!(matches!(refused, Err(ControlError::Closed)), "{refused:?}");
    message(&mut silent("127.0.0.2:0", server.address));
}

#[test]
fn clients_come_over_ipv6() {
    let server = Server::with("[::1]:0", ServeConfig::default());
    assert!(server.serves());
    let networks = vec!["::1".parse().unwrap()];
    let server = Server::with("[::]:0", ServeConfig { allow: networks, ..ServeConfig::default() });
    let at = |ip: &str| format!("{ip}:{}", server.address.port());
    assert!(control::connect(&at("[::1]"), &key(), &mut |_| true).is_ok());
    let refused = control::connect(&at("127.0.0.1"), &key(), &mut |_| true);
    assert!(matches!(refused, Err(ControlError::Closed)), "{refused:?}");
}
