//! The entries, called as C calls them, with endpoints on a simulated network.

mod endpoints;
mod messages;
mod operations;

use crate::abi::*;
use crate::cluster::*;
use crate::endpoint::*;
use crate::error::*;
use crate::info::*;
use crate::operation::*;
use crate::options::*;
use crate::peer::*;
use crate::receive::*;
use crate::region::*;
use crate::send::*;
use crate::wait::*;
use gigae::Options;
use gigae_sim::{Faults, Network};
use std::ffi::{CStr, c_int};
use std::ptr::{self, null, null_mut};
use std::time::Duration;

type Handle = *mut EndpointHandle;

fn open(net: &Network, seed: u32) -> Handle {
    let options = Options::new("sim").peer_timeout(Duration::from_millis(10));
    let endpoint = options.open_simulated(net, seed).unwrap();
    ptr::without_provenance_mut(ENDPOINTS.insert(Box::new(OpenEndpoint::new(endpoint))).unwrap())
}

/// Two endpoints that know each other, on a network of their own.
struct EndpointPair {
    net: Network,
    a: Handle,
    b: Handle,
    to_b: u32,
    to_a: u32,
}

impl EndpointPair {
    fn new() -> Self {
        let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
        let (a, b) = (open(&net, 1), open(&net, 2));
        let (to_b, to_a) = (peer(a, &mac(b)), peer(b, &mac(a)));
        Self { net, a, b, to_b, to_a }
    }

    /// Lets time pass while both ends make progress.
    fn run(&self, time: Duration) {
        let end = self.net.now() + time.as_nanos() as u64;
        while self.net.now() < end {
            assert_eq!((gigae_progress(self.a), gigae_progress(self.b)), (0, 0));
            self.net.advance_to(self.net.now() + 1_000);
        }
    }

    fn pass(&self) {
        self.run(Duration::from_micros(100));
    }

    fn close(self) {
        assert_eq!((gigae_close(self.a), gigae_close(self.b)), (0, 0));
    }
}

/// Text from an entry that answers as `snprintf` does.
fn text(entry: impl Fn(*mut std::ffi::c_char, usize) -> c_int) -> String {
    let len = entry(null_mut(), 0);
    let mut buffer = vec![0; len as usize + 1];
    assert_eq!(entry(buffer.as_mut_ptr().cast(), buffer.len()), len);
    CStr::from_bytes_with_nul(&buffer).unwrap().to_str().unwrap().to_owned()
}

fn mac(endpoint: Handle) -> String {
    // SAFETY: text() gives a buffer of the stated size.
    text(|to, size| unsafe { gigae_mac(endpoint, to, size) })
}

fn peer(endpoint: Handle, address: &str) -> u32 {
    let address = std::ffi::CString::new(address).unwrap();
    let mut peer = 0;
    // SAFETY: text with a NUL, and a number to write to.
    assert_eq!(unsafe { gigae_peer(endpoint, address.as_ptr(), &mut peer) }, 0);
    peer
}

fn send(endpoint: Handle, to: u32, message: &[u8]) -> c_int {
    // SAFETY: the slice's own length.
    unsafe { gigae_send(endpoint, to, message.as_ptr().cast(), message.len()) }
}

fn receive(endpoint: Handle) -> Result<Message, c_int> {
    let mut message = Message::EMPTY;
    // SAFETY: memory for a message.
    match unsafe { gigae_try_recv(endpoint, &mut message) } {
        0 => Ok(message),
        code => Err(code),
    }
}

fn bytes(message: &Message) -> &[u8] {
    // SAFETY: tests look at messages that they have not dropped.
    unsafe { std::slice::from_raw_parts(message.data.cast(), message.len) }
}

fn drop_message(message: &mut Message) -> c_int {
    // SAFETY: a message, whatever is in it.
    unsafe { gigae_message_drop(message) }
}

fn take(endpoint: Handle) -> Buffer {
    let mut buffer = Buffer::EMPTY;
    // SAFETY: memory for a buffer.
    assert_eq!(unsafe { gigae_buffer_take(endpoint, &mut buffer) }, 0);
    buffer
}

fn drop_buffer(buffer: &mut Buffer) -> c_int {
    // SAFETY: a buffer, whatever is in it.
    unsafe { gigae_buffer_drop(buffer) }
}

/// A copy, as C makes it by assignment.
fn copy<T>(of: &T) -> T {
    // SAFETY: `Buffer` and `Message` are plain numbers and addresses.
    unsafe { ptr::read(of) }
}

const BAD_HANDLE: c_int = Code::BadHandle as c_int;

const INVALID: c_int = Code::Invalid as c_int;

const AGAIN: c_int = Code::Again as c_int;

fn last_error() -> String {
    // SAFETY: a text of the library's.
    unsafe { CStr::from_ptr(gigae_last_error()) }.to_str().unwrap().to_owned()
}
