//! What a fetcher and a pusher bear from the other end.

use crate::world::{MS, attributes};
use crate::written::Written;
use gigae_share::{
    Attributes, Entry, Fault, Fetcher, Kind, Options, Pusher, ReplyHeader, Want, Wanted,
};
use std::time::Duration;

fn fetcher() -> Fetcher {
    let options = Options { ignore_times: false, patience: Duration::from_secs(30) };
    let wanted = vec![Wanted { from: b"x".to_vec(), to: b"to".to_vec() }];
    Fetcher::new(wanted, options, Duration::ZERO)
}

fn encoded(attributes: &Attributes) -> Vec<u8> {
    let mut out = vec![attributes.kind as u8];
    out.extend(attributes.mode.to_le_bytes());
    out.extend(attributes.size.to_le_bytes());
    out.extend(attributes.seconds.to_le_bytes());
    out.extend(attributes.nanoseconds.to_le_bytes());
    out.extend(attributes.version.to_le_bytes());
    out
}

fn found() -> Vec<u8> {
    let directory = encoded(&attributes(Kind::Directory, 0, 1));
    [&[ReplyHeader::Found as u8][..], &directory, &[0, 0]].concat()
}

fn entries(next: u64, entries: &[Entry]) -> Vec<u8> {
    let mut out = vec![ReplyHeader::Entries as u8, 1];
    out.extend(next.to_le_bytes());
    for entry in entries {
        out.extend((entry.name.len() as u16).to_le_bytes());
        out.extend(&entry.name);
        out.extend(encoded(&entry.attributes));
        out.extend([0, 0]);
    }
    out
}

/// Answers each request, the first one with a directory, until it is over.
fn run(mut answer: impl FnMut(u64) -> Vec<u8>) -> Fetcher {
    let (mut fetcher, mut sink) = (fetcher(), Written::default());
    let (mut now, mut count) = (Duration::ZERO, 0);
    for _ in 0..200_000 {
        match fetcher.next(now, &mut sink) {
            Want::Send(request) => {
                let reply = if count == 0 { found() } else { answer(count) };
                count += 1;
                fetcher.reply(now, request.number, &reply, &mut sink);
            }
            Want::Forget(_) => {}
            Want::Wait(until) => now = until.max(now + MS),
            Want::Nothing => return fetcher,
        }
    }
    panic!("it does not end");
}

#[test]
fn a_listing_without_an_end_is_refused() {
    for period in [2, 3, 1000] {
        let entry = |n: u64| Entry {
            name: n.to_string().into_bytes(),
            attributes: attributes(Kind::Special, 0, 1),
            target: Vec::new(),
        };
        let fetcher = run(|n| entries(1 + n % period, &[entry(n)]));
        assert_eq!(fetcher.fatal(), Some(Fault::TooMuch), "{period}");
    }
}

/// Directories are listed one after the other, so those that were found first wait.
#[test]
fn a_tree_whose_names_need_too_much_memory_is_refused() {
    let directories: Vec<_> = (0..800)
        .map(|n| {
            let name = format!("{n:0>255}").into_bytes();
            Entry { name, attributes: attributes(Kind::Directory, 0, 1), target: Vec::new() }
        })
        .collect();
    let mut replies = 0;
    let fetcher = run(|n| {
        replies = n;
        entries(n, &directories)
    });
    assert_eq!(fetcher.fatal(), Some(Fault::TooMuch));
    assert!(replies < 1000, "{replies}");
}

#[test]
fn a_server_with_too_much_to_do_is_asked_again_and_given_up_in_the_end() {
    let mut busy = 0;
    let fetcher = run(|n| {
        busy += 1;
        match n {
            ..20 => vec![ReplyHeader::Failed as u8, Fault::Busy as u8],
            _ => vec![ReplyHeader::Entries as u8, 0],
        }
    });
    assert_eq!((fetcher.fatal(), fetcher.progress().failed), (None, 0));
    assert!(busy >= 20);
    let fetcher = run(|_| vec![ReplyHeader::Failed as u8, Fault::Busy as u8]);
    assert_eq!(fetcher.fatal(), Some(Fault::Busy));
}

/// A caller asks for all there is to do before it says what has no answer.
#[test]
fn a_pusher_says_once_that_a_request_is_lost() {
    let options = Options { ignore_times: false, patience: Duration::from_secs(30) };
    let mut pusher = Pusher::new(1, Vec::new(), Vec::new(), options, Duration::ZERO);
    let mut now = Duration::ZERO;
    for _ in 0..5 {
        let Want::Send(request) = pusher.next(now) else { panic!("nothing is asked") };
        let Want::Wait(lost) = pusher.next(now) else { panic!("nothing is waited for") };
        now = lost;
        assert_eq!(pusher.next(now), Want::Forget(request.number + 1));
        assert!(matches!(pusher.next(now), Want::Wait(until) if until > now));
        pusher.unanswered(now, request.number);
        let Want::Wait(again) = pusher.next(now) else { panic!("it is asked again at once") };
        now = again;
    }
    while let Want::Send(_) | Want::Wait(_) | Want::Forget(_) = pusher.next(now) {
        now += MS;
    }
    assert_eq!((pusher.next(now), pusher.fatal()), (Want::Nothing, Some(Fault::Silent)));
}
