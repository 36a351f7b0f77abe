//! Sleeping until a frame comes.

use super::{CHANNEL, Link, Maker, PairOptions, frame, has_kernel, hold, only, receive, send};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

/// How often, on a busy machine, a frame may come before the other end sleeps.
const ATTEMPTS: usize = 100;

/// Also with no time at all.
pub fn waiting_ends_with_the_time_when_nothing_comes(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    assert!(!pair.b.wait(Some(Duration::ZERO)).expect("wait"));
    assert!(!pair.b.wait(Some(SHORT)).expect("wait"));
}

/// How often the kernel has put the calling thread to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("the thread's status");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("the kernel counts sleeps")
}

/// Whether it is there already or comes while the other end sleeps. A link that counts its sleeps
/// counts this one.
pub fn waiting_ends_when_a_frame_comes(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ours = frame(&pair.to_b, CHANNEL, 1, 100);
    send(&mut *pair.a, &ours);
    assert!(pair.b.wait(Some(LONG)).expect("wait"));
    assert_eq!(receive(&mut *pair.b, 1), [&ours[..]]);
    if !has_kernel(&*pair.a) {
        return;
    }
    for timeout in [Some(LONG), None] {
        let before = pair.b.counters();
        let has_counted = |b: &dyn Link| {
            let now = b.counters();
            now.waits == 0 || now.waits > before.waits && now.wakeups > before.wakeups
        };
        let woken = (0..ATTEMPTS).any(|_| {
            let (a, b) = (&mut pair.a, &mut pair.b);
            let has_slept = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(SHORT);
                    send(&mut **a, &ours);
                });
                let sleeps_before = sleeps();
                assert!(b.wait(timeout).expect("wait"));
                sleeps() > sleeps_before
            });
            only(&mut *pair.b, &ours);
            has_slept && has_counted(&*pair.b)
        });
        assert!(woken, "{:?}", pair.b.counters());
    }
}

/// A frame that the caller has polled and kept is not news.
pub fn waiting_sleeps_although_a_frame_is_held(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, 1, 100));
    let held = hold(&mut *pair.b, 1);
    assert!(!pair.b.wait(Some(SHORT)).expect("wait"));
    let second = frame(&pair.to_b, CHANNEL, 2, 100);
    send(&mut *pair.a, &second);
    assert!(pair.b.wait(Some(LONG)).expect("wait"));
    only(&mut *pair.b, &second);
    held.into_iter().for_each(|frame| pair.b.recycle(frame));
}

/// For callers with an event loop of their own. Only links with a kernel have a descriptor.
pub fn the_descriptor_is_readable_only_while_a_frame_waits(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    if !has_kernel(&*pair.b) {
        return;
    }
    for i in 0..3 {
        assert!(!readable(pair.b.fd(), Duration::ZERO), "before frame {i}");
        let ours = frame(&pair.to_b, CHANNEL, i, 100);
        send(&mut *pair.a, &ours);
        assert!(readable(pair.b.fd(), LONG), "with frame {i}");
        only(&mut *pair.b, &ours);
    }
    assert!(!readable(pair.b.fd(), SHORT), "after all");
}

fn readable(fd: Option<BorrowedFd<'_>>, timeout: Duration) -> bool {
    let fd = fd.expect("a descriptor");
    let time =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&time)).expect("poll") == 1
}
