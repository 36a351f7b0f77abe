//! How an endpoint waits: for frames, for room, and in the program's own sleep.

use super::{Descriptor, Endpoint, waiter};
use crate::error::SendError;
use crate::peer::Peer;
use crate::wait::{Idle, Wait, WaitFor, WaitResult};
use gigae_link::LinkError;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// # Waiting
///
/// Calls that wait make progress while they wait. Programs with an event loop of their own sleep on
/// [`fd`](Self::fd): call [`prepare_to_wait`](Self::prepare_to_wait), sleep, then receive until
/// nothing is left.
impl Endpoint {
    /// Changes how blocking calls wait.
    pub fn set_wait(&self, style: Wait) {
        *self.waiter.borrow_mut() = waiter(style, self.fd.is_none());
    }

    /// Receives frames, sends acknowledgements and retransmits what is due, without waiting. For
    /// event loops, and with [`Progress::Manual`](crate::Progress::Manual) for programs that are
    /// busy with other things for long.
    pub fn progress(&self) -> Result<(), SendError> {
        self.engine().progress()?;
        Ok(())
    }

    /// A descriptor that polls readable when a frame may have arrived, for epoll and the like;
    /// `None` on a simulated link. Before sleeping on it, call
    /// [`prepare_to_wait`](Self::prepare_to_wait); afterwards, receive until there is nothing more.
    ///
    /// Once a program has asked for it, each frame that arrives costs some 100 ns more.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(Descriptor::get)
    }

    /// Sends the acknowledgements that are held back. A program calls this that makes no call for a
    /// while and does not sleep: a peer may wait for them.
    pub fn acknowledge(&self) -> Result<(), SendError> {
        self.engine().acknowledge()?;
        Ok(())
    }

    /// Sends the acknowledgements that are held back, and returns how long the program may sleep on
    /// the [descriptor](Self::fd) before it must call [`progress`](Self::progress). It must be the
    /// last call before the sleep. `None`: without
    /// limit. Zero: the program must not sleep, but check again everything that it waits for, since
    /// this call or the thread has received something, such as a message or the acknowledgement
    /// that makes room for one. With [`Progress::Auto`](crate::Progress::Auto) no other time is
    /// returned.
    ///
    /// With [`Progress::Auto`](crate::Progress::Auto) the descriptor is readable, too, when the
    /// thread has received something that the program may want. One system call more then.
    pub fn prepare_to_wait(&self) -> Result<Option<Duration>, SendError> {
        if let Some(fd) = &self.fd {
            let what = "watching the links";
            fd.watch().map_err(|e| LinkError::Io { what, source: e.into() })?;
        }
        let mut engine = self.engine();
        let came = engine.progress()? > 0;
        let may_sleep = engine.acknowledge()?;
        let came = engine.watch_from_outside(self.engine.calls().wrapping_add(1)) || came;
        let waiting = came || engine.has_events() || engine.links.prepare_to_wait();
        engine.leave_figures_soon();
        let left = if self.attended.is_some() { None } else { engine.time_left() };
        Ok(if waiting || !may_sleep { Some(Duration::ZERO) } else { left })
    }

    /// Waits until there may be a transmit frame.
    #[cold]
    pub(super) fn wait_for_buffer(&self) -> Result<(), SendError> {
        self.engine().transmit()?;
        let mut pause = Pause::for_room();
        loop {
            // At once: in between, the thread may take in what would free a frame.
            let mut engine = self.engine();
            engine.progress()?;
            if let Some(frame) = engine.take() {
                engine.give_back_unsent(frame);
                drop(engine);
                pause.end(self);
                return Ok(());
            }
            if let Some(error) = engine.starved() {
                return Err(error);
            }
            drop(engine);
            pause.pass(self, None)?;
        }
    }

    /// Waits until the window towards a peer may have room.
    #[cold]
    pub(crate) fn wait_for_room(&self, to: Peer) -> Result<(), SendError> {
        self.engine().transmit()?;
        let mut pause = Pause::for_room();
        loop {
            {
                let mut engine = self.engine();
                engine.progress()?;
                // What was just taken in may be all that there was to wait for.
                if engine.has_room(to.0) {
                    break;
                }
                if let Some(error) = engine.stuck() {
                    return Err(error);
                }
            }
            pause.pass(self, None)?;
        }
        pause.end(self);
        Ok(())
    }
}

/// One wait: its empty polls, and what they cost.
#[derive(Default)]
pub(crate) struct Pause {
    wanted: WaitFor,
    since: Option<Instant>,
    polls: u32,
    slept: bool,
    napped: bool,
    /// The end has come.
    over: bool,
    /// Turns of the thread when this wait last meant to sleep.
    turns: Option<u64>,
    /// Datagrams that the socket for bulk data had received at the last look.
    datagrams: Option<u64>,
}

/// Empty polls between two looks at the clock.
const LOOK_EVERY: u32 = 32;

impl Pause {
    /// A wait for room to send.
    fn for_room() -> Self {
        Self { wanted: WaitFor::Room, ..Self::default() }
    }

    /// Passes the time until the next poll. False when the end has come, and one more poll has
    /// found nothing.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        endpoint: &Endpoint,
        end: Option<Instant>,
    ) -> Result<bool, LinkError> {
        self.polls = self.polls.wrapping_add(1);
        let style = endpoint.waiter.borrow().style;
        let timeless = style == Wait::Spin && end.is_none();
        if timeless || (style != Wait::Sleep && !self.polls.is_multiple_of(LOOK_EVERY)) {
            std::hint::spin_loop();
            return Ok(true);
        }
        self.look(endpoint, end)
    }

    fn look(&mut self, endpoint: &Endpoint, end: Option<Instant>) -> Result<bool, LinkError> {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            // Since the last poll the program may have stood still, and the thread taken something
            // in.
            return Ok(!std::mem::replace(&mut self.over, true));
        }
        let (datagrams, incomplete) = {
            let links = &endpoint.engine().links;
            (links.datagrams(), links.is_incomplete())
        };
        let came = self.datagrams.replace(datagrams).is_some_and(|before| before != datagrams);
        if came && incomplete && self.wanted != WaitFor::Room {
            // A part of a frame has come: the wait for the rest begins.
            (self.wanted, self.since, self.napped) = (WaitFor::Rest, Some(now), false);
        }
        let waited = now - *self.since.get_or_insert(now);
        let left = end.map(|end| end - now);
        let idle = endpoint.waiter.borrow().idle(waited, self.wanted, self.napped);
        match idle {
            Idle::Spin => {}
            Idle::Nap(nap) => {
                self.napped = true;
                endpoint.engine().nap(left.map_or(nap, |left| left.min(nap)))?;
            }
            Idle::Sleep => {
                self.slept = true;
                endpoint.engine.sleep(|engine| {
                    // A turn of the thread between the caller's look and now may have taken in what
                    // the caller waits for, and nothing else would come: the caller looks again.
                    let turns = Some(engine.progress_turns());
                    if std::mem::replace(&mut self.turns, turns) == turns {
                        engine.sleep(left)
                    } else {
                        Ok(())
                    }
                })?;
            }
        }
        Ok(true)
    }

    /// The wait is over.
    #[inline]
    pub(crate) fn end(&self, endpoint: &Endpoint) {
        if self.since.is_some() {
            let ended = {
                let engine = endpoint.engine();
                WaitResult {
                    slept: self.slept,
                    napped: self.napped,
                    sent: engine.proto.counters().messages_sent + engine.transfer.started(),
                    // A bulk frame takes as much of a window as it has datagrams.
                    frames_received: engine.frames_received() + engine.links.datagrams(),
                }
            };
            endpoint.waiter.borrow_mut().ended(ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use gigae_progress::Attend;
    use gigae_sim::{Faults, Network};

    #[test]
    fn an_endpoint_that_sends_operations_is_no_end_of_a_stream() {
        let net = Network::new(1, Faults::default());
        let endpoint = Options::new("sim").wait(Wait::Adaptive).open_simulated(&net, 1).unwrap();
        let own = endpoint.peer(endpoint.identity().address).unwrap();
        let naps_after = |sends: bool| {
            for _ in 0..100 {
                if sends {
                    endpoint.start_send(own, 1, vec![0; 8]).unwrap();
                }
                Pause { since: Some(Instant::now()), ..Pause::default() }.end(&endpoint);
            }
            let idle = endpoint.waiter.borrow().idle(Duration::ZERO, WaitFor::Arrival, false);
            matches!(idle, Idle::Nap(_))
        };
        assert_eq!([naps_after(true), naps_after(false)], [false, true]);
    }

    /// What the program waits for, such as room, may be in what was taken in, by this call or by
    /// the thread.
    #[test]
    fn a_program_looks_again_before_it_sleeps_if_anything_was_taken_in() {
        let net = Network::new(1, Faults::default());
        let open = |n| Options::new("sim").open_simulated(&net, n).unwrap();
        let (a, b) = (open(1), open(2));
        let to = a.peer(b.identity().address).unwrap();
        let looks_again = || a.prepare_to_wait().unwrap() == Some(Duration::ZERO);
        // The other end takes the message, and its acknowledgement is under way.
        let acknowledged = |n: u8| {
            a.send(to, &[n]).unwrap();
            for _ in 0..10 {
                net.advance_to(net.now() + 100_000);
                drop(b.try_recv().unwrap());
            }
            b.engine().acknowledge().unwrap();
            net.advance_to(net.now() + 100_000);
        };
        a.send(to, b"the session is up after it").unwrap();
        while a.engine().is_owed() {
            net.advance_to(net.now() + 100_000);
            drop(b.try_recv().unwrap());
            b.engine().acknowledge().unwrap();
            a.progress().unwrap();
        }
        acknowledged(1);
        assert_eq!([looks_again(), looks_again()], [true, false]);
        acknowledged(2);
        a.engine().attend(0, &|| false);
        assert!(!a.engine().is_owed());
        assert_eq!([looks_again(), looks_again()], [true, false]);
    }

    #[test]
    fn acknowledgements_that_are_held_back_go_when_the_program_says_so() {
        let net = Network::new(1, Faults::default());
        let open = |n| Options::new("sim").open_simulated(&net, n).unwrap();
        let (a, b) = (open(1), open(2));
        let to = a.peer(b.identity().address).unwrap();
        // The first message brings the session up; the second one is the only one under way.
        for _ in 0..2 {
            a.send(to, b"acknowledge me").unwrap();
            let mut taken = false;
            while !taken {
                net.advance_to(net.now() + 10_000);
                a.progress().unwrap();
                taken = b.try_recv().unwrap().is_some();
            }
            assert!(a.engine().is_owed());
            b.acknowledge().unwrap();
            net.advance_to(net.now() + 10_000);
            a.progress().unwrap();
            assert!(!a.engine().is_owed());
        }
    }

    /// The first frame after a long sleep is a stranger's proposal. The answer to it has the time
    /// of now, not that of before the sleep, or its confirmation would come too late.
    #[test]
    fn a_peer_that_wakes_a_program_after_a_long_sleep_is_not_refused() {
        for sleeps in [true, false] {
            let net = Network::new(1, Faults::default());
            let open = |n| Options::new("sim").open_simulated(&net, n).unwrap();
            let (a, b) = (open(1), open(2));
            let to = a.peer(b.identity().address).unwrap();
            b.prepare_to_wait().unwrap();
            net.advance_to(net.now() + 25_000_000_000);
            a.send(to, b"good morning").unwrap();
            a.flush().unwrap();
            net.advance_to(net.now() + 1_000_000);
            let mut got = false;
            for _ in 0..100 {
                got |= b.try_recv().unwrap().is_some();
                if sleeps {
                    b.prepare_to_wait().unwrap();
                }
                net.advance_to(net.now() + 100_000);
                a.progress().unwrap();
                let refused = a.take_failure().map(|failed| failed.reason());
                assert_eq!(refused, None, "sleeps: {sleeps}");
            }
            assert!(got);
        }
    }

    /// As after SIGSTOP, or on a virtual machine that stood still.
    #[test]
    fn a_process_that_was_stopped_takes_in_what_has_come_before_it_gives_a_peer_up() {
        let looks: [fn(&Endpoint); 4] = [
            |a| _ = a.engine().attend(0, &|| false),
            |a| a.progress().unwrap(),
            |a| _ = a.prepare_to_wait().unwrap(),
            |a| drop(a.drain(Duration::ZERO)),
        ];
        for (n, look) in looks.into_iter().enumerate() {
            let net = Network::new(1, Faults::default());
            let open = |n| Options::new("sim").open_simulated(&net, n).unwrap();
            let (a, b, c) = (open(1), open(2), open(3));
            let [to, from_c] = [&a, &c].map(|from| {
                let whom = if std::ptr::eq(from, &a) { &b } else { &a };
                from.peer(whom.identity().address).unwrap()
            });
            for message in [&b"the session is up after it"[..], b"acknowledged meanwhile"] {
                // More frames of others than one look takes lie before the answer.
                for _ in 0..100 {
                    c.start_send(from_c, 0, vec![0; 8]).unwrap();
                }
                c.flush().unwrap();
                a.send(to, message).unwrap();
                for _ in 0..10 {
                    net.advance_to(net.now() + 100_000);
                    drop(b.try_recv().unwrap());
                    c.progress().unwrap();
                }
                b.engine().acknowledge().unwrap();
                net.advance_to(net.now() + 20_000_000_000);
                for _ in 0..10 {
                    look(&a);
                    net.advance_to(net.now() + 1_000_000);
                    drop(b.try_recv().unwrap());
                    c.progress().unwrap();
                }
                let lost = a.take_failure().map(|failed| failed.reason());
                assert_eq!(lost, None, "way {n}: {:?}", str::from_utf8(message));
                while a.try_recv().unwrap().is_some() {}
            }
            assert!(!a.engine().is_owed());
        }
    }

    #[test]
    fn a_peer_that_is_gone_is_given_up_however_rarely_the_program_looks() {
        let net = Network::new(1, Faults::default());
        let open = |n| Options::new("sim").open_simulated(&net, n).unwrap();
        let (a, b) = (open(1), open(2));
        let to = a.peer(b.identity().address).unwrap();
        a.send(to, b"is anybody there?").unwrap();
        for seconds in [0, 20, 11] {
            assert!(a.take_failure().is_none(), "after {seconds} s");
            net.advance_to(net.now() + seconds * 1_000_000_000);
            a.progress().unwrap();
        }
        assert!(a.take_failure().is_some());
    }

    #[test]
    fn the_end_of_a_wait_is_after_one_more_look() {
        let net = Network::new(1, Faults::default());
        let endpoint = Options::new("sim").open_simulated(&net, 1).unwrap();
        let (mut pause, end) = (Pause::default(), Some(Instant::now()));
        assert_eq!([(); 2].map(|()| pause.look(&endpoint, end).unwrap()), [true, false]);
    }

    #[test]
    fn a_waiting_program_looks_again_after_a_turn_of_the_thread_instead_of_sleeping() {
        let net = Network::new(1, Faults::default());
        let endpoint = Options::new("sim").wait(Wait::Sleep).open_simulated(&net, 1).unwrap();
        let mut pause = Pause::default();
        let mut slept = || {
            let before = endpoint.counters().link.waits;
            let end = Instant::now() + Duration::from_secs(60);
            assert!(pause.pass(&endpoint, Some(end)).unwrap());
            endpoint.counters().link.waits > before
        };
        // It is not known what happened before the first look.
        assert_eq!([slept(), slept(), slept()], [false, true, true]);
        endpoint.engine().attend(0, &|| false);
        assert_eq!([slept(), slept()], [false, true]);
    }
}
