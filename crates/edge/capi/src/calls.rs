//! Sequences of calls that no sane program makes, read from bytes: closed or made-up handles;
//! dropped, copied or overwritten buffers and messages; any lengths, peers and numbers. Two
//! endpoints on a simulated network. Pointers are valid or NULL, since the library cannot check
//! others.

use crate::abi::*;
use crate::endpoint::*;
use crate::error::*;
use crate::info::*;
use crate::memory::*;
use crate::operation::*;
use crate::options::*;
use crate::peer::*;
use crate::receive::*;
use crate::region::*;
use crate::send::*;
use crate::wait::*;
use gigae::Options;
use gigae_sim::{Faults, Network};
use std::ffi::{c_int, c_void};
use std::ptr::{self, null, null_mut};
use std::time::Duration;

/// Most calls of one input.
const MOST_CALLS: usize = 3000;

/// Most buffers and messages held at once, and most operations and keys remembered.
const MOST_HELD: usize = 40;

/// Memory that operations use; all use the same.
const MEMORY: usize = 1 << 16;

/// Frames of each endpoint in each direction.
const FRAMES: usize = 128;

type Handle = *mut EndpointHandle;

struct Calls<'a> {
    input: &'a [u8],
    net: Network,
    /// Two open handles, and values that never were handles or are closed.
    handles: Vec<Handle>,
    options: Vec<*mut OptionsHandle>,
    buffers: Vec<Buffer>,
    /// Messages with their contents on arrival, until they are dropped.
    messages: Vec<(Message, Option<Vec<u8>>)>,
    ids: Vec<u64>,
    keys: Vec<u64>,
    memory: Vec<u8>,
    made: u64,
}

/// Makes the calls of the input. Returns how many.
///
/// # Panics
/// If a call panics inside (its code says so) or returns an unknown code, or if a held message
/// changes.
/// changes while it is held.
pub fn run(input: &[u8]) -> u64 {
    let mut calls = Calls::new(input);
    for _ in 0..MOST_CALLS {
        if calls.input.is_empty() {
            break;
        }
        calls.call();
    }
    calls.close()
}

impl<'a> Calls<'a> {
    fn new(input: &'a [u8]) -> Self {
        let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
        let handles = [1, 2].map(|seed| {
            let options = Options::new("sim").peer_timeout(Duration::from_millis(10));
            let options = options.linger(Duration::ZERO).tuned(FRAMES, |_| {});
            let endpoint = options.open_simulated(&net, seed).expect("a simulated port");
            let handle =
                ENDPOINTS.insert(Box::new(OpenEndpoint::new(endpoint))).expect("there is room");
            ptr::without_provenance_mut(handle)
        });
        let mut calls = Self {
            input,
            net,
            handles: handles.to_vec(),
            options: vec![null_mut()],
            buffers: Vec::new(),
            messages: Vec::new(),
            ids: vec![0],
            keys: vec![0],
            memory: vec![7; MEMORY],
            made: 0,
        };
        let macs: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        for (handle, mac) in handles.into_iter().zip([macs[1], macs[0]]) {
            let mut peer = 0;
            // SAFETY: six bytes, and a number to write to.
            calls.answered(unsafe { gigae_peer_by_mac(handle, mac.as_ptr(), 0, 0, &mut peer) });
        }
        calls.handles.extend([null_mut(), ptr::without_provenance_mut(0xdead_beef)]);
        calls
    }

    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.input.split_first() else { return 0 };
        self.input = rest;
        byte
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => 1 << 40,
            253 => u64::from(self.byte()) << 8,
            n => u64::from(n),
        }
    }

    fn which(&mut self, of: usize) -> usize {
        usize::from(self.byte()) % of.max(1)
    }

    fn handle(&mut self) -> Handle {
        let at = match self.byte() {
            n @ 0..=199 => usize::from(n & 1),
            n => usize::from(n) % self.handles.len(),
        };
        self.handles[at]
    }

    /// Usually one of the two existing peers.
    fn peer(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            n @ 250.. => u32::from(n),
            n => 1 + u32::from(n > 240),
        }
    }

    /// Bytes to send or to use: valid, or NULL.
    fn data(&mut self) -> (*mut c_void, usize) {
        let at = usize::from(self.byte());
        let len = match self.byte() {
            255 => return (null_mut(), usize::MAX),
            254 => return (null_mut(), usize::from(self.byte())),
            n @ 200.. => usize::from(n - 199) * 1000,
            n => usize::from(n) * 10,
        };
        // SAFETY: at most 255 and 54,000, of 65,536 bytes.
        (unsafe { self.memory.as_mut_ptr().add(at) }.cast(), len)
    }

    fn answered(&mut self, code: c_int) -> bool {
        self.made += 1;
        assert_ne!(code, Code::Panicked as c_int, "a call panicked");
        assert!((-200..=65_536).contains(&code), "the answer {code}");
        code == 0
    }

    fn call(&mut self) {
        match self.byte() % 16 {
            0 | 1 => self.send(),
            2 => self.take_buffer(),
            3 | 4 => self.use_buffer(),
            5 | 6 => self.receive(),
            7 => self.drop_message(),
            8 | 9 => self.start(),
            10 => self.complete(),
            11 => self.region(),
            12 => self.settings(),
            13 => self.ask(),
            14 => self.close_one(),
            _ => self.pass(),
        }
    }

    fn pass(&mut self) {
        let time = u64::from(self.byte()) * 4000;
        self.net.advance_to(self.net.now() + time);
        for handle in [self.handles[0], self.handles[1]] {
            let code = gigae_progress(handle);
            self.answered(code);
        }
        self.net.advance_to(self.net.now() + 6000);
    }

    fn send(&mut self) {
        let (handle, to, choice) = (self.handle(), self.peer(), self.byte());
        let (data, len) = self.data();
        // SAFETY: good bytes or NULL, which is refused if any are wanted.
        let code = unsafe {
            match choice % 3 {
                0 => gigae_try_send(handle, to, data, len),
                1 => gigae_queue(handle, to, data, len),
                _ => gigae_send(handle, to, data, len),
            }
        };
        self.answered(code);
        if choice > 128 {
            let code = gigae_flush(handle);
            self.answered(code);
        }
    }

    fn take_buffer(&mut self) {
        let handle = self.handle();
        let mut buffer = Buffer::EMPTY;
        // SAFETY: memory for a buffer.
        let code = unsafe { gigae_buffer_try_take(handle, &mut buffer) };
        if self.answered(code) && self.buffers.len() < MOST_HELD {
            // SAFETY: the buffer's own memory.
            unsafe { buffer.data.cast::<u8>().write_bytes(0x5a, buffer.capacity) };
            self.buffers.push(buffer);
        } else if code == 0 {
            // SAFETY: a buffer.
            let code = unsafe { gigae_buffer_drop(&mut buffer) };
            self.answered(code);
        }
    }

    /// Sends or drops a buffer that is held, used up, a copy, or overwritten.
    fn use_buffer(&mut self) {
        if self.buffers.is_empty() {
            return;
        }
        let at = self.which(self.buffers.len());
        // SAFETY: plain numbers and addresses, as C copies them.
        let mut buffer = unsafe { ptr::read(&self.buffers[at]) };
        let (choice, to, len) = (self.byte(), self.peer(), self.number() as usize);
        if choice > 220 {
            let word = self.which(OPAQUE);
            buffer.opaque[word] = buffer.opaque[word].wrapping_add(self.number());
        }
        // SAFETY: a buffer, whatever is in it, or NULL.
        let code = unsafe {
            match choice % 8 {
                0 | 1 => gigae_buffer_drop(&mut buffer),
                2 => gigae_buffer_send(&mut buffer, to, len),
                3 => gigae_buffer_queue(&mut buffer, to, len),
                4 => gigae_buffer_drop(null_mut()),
                _ => gigae_buffer_try_queue(&mut buffer, to, len),
            }
        };
        self.answered(code);
        if choice & 64 == 0 {
            // It was the buffer itself and not a copy.
            self.buffers[at] = buffer;
        }
        if self.buffers.len() > MOST_HELD / 2 {
            self.drop_buffers();
        }
    }

    fn receive(&mut self) {
        let (handle, choice) = (self.handle(), self.byte());
        let mut message = Message::EMPTY;
        // SAFETY: memory for a message, or NULL.
        let code = unsafe {
            match choice % 8 {
                0 => gigae_try_recv(handle, null_mut()),
                1 => gigae_recv_timeout(handle, &mut message, u64::from(choice)),
                2 => return self.take_failure(handle),
                _ => gigae_try_recv(handle, &mut message),
            }
        };
        if !self.answered(code) || choice % 8 == 0 {
            return;
        }
        let held = bytes(&message).to_vec();
        self.messages.push((message, Some(held)));
        if self.messages.len() > MOST_HELD {
            self.drop_messages();
        }
    }

    fn take_failure(&mut self, handle: Handle) {
        let size = usize::from(self.byte());
        // SAFETY: a failure is numbers and text.
        let mut failure: Failure = unsafe { std::mem::zeroed() };
        let data = self.memory.as_mut_ptr().cast();
        // SAFETY: memory for a failure and `size` bytes.
        let code = unsafe { gigae_take_failure(handle, &mut failure, data, size) };
        self.answered(code);
    }

    /// Drops a message that is held, already dropped, a copy, or overwritten.
    fn drop_message(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let at = self.which(self.messages.len());
        self.check(at);
        let (choice, by) = (self.byte(), self.number());
        // SAFETY: plain numbers and addresses, as C copies them.
        let mut message = unsafe { ptr::read(&self.messages[at].0) };
        if choice > 220 {
            let word = usize::from(choice) % OPAQUE;
            message.opaque[word] = message.opaque[word].wrapping_add(by);
        }
        let ticket = message.opaque;
        // SAFETY: a message, whatever is in it.
        let code = unsafe { gigae_message_drop(&mut message) };
        if self.answered(code) {
            // A made-up ticket may have been that of another message.
            let dropped = self.messages.iter_mut().filter(|(m, _)| m.opaque[..2] == ticket[..2]);
            dropped.for_each(|(_, held)| *held = None);
        }
        if choice & 64 == 0 {
            self.messages[at].0 = message;
        }
    }

    /// A message stays unchanged until it is dropped.
    fn check(&self, at: usize) {
        let (message, held) = &self.messages[at];
        if let Some(held) = held {
            assert_eq!(bytes(message), held, "a message changed while it was held");
        }
    }

    fn start(&mut self) {
        let (handle, to, choice, tag) = (self.handle(), self.peer(), self.byte(), self.number());
        let (data, len) = self.data();
        let key = self.keys[usize::from(choice) % self.keys.len()];
        let place = RemoteAddress { key, offset: self.number(), peer: to, reserved: 0 };
        let (mut id, notice, context) = (0, tag, null_mut());
        let notice: *const u64 = if choice & 8 > 0 { &notice } else { null() };
        // SAFETY: good bytes or NULL; the memory outlives the endpoints.
        let code = unsafe {
            match choice % 8 {
                0 | 1 => gigae_start_send(handle, to, tag, data, len, context, &mut id),
                2 | 3 => gigae_start_recv(handle, to, tag, 0, data, len, context, &mut id),
                4 => gigae_start_write(handle, &place, data, len, notice, context, &mut id),
                5 => gigae_start_read(handle, &place, data, len, context, &mut id),
                6 => gigae_start_fetch_add(handle, &place, tag, context, &mut id),
                _ => gigae_start_compare_swap(handle, &place, tag, 1, context, null_mut()),
            }
        };
        if self.answered(code) && self.ids.len() < MOST_HELD {
            self.ids.push(id);
        }
    }

    fn complete(&mut self) {
        let (handle, choice) = (self.handle(), self.byte());
        let mut completion = Completion::EMPTY;
        let id =
            self.ids[usize::from(choice) % self.ids.len()].wrapping_add(u64::from(choice > 240));
        let mut found = Tagged { tag: 0, len: 0, from: 0, reserved: 0 };
        let mut count = 0_usize;
        // SAFETY: memory for what is written.
        let code = unsafe {
            match choice % 6 {
                0 => gigae_cancel(handle, id),
                1 => gigae_peek(handle, ANYBODY, 0, u64::MAX, &mut found),
                2 => gigae_completion_timeout(handle, &mut completion, u64::from(choice)),
                3 => gigae_outstanding(handle, &mut count),
                _ => gigae_try_completion(handle, &mut completion),
            }
        };
        self.answered(code);
    }

    fn region(&mut self) {
        let (handle, choice) = (self.handle(), self.byte());
        let at = self.which(self.keys.len());
        let key = self.keys[at].wrapping_add(u64::from(choice > 240));
        let mut notice = Notice::default();
        match choice % 4 {
            0 => {
                let ((data, len), mut key) = (self.data(), 0);
                // SAFETY: good bytes or NULL; the memory outlives the endpoints.
                let code = unsafe {
                    gigae_register(handle, data, len, c_int::from(choice / 4 % 10), &mut key)
                };
                if self.answered(code) && self.keys.len() < MOST_HELD {
                    self.keys.push(key);
                }
            }
            1 => {
                let code = gigae_deregister(handle, key);
                self.answered(code);
            }
            2 => self.allocated_region(handle, choice.into()),
            _ => {
                // SAFETY: memory for a notice.
                let code = unsafe { gigae_try_notice(handle, &mut notice) };
                self.answered(code);
            }
        }
    }

    /// Memory of the library that is freed while it is registered.
    fn allocated_region(&mut self, handle: *mut EndpointHandle, len: usize) {
        let (mut memory, mut key) = (null_mut(), 0);
        // SAFETY: a place for the address.
        let code = unsafe { gigae_memory_alloc(len, &mut memory) };
        self.answered(code);
        // SAFETY: NULL, or memory of this length that stays until it is deregistered.
        let code = unsafe { gigae_register(handle, memory, len, 3, &mut key) };
        if self.answered(code) && self.keys.len() < MOST_HELD {
            self.keys.push(key);
        }
        let code = gigae_memory_free(memory);
        self.answered(code);
    }

    fn settings(&mut self) {
        let (choice, n) = (self.byte(), self.number());
        let at = self.which(self.options.len());
        let options = self.options[at];
        let code = match choice % 10 {
            0 => {
                let mut made = null_mut();
                // SAFETY: text with a NUL, and a place to write to.
                let code = unsafe { gigae_options_new(c"sim".as_ptr(), &mut made) };
                if code == 0 {
                    self.options.push(made);
                }
                code
            }
            1 => gigae_options_free(options),
            2 => gigae_options_port(options, n as u16),
            3 => gigae_options_ethertype(options, n as u16),
            4 => gigae_options_udp(options, n as u16),
            5 => gigae_options_backend(options, n as c_int),
            6 => gigae_options_wait(options, n as c_int),
            7 => gigae_options_peer_timeout(options, n),
            8 => gigae_options_linger(options, n),
            // SAFETY: the memory has as many bytes as this call names.
            _ => unsafe {
                gigae_options_channels(options, self.memory.as_ptr(), n.min(300) as usize)
            },
        };
        self.answered(code);
        if self.options.len() > MOST_HELD {
            self.free_options();
        }
    }

    fn ask(&mut self) {
        let (handle, choice, peer) = (self.handle(), self.byte(), self.peer());
        let size = usize::from(self.byte());
        let (text, mut time) = (self.memory.as_mut_ptr().cast(), 0_i64);
        // SAFETY: memory of the size that is stated, and more.
        let code = unsafe {
            match choice % 6 {
                0 => gigae_mac(handle, text, size),
                1 => gigae_peer_address(handle, peer, text, size),
                2 => gigae_prepare_to_wait(handle, &mut time),
                3 => gigae_fd(handle),
                4 => gigae_drain(handle, u64::from(choice)),
                _ => gigae_set_wait(handle, c_int::from(choice / 6)),
            }
        };
        self.answered(code);
    }

    /// Closes a handle that is already closed, or one of the two open ones, which is usually in
    /// use.
    fn close_one(&mut self) {
        let choice = self.byte();
        let handle = self.handles[usize::from(choice) % self.handles.len()];
        if choice < 250 && usize::from(choice) % self.handles.len() < 2 {
            return;
        }
        let code = gigae_close(handle);
        self.answered(code);
    }

    fn drop_buffers(&mut self) {
        for mut buffer in std::mem::take(&mut self.buffers) {
            // SAFETY: a buffer, whatever is in it.
            let code = unsafe { gigae_buffer_drop(&mut buffer) };
            self.answered(code);
        }
    }

    fn drop_messages(&mut self) {
        for at in 0..self.messages.len() {
            self.check(at);
        }
        for (mut message, _) in std::mem::take(&mut self.messages) {
            // SAFETY: a message, whatever is in it.
            let code = unsafe { gigae_message_drop(&mut message) };
            self.answered(code);
        }
    }

    fn free_options(&mut self) {
        for options in self.options.split_off(1) {
            let code = gigae_options_free(options);
            self.answered(code);
        }
    }

    /// Returns everything that is still held. Then both can be closed, once.
    fn close(mut self) -> u64 {
        self.drop_buffers();
        self.drop_messages();
        self.free_options();
        for handle in [self.handles[0], self.handles[1]] {
            let first = gigae_close(handle);
            self.answered(first);
            let second = gigae_close(handle);
            self.answered(second);
            let closed = [0, Code::BadHandle as c_int];
            assert!(closed.contains(&first), "it cannot be closed: {first}");
            assert_eq!(second, Code::BadHandle as c_int, "closed twice");
        }
        self.made
    }
}

fn bytes(message: &Message) -> &[u8] {
    if message.len == 0 {
        return &[];
    }
    // SAFETY: only of messages that were received and not dropped.
    unsafe { std::slice::from_raw_parts(message.data.cast(), message.len) }
}
