//! After the warm-up, frames cost no allocation.

use gigae_network::{Buffer, Context, Frame, Host, LeafSpine, Network, Time, Topology};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static CALLS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends to every other host in turns, at 5/6 of the link's rate.
struct Sender {
    sent: u32,
    next: Time,
}

impl Host for Sender {
    type Payload = u64;

    fn receive(&mut self, _frame: Frame<u64>, _context: &mut Context<'_>) {}

    fn timer(&mut self, _token: u64, _context: &mut Context<'_>) {}

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<u64>> {
        if context.now() < self.next {
            return None;
        }
        self.next = context.now() + Time(1_020 * 800 * 6 / 5);
        context.set_timer(self.next, 0);
        self.sent += 1;
        let (source, length) = (context.host(), 1_000);
        let destination = (source + 1 + self.sent % 143) % 144;
        let (flow, priority, marked, payload) = (self.sent, 0, false, 7);
        Some(Frame { source, destination, flow, length, priority, marked, payload })
    }
}

#[test]
fn frames_cost_no_allocation() {
    let mut plan = LeafSpine::published();
    plan.switch.buffer = Buffer::Shared { bytes: 1 << 20, alpha: (1, 1) };
    let topology = Topology::leaf_spine(plan, Time::us(1));
    let sender = |_| Sender { sent: 0, next: Time::ZERO };
    let mut network = Network::new(topology, (0..144).map(sender).collect(), 1);
    for host in 0..144 {
        network.call(host, |_, _| {});
    }
    network.run(Time::us(300));
    let (calls, sent) = (CALLS.load(Ordering::Relaxed), network.totals().sent);
    assert!(calls > 0);
    network.run(Time::us(900));
    let calls = CALLS.load(Ordering::Relaxed) - calls;
    let sent = network.totals().sent - sent;
    // The most frames and events that ever were under way may still grow a little.
    assert!(sent > 80_000 && calls < 10, "{calls} allocations for {sent} frames");
}
