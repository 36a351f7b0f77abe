//! Endpoints on a backend of the program's own: the example in `crates/lib/link/examples/cable.rs`.

#[path = "../../link/examples/cable.rs"]
mod cable;

use cable::Cable;
use gigae::{Endpoint, Link, Mode, Options, Progress, Wait};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Options for `count` links, and the two ends of each.
fn ends(count: usize) -> (Options, [Vec<Box<dyn Link>>; 2]) {
    let names: Vec<_> = (0..count).map(|n| format!("cable{n}")).collect();
    let options = Options::trunk(names);
    let mut ends = [Vec::new(), Vec::new()];
    for n in 0..count {
        let cable = Cable::pair(n as u8, &options.filter(), 512, 512).unwrap();
        for (links, link) in ends.iter_mut().zip(cable) {
            links.push(Box::new(link) as Box<dyn Link>);
        }
    }
    (options, ends)
}

fn open(count: usize, how: impl Fn(Options) -> Options) -> [Endpoint; 2] {
    let (options, ends) = ends(count);
    ends.map(|links| how(options.clone()).open_on(links).unwrap())
}

/// Sends messages of many lengths to and fro, one after the other. Returns the first end.
fn exchange([a, b]: [Endpoint; 2]) -> Endpoint {
    const MESSAGES: usize = 500;
    let to_b = a.peer(b.link().mac).unwrap();
    let echo = std::thread::spawn(move || {
        for _ in 0..MESSAGES {
            let message = b.recv_timeout(PATIENCE).unwrap().expect("a message");
            b.send(message.from(), &message).unwrap();
        }
    });
    for n in 0..MESSAGES {
        let sent = vec![n as u8; 1 + n * 7 % a.max_message()];
        a.send(to_b, &sent).unwrap();
        let message = a.recv_timeout(PATIENCE).unwrap().expect("its echo");
        assert!(message[..] == sent, "message {n}");
    }
    echo.join().unwrap();
    a
}

#[test]
fn two_endpoints_send_messages_over_links_of_the_programs_own() {
    for wait in [Wait::Adaptive, Wait::Sleep] {
        let ends = open(1, |options| options.wait(wait));
        assert_eq!(ends[0].link().mode, Mode::Own);
        assert!(ends[0].fd().is_some());
        exchange(ends);
    }
}

#[test]
fn they_need_no_background_thread() {
    exchange(open(1, |options| options.progress(Progress::Manual)));
}

#[test]
fn several_of_them_are_one() {
    let paths = exchange(open(2, |options| options)).paths();
    assert!(paths.iter().all(|path| path.link.tx_frames > 0), "{paths:?}");
}

#[test]
fn the_number_of_links_and_the_envelope_must_fit() {
    let (options, [mut links, _]) = ends(1);
    let refused = options.clone().open_on(Vec::new()).unwrap_err().to_string();
    assert!(refused.contains("as many links as interfaces"), "{refused}");
    let one = Cable::pair(0, &options.filter(), 1, 2).unwrap().map(|link| Box::new(link) as _);
    let refused = options.clone().open_on(one.into_iter().take(1).collect());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("at least two transmit"), "{refused}");
    let udp = options.envelope(gigae::Envelope::Udp { port: 4791 });
    let refused = udp.open_on(vec![links.remove(0)]).unwrap_err().to_string();
    assert!(refused.contains("use the Ethernet envelope"), "{refused}");
}
