//! What hostile frames of one kind cost their victim, early and after thousands of them.

use super::{BURST, Resources, TEMPLATE};
use crate::scenario::Scenario;
use crate::script::Script;

/// Kinds of hostile frames whose [`work`] is looked at.
pub const KINDS: [&str; 8] = [
    "messages",
    "offers",
    "writes with a notice",
    "sessions",
    "proposals in made-up names",
    "repeated frames",
    "repeated frames with other numbers",
    "repeated frames of another version",
];

/// The kinds of frames that carry them.
#[derive(Clone, Copy, Debug)]
pub enum Carrier {
    /// Raw Ethernet frames.
    Ethernet,
    /// UDP datagrams.
    Udp,
}

/// Calls what the victim does for its frames; who measures that gives a function of his own.
pub type CallMeter = fn(&mut dyn FnMut());

/// Frames before the first ones that are measured: the session is up, and little is kept. Frames
/// that are measured each time, and frames between the two times: tables are full then.
const BEFORE: u64 = 20;
const COUNTED: u64 = 200;
const BETWEEN: u64 = 10_000;

/// Looks at once within which a victim receives frames, or the attackers cannot send any more.
const MOST_LOOKS: u32 = 1_000;

/// Sends a victim, whose program takes no notice, hostile frames of one of the [`KINDS`]. What the
/// victim does for 200 frames is called by the first function, and what it does for 200 others by
/// the second, after 10,000 more. Returns how many frames it received each time.
///
/// # Panics
/// If the victim does.
pub fn work(kind: usize, carrier: Carrier, measured: [CallMeter; 2]) -> [u64; 2] {
    const TAKES_NOTHING: u8 = 4;
    let setup = TAKES_NOTHING | u8::from(matches!(carrier, Carrier::Udp));
    let mut all = Resources::new(&mut Script::new(&[setup]), 0);
    let mut first = BEFORE;
    measured.map(|measured| {
        all.hostile(kind, std::mem::replace(&mut first, BETWEEN));
        let unmeasured = std::mem::replace(&mut all.measured, measured);
        let before = all.victim.counters().link.rx_frames;
        all.hostile(kind, COUNTED);
        all.measured = unmeasured;
        all.victim.counters().link.rx_frames - before
    })
}

impl Resources {
    /// Frames of one of the [`KINDS`], until the victim has received `frames` of them.
    fn hostile(&mut self, kind: usize, frames: u64) {
        const OFFER: [u8; TEMPLATE] = [4, 128, 0, 200, 3, 0, 0, 0, 0, 0, 0, 0];
        const WRITE: [u8; TEMPLATE] = [9, 128, 0, 64, 2, 0, 0, 0, 64, 2, 0, 0];
        let received = |all: &Self| all.victim.counters().link.rx_frames;
        let (until, mut looks) = (received(self) + frames, 0);
        let mut last = received(self);
        while received(self) < until {
            (last, looks) = match received(self) {
                now if now == last => (last, looks + 1),
                now => (now, 0),
            };
            assert!(looks < MOST_LOOKS, "the attackers cannot send any more");
            match kind {
                0 => self.send(0, BURST, |speaker| speaker.message(vec![9; 1000])),
                1 => self.operations(0, &OFFER, BURST),
                2 => self.operations(0, &WRITE, BURST),
                3 => {
                    self.begin_anew(0, false);
                    self.operations(0, &OFFER, 1);
                }
                4 => self.made_up_names(BURST),
                5 => self.say_again(&[0, 255], BURST),
                6 => self.say_again(&[0, 255, 0, 0x33, 0], BURST),
                _ => self.say_again(&[0, 255, 0, 0, 4], BURST),
            }
            self.small_talk();
        }
    }
}
