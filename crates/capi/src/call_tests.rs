//! The entries, called as C calls them, with endpoints on a simulated network.

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
    ptr::without_provenance_mut(ENDPOINTS.insert(Box::new(State::new(endpoint))).unwrap())
}

/// Two endpoints that know each other, on a network of their own.
struct Pair {
    net: Network,
    a: Handle,
    b: Handle,
    to_b: u32,
    to_a: u32,
}

impl Pair {
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

#[test]
fn a_message_arrives_and_its_answer_goes_back_to_its_sender() {
    let pair = Pair::new();
    assert_eq!(send(pair.a, pair.to_b, b"question"), 0);
    pair.pass();
    let mut question = receive(pair.b).unwrap();
    assert_eq!((bytes(&question), question.from), (&b"question"[..], pair.to_a));
    assert_eq!(send(pair.b, question.from, bytes(&question)), 0, "from the frame itself");
    assert_eq!(drop_message(&mut question), 0);
    assert_eq!((question.data, question.len, question.opaque), (null(), 0, [0; OPAQUE]));
    pair.pass();
    let mut answer = receive(pair.a).unwrap();
    assert_eq!(bytes(&answer), b"question");
    assert_eq!((drop_message(&mut answer), gigae_drain(pair.a, 0)), (0, 0));
    assert_eq!(receive(pair.a).err(), Some(AGAIN));
    pair.close();
}

#[test]
fn held_messages_stay_as_they_are_while_more_are_received() {
    /// Fewer than a peer has credit for.
    const HELD: u8 = 50;
    let pair = Pair::new();
    let mut held = Vec::new();
    for n in 0..HELD {
        assert_eq!(send(pair.a, pair.to_b, &[n; 40]), 0);
        pair.pass();
        held.push(receive(pair.b).unwrap());
    }
    for (n, message) in (0..HELD).zip(&held) {
        assert_eq!(bytes(message), [n; 40]);
    }
    held.iter_mut().for_each(|message| assert_eq!(drop_message(message), 0));
    pair.close();
}

#[test]
fn a_buffer_filled_in_place_is_what_arrives() {
    let pair = Pair::new();
    for way in [gigae_buffer_send, gigae_buffer_queue, gigae_buffer_try_queue] {
        let mut buffer = take(pair.a);
        // SAFETY: the buffer's own memory, within its capacity; then the buffer.
        unsafe {
            buffer.data.cast::<u8>().copy_from(b"gigae".as_ptr(), 5);
            assert_eq!(way(&mut buffer, pair.to_b, 5), 0);
            assert_eq!((buffer.data, buffer.opaque), (null_mut(), [0; OPAQUE]));
            assert_eq!(way(&mut buffer, pair.to_b, 5), BAD_HANDLE, "it is used up");
        }
        assert_eq!(gigae_flush(pair.a), 0);
        pair.pass();
        let mut message = receive(pair.b).unwrap();
        assert_eq!(bytes(&message), b"gigae");
        assert_eq!(drop_message(&mut message), 0);
    }
    pair.close();
}

#[test]
fn a_buffer_outlives_refused_arguments_and_a_full_window() {
    let pair = Pair::new();
    let mut buffer = take(pair.a);
    let too_long = buffer.capacity + 1;
    // SAFETY: a buffer that is held.
    let mut queue = |to, len| unsafe { gigae_buffer_try_queue(&mut buffer, to, len) };
    assert_eq!(queue(0, 1), INVALID);
    assert!(last_error().contains("peer 0 is not known"), "{}", last_error());
    assert_eq!(queue(77, 1), INVALID);
    assert_eq!(queue(pair.to_b, too_long), Code::TooLong as c_int);
    assert_eq!(queue(pair.to_b, usize::MAX), Code::TooLong as c_int);
    assert_eq!(queue(pair.to_b, 1), 0);
    // Nobody takes anything in at the other end, so the window fills and stays full.
    let mut code = 0;
    for _ in 0..100_000 {
        // SAFETY: the pointer is not read for no bytes.
        code = unsafe { gigae_try_send(pair.a, pair.to_b, null(), 0) };
        if code != 0 {
            break;
        }
    }
    assert_eq!(code, AGAIN);
    let mut buffer = Buffer::EMPTY;
    // SAFETY: memory for a buffer, then a buffer that is held.
    unsafe {
        assert_eq!(gigae_buffer_try_take(pair.a, &mut buffer), 0);
        assert_eq!(gigae_buffer_try_queue(&mut buffer, pair.to_b, 1), AGAIN);
        assert!(!buffer.data.is_null(), "it was kept");
        assert_eq!(gigae_buffer_drop(&mut buffer), 0);
    }
    pair.run(Duration::from_millis(1));
    while let Ok(mut message) = receive(pair.b) {
        assert_eq!(drop_message(&mut message), 0);
    }
    pair.close();
}

#[test]
fn what_was_dropped_or_copied_or_made_up_is_refused() {
    let pair = Pair::new();
    assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
    pair.pass();
    let mut message = receive(pair.b).unwrap();
    let mut copied = copy(&message);
    assert_eq!(drop_message(&mut message), 0);
    assert_eq!(drop_message(&mut message), BAD_HANDLE, "dropped");
    assert_eq!(drop_message(&mut copied), BAD_HANDLE, "a copy of what was dropped");
    let mut buffer = take(pair.a);
    let mut copied = copy(&buffer);
    assert_eq!(drop_buffer(&mut buffer), 0);
    assert_eq!(drop_buffer(&mut buffer), BAD_HANDLE);
    assert_eq!(drop_buffer(&mut copied), BAD_HANDLE);
    let handle = pair.a.addr() as u64;
    for opaque in [[0, 0, 0, 0], [handle, 0, 0, 0], [handle, 1 << 32 | 9, 0, 0], [7; 4], [!0; 4]] {
        assert_eq!(drop_buffer(&mut Buffer { opaque, ..Buffer::EMPTY }), BAD_HANDLE);
        assert_eq!(drop_message(&mut Message { opaque, ..Message::EMPTY }), BAD_HANDLE);
    }
    pair.close();
}

#[test]
fn an_endpoint_is_not_closed_while_something_of_it_is_held_and_refuses_all_afterwards() {
    let pair = Pair::new();
    assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
    pair.pass();
    let (mut message, mut buffer) = (receive(pair.b).unwrap(), take(pair.b));
    assert_eq!(gigae_close(pair.b), Code::Busy as c_int);
    assert!(last_error().starts_with("1 buffers and 1 messages are held"), "{}", last_error());
    assert_eq!(bytes(&message), b"one", "nothing was changed");
    let mut stale = copy(&message);
    assert_eq!((drop_message(&mut message), drop_buffer(&mut buffer)), (0, 0));
    assert_eq!(gigae_close(pair.b), 0);
    assert_eq!(gigae_close(pair.b), BAD_HANDLE);
    assert_eq!(drop_message(&mut stale), BAD_HANDLE);
    assert_eq!(receive(pair.b).err(), Some(BAD_HANDLE));
    assert_eq!(send(pair.b, 1, b"late"), BAD_HANDLE);
    assert_eq!((gigae_progress(pair.b), gigae_fd(pair.b)), (BAD_HANDLE, BAD_HANDLE));
    assert_eq!(gigae_close(pair.a), 0);
}

#[test]
fn a_panic_breaks_the_endpoint_and_what_is_held_does_not_keep_it_from_being_closed() {
    let pair = Pair::new();
    let mut buffer = take(pair.a);
    let panicked = Code::Panicked as c_int;
    assert_eq!(call(pair.a, |_| panic!("a mistake")), panicked);
    assert!(last_error().contains("a mistake"), "{}", last_error());
    assert_eq!(send(pair.a, pair.to_b, b"no more"), panicked);
    assert_eq!(drop_buffer(&mut buffer), panicked);
    pair.close();
    assert_eq!(drop_buffer(&mut buffer), BAD_HANDLE);
}

#[test]
fn null_is_refused_and_nothing_is_lost_by_it() {
    let pair = Pair::new();
    assert_eq!(send(pair.a, pair.to_b, b"kept"), 0);
    pair.pass();
    let (a, b) = (pair.a, pair.b);
    // SAFETY: NULL is what is tested.
    let codes = unsafe {
        [
            gigae_recv(b, null_mut()),
            gigae_try_recv(b, null_mut()),
            gigae_recv_timeout(b, null_mut(), 0),
            gigae_message_drop(null_mut()),
            gigae_buffer_take(a, null_mut()),
            gigae_buffer_drop(null_mut()),
            gigae_buffer_send(null_mut(), pair.to_b, 0),
            gigae_send(a, pair.to_b, null(), 1),
            gigae_take_failure(a, null_mut(), null_mut(), 0),
            gigae_prepare_to_wait(a, null_mut()),
            gigae_max_message(a, null_mut()),
            gigae_counters(a, null_mut(), 8),
            gigae_mac(a, null_mut(), 18),
            gigae_peer(a, null(), &mut 0),
            gigae_peer(a, c"02:00:00:00:00:01".as_ptr(), null_mut()),
            gigae_peer_by_mac(a, null(), 0, 0, &mut 0),
            gigae_peer_by_ip(a, null(), 4, 0, 0, &mut 0),
            gigae_open(null(), &mut null_mut()),
            gigae_open(c"lo".as_ptr(), null_mut()),
            gigae_open_with(null(), &mut null_mut()),
            gigae_options_new(null(), &mut null_mut()),
            gigae_options_new(c"lo".as_ptr(), null_mut()),
            gigae_options_free(null_mut()),
            gigae_options_port(null_mut(), 1),
            gigae_send(null_mut(), 1, null(), 0),
            gigae_progress(null_mut()),
            gigae_close(null_mut()),
        ]
    };
    assert_eq!(codes, [INVALID; 27]);
    let mut message = receive(b).unwrap();
    assert_eq!(bytes(&message), b"kept");
    assert_eq!(drop_message(&mut message), 0);
    pair.close();
}

#[test]
fn peers_have_stable_numbers_and_their_addresses_read_back() {
    let pair = Pair::new();
    let mac = mac(pair.b);
    let with_port = format!("{mac}/7");
    let other = peer(pair.a, &with_port);
    assert_ne!((other, pair.to_b), (pair.to_b, 0));
    assert_eq!((peer(pair.a, &mac), peer(pair.a, &with_port)), (pair.to_b, other));
    let bytes: Vec<u8> = mac.split(':').map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    let mut by_mac = 0;
    // SAFETY: six bytes, and a number to write to.
    assert_eq!(unsafe { gigae_peer_by_mac(pair.a, bytes.as_ptr(), 7, 0, &mut by_mac) }, 0);
    assert_eq!(by_mac, other);
    // SAFETY: text() gives a buffer of the stated size.
    let address = text(|to, size| unsafe { gigae_peer_address(pair.a, other, to, size) });
    assert_eq!(address, with_port);
    pair.close();
}

#[test]
fn what_is_no_address_here_is_told_apart() {
    let pair = Pair::new();
    let mut peer = 9;
    let mut name = |address: &CStr| {
        // SAFETY: text with a NUL, and a number to write to.
        let code = unsafe { gigae_peer(pair.a, address.as_ptr(), &mut peer) };
        (code, peer)
    };
    assert_eq!(name(c"node7"), (Code::Address as c_int, 0));
    assert_eq!(name(c"198.18.0.1"), (Code::Address as c_int, 0));
    assert_eq!(name(c"02:00:00:00:00:09/0/3"), (Code::Channel as c_int, 0));
    assert_eq!(name(c"\xff"), (INVALID, 0));
    // SAFETY: four bytes, of which none is read for a length that no address has.
    let code = unsafe { gigae_peer_by_ip(pair.a, [1u8; 4].as_ptr().cast(), 5, 0, 0, &mut peer) };
    assert_eq!(code, INVALID);
    pair.close();
}

#[test]
fn an_unanswered_message_comes_back_with_its_reason() {
    let pair = Pair::new();
    let nobody = peer(pair.a, "02:00:00:00:00:99");
    assert_eq!(send(pair.a, nobody, b"anybody?"), 0);
    pair.run(Duration::from_millis(30));
    assert_eq!(receive(pair.a).err(), Some(Code::Failed as c_int));
    assert_eq!(send(pair.a, nobody, b"more"), Code::Failed as c_int);
    let mut failure = Failure { to: 0, reason: 9, len: 0, why: [1; WHY] };
    let mut data = [b'#'; 4];
    // SAFETY: memory for a failure, and the array's own size.
    let mut take =
        || unsafe { gigae_take_failure(pair.a, &mut failure, data.as_mut_ptr().cast(), 3) };
    assert_eq!((take(), data), (0, *b"any#"));
    assert_eq!((failure.to, failure.reason, failure.len), (nobody, GIGAE_REASON_TIMEOUT, 8));
    // SAFETY: the library ends it with NUL.
    let why = unsafe { CStr::from_ptr(failure.why.as_ptr()) }.to_str().unwrap();
    assert!(why.starts_with("a message of 8 bytes to 02:00:00:00:00:99 failed"), "{why}");
    // SAFETY: memory for a failure, and no data.
    assert_eq!(unsafe { gigae_take_failure(pair.a, &mut failure, null_mut(), 0) }, AGAIN);
    pair.close();
}

#[test]
fn counts_fit_programs_with_an_older_and_a_newer_header() {
    let pair = Pair::new();
    assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
    pair.pass();
    let mut longer = (Counts::default(), [7u64; 2]);
    // SAFETY: the sizes are those of what is there, or less.
    unsafe {
        let counts = &raw mut longer;
        assert_eq!(gigae_counters(pair.a, counts.cast(), size_of_val(&longer)), 0);
    }
    assert_eq!((longer.0.messages_sent, longer.0.sessions, longer.1), (1, 1, [0; 2]));
    let mut shorter = [0u64, 7];
    // SAFETY: as above.
    assert_eq!(unsafe { gigae_counters(pair.a, shorter.as_mut_ptr().cast(), 8) }, 0);
    assert_eq!(shorter, [1, 7]);
    pair.close();
}

#[test]
fn an_endpoint_tells_what_it_is_and_when_to_come_back() {
    let pair = Pair::new();
    let (mut max, mut time) = (0, 7);
    // SAFETY: numbers to write to.
    unsafe {
        assert_eq!(gigae_max_message(pair.a, &mut max), 0);
        assert_eq!((gigae_prepare_to_wait(pair.a, &mut time), time), (0, -1), "nothing to do");
        assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
        assert_eq!(gigae_prepare_to_wait(pair.a, &mut time), 0);
        assert!(time > 0, "there is a retransmission to mind");
        pair.pass();
        assert_eq!((gigae_prepare_to_wait(pair.b, &mut time), time), (0, 0), "a message waits");
    }
    assert_eq!(max, take_and_drop(pair.a));
    // SAFETY: text() gives a buffer of the stated size.
    let link = text(|to, size| unsafe { gigae_link_info(pair.a, to, size) });
    assert!(link.contains(&mac(pair.a)) && link.contains("simulated"), "{link}");
    assert_eq!(gigae_fd(pair.a), Code::Unsupported as c_int, "a simulated link has none");
    assert_eq!(gigae_set_wait(pair.a, GIGAE_WAIT_SPIN), 0);
    assert_eq!(gigae_set_wait(pair.a, 9), INVALID);
    pair.close();
}

fn take_and_drop(endpoint: Handle) -> usize {
    let mut buffer = take(endpoint);
    let capacity = buffer.capacity;
    assert_eq!(drop_buffer(&mut buffer), 0);
    capacity
}

#[test]
fn options_are_checked_one_by_one() {
    let mut options = null_mut();
    // SAFETY: text with a NUL, and a pointer to write to.
    assert_eq!(unsafe { gigae_options_new(c"nosuch".as_ptr(), &mut options) }, 0);
    let o = options;
    // SAFETY: the array's own size, or one that is refused.
    let channels = |count| unsafe { gigae_options_channels(o, [1, 2].as_ptr(), count) };
    let good = [
        gigae_options_port(o, 7),
        channels(2),
        gigae_options_ethertype(o, 0x88b6),
        gigae_options_udp(o, 4791),
        gigae_options_queue(o, 1),
        gigae_options_wait(o, GIGAE_WAIT_SLEEP),
        gigae_options_busy_poll(o, GIGAE_BUSY_POLL_ON, 20, 8),
        gigae_options_busy_poll(o, GIGAE_BUSY_POLL_OFF, 0, 0),
        gigae_options_busy_poll(o, GIGAE_BUSY_POLL_AUTO, 0, 0),
        gigae_options_peer_timeout(o, 1),
        gigae_options_linger(o, 0),
        gigae_options_go_back_n(o),
        gigae_options_aggregate(o, 0),
        gigae_options_payload_checksum(o, 0),
        gigae_options_local(o, 1),
        gigae_options_local(o, 0),
    ];
    assert_eq!(good, [0; 16]);
    for backend in GIGAE_BACKEND_AUTO..=GIGAE_BACKEND_PACKET {
        assert_eq!(gigae_options_backend(o, backend), 0);
    }
    for sharing in GIGAE_SHARING_ALONE..=GIGAE_SHARING_CHILD {
        assert_eq!(gigae_options_sharing(o, sharing), 0);
    }
    let bad = [
        channels(0),
        channels(257),
        gigae_options_ethertype(o, 0x05ff),
        gigae_options_udp(o, 0),
        gigae_options_wait(o, 3),
        gigae_options_busy_poll(o, -1, 0, 0),
        gigae_options_peer_timeout(o, 0),
        gigae_options_backend(o, 6),
        gigae_options_sharing(o, 3),
        gigae_options_broker(o, 3),
        gigae_options_broker(o, -1),
    ];
    assert_eq!(bad, [INVALID; 11]);
    assert_eq!(gigae_options_broker(o, GIGAE_BROKER_ONLY), 0);
    let mut endpoint = ptr::without_provenance_mut(1);
    // SAFETY: a pointer to write to.
    let code = unsafe { gigae_open_with(options, &mut endpoint) };
    assert_eq!((code, endpoint), (Code::Io as c_int, null_mut()));
    assert!(last_error().contains("no broker listens"), "{}", last_error());
    assert_eq!(gigae_options_broker(o, GIGAE_BROKER_AUTO), 0);
    assert_eq!(gigae_options_broker(o, GIGAE_BROKER_NEVER), 0);
    // SAFETY: a pointer to write to.
    let code = unsafe { gigae_open_with(options, &mut endpoint) };
    assert_eq!((code, endpoint), (Code::NoInterface as c_int, null_mut()));
    assert!(last_error().starts_with("no interface 'nosuch' here"), "{}", last_error());
    assert_eq!((gigae_options_free(o), gigae_options_free(o)), (0, BAD_HANDLE));
    assert_eq!(gigae_options_port(o, 7), BAD_HANDLE);
}

/// Options for several interfaces as one, or the code.
fn trunk(names: &[&CStr], count: usize) -> Result<*mut OptionsHandle, c_int> {
    let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let mut options = ptr::without_provenance_mut(1);
    // SAFETY: as many names as there are, or a number that is refused.
    match unsafe { gigae_options_trunk(names.as_ptr(), count, &mut options) } {
        0 => Ok(options),
        code => {
            assert!(options.is_null());
            Err(code)
        }
    }
}

#[test]
fn several_interfaces_are_named_and_those_that_cannot_be_one_refused() {
    assert_eq!((trunk(&[], 0), trunk(&[], 9)), (Err(INVALID), Err(INVALID)));
    let mut options = null_mut();
    // SAFETY: NULL is what is tried.
    let code = unsafe { gigae_options_trunk(null(), 2, &mut options) };
    assert_eq!((code, options), (INVALID, null_mut()));
    // SAFETY: likewise, one of two names.
    let code = unsafe { gigae_options_trunk([c"a".as_ptr(), null()].as_ptr(), 2, &mut options) };
    assert_eq!((code, options), (INVALID, null_mut()));
    let open = |options: *mut OptionsHandle| {
        let mut endpoint = null_mut();
        // SAFETY: a pointer to write to.
        let code = unsafe { gigae_open_with(options, &mut endpoint) };
        assert_eq!((endpoint, gigae_options_free(options)), (null_mut(), 0));
        code
    };
    assert_eq!(open(trunk(&[c"nosuch", c"lo"], 2).unwrap()), Code::NoInterface as c_int);
    assert_eq!(open(trunk(&[c"lo", c"lo"], 2).unwrap()), INVALID);
    assert!(last_error().contains("named twice"), "{}", last_error());
    let udp = trunk(&[c"lo", c"nosuch"], 2).unwrap();
    assert_eq!((gigae_options_udp(udp, 4791), open(udp)), (0, INVALID));
}

/// Its interfaces, as many as there is room for, and what was answered.
fn paths(endpoint: Handle, room: usize) -> (Vec<Path>, c_int) {
    let mut paths = vec![Path::default(); room];
    // NULL where there is no room.
    let to = if room == 0 { null_mut() } else { paths.as_mut_ptr() };
    // SAFETY: there is room for as many as is said.
    let count = unsafe { gigae_paths(endpoint, to, room) };
    (paths, count)
}

#[test]
fn every_interface_of_an_endpoint_has_its_counts() {
    let net = Network::new(1, Faults::default());
    let open = |seed| {
        let options = Options::trunk(["one", "two"]).open_simulated(&net, seed).unwrap();
        let state = Box::new(State::new(options));
        ptr::without_provenance_mut::<EndpointHandle>(ENDPOINTS.insert(state).unwrap())
    };
    let (a, b) = (open(1), open(2));
    let (to_b, to_a) = (peer(a, &mac(b)), peer(b, &mac(a)));
    let pair = Pair { net, a, b, to_b, to_a };
    for _ in 0..4 {
        (0..50).for_each(|n| assert_eq!(send(pair.a, pair.to_b, &[n; 1000]), 0));
        pair.pass();
        (0..50).for_each(|_| assert_eq!(drop_message(&mut receive(pair.b).unwrap()), 0));
    }
    let (both, count) = paths(pair.a, 3);
    assert_eq!((count, both[2]), (2, Path::default()), "what is not there is left alone");
    assert!(both[..2].iter().all(|path| path.frames_sent > 20), "{both:?}");
    assert_eq!(both.iter().map(|path| path.deaths + path.frames_lost).sum::<u64>(), 0);
    assert!(both[..2].iter().all(|path| path.interface[0] != 0 && path.interface[15] == 0));
    assert_eq!((paths(pair.a, 1).1, paths(pair.a, 0).1), (2, 2));
    // SAFETY: NULL is what is tried.
    assert_eq!(unsafe { gigae_paths(pair.a, null_mut(), 1) }, INVALID);
    pair.close();
}

fn completion(endpoint: Handle) -> Result<Completion, c_int> {
    let mut completion = Completion::EMPTY;
    // SAFETY: memory for a completion.
    match unsafe { gigae_try_completion(endpoint, &mut completion) } {
        0 => Ok(completion),
        code => Err(code),
    }
}

/// Starts a receive of a tag from anybody.
fn post(endpoint: Handle, tag: u64, memory: &mut [u8]) -> u64 {
    let (mut id, context) = (0, memory.as_mut_ptr().cast());
    // SAFETY: the slice's own length; tests keep it until the completion.
    let code = unsafe {
        gigae_start_recv(endpoint, ANYBODY, tag, 0, context, memory.len(), context, &mut id)
    };
    assert_eq!(code, 0);
    id
}

/// Starts sending with a tag.
fn start(endpoint: Handle, to: u32, tag: u64, memory: &[u8]) -> u64 {
    let mut id = 0;
    let (data, len) = (memory.as_ptr().cast(), memory.len());
    // SAFETY: the slice's own length; tests keep it until the completion.
    assert_eq!(unsafe { gigae_start_send(endpoint, to, tag, data, len, null_mut(), &mut id) }, 0);
    id
}

#[test]
fn a_tagged_message_goes_from_the_programs_memory_to_the_programs_memory() {
    let pair = Pair::new();
    let sent: Vec<u8> = (0..300_000).map(|n| n as u8).collect();
    let mut got = vec![0; 400_000];
    let receive = post(pair.b, 7, &mut got);
    let send = start(pair.a, pair.to_b, 7, &sent);
    pair.run(Duration::from_millis(5));
    let sender = completion(pair.a).unwrap();
    assert_eq!((sender.id, sender.status, sender.len, sender.peer), (send, 0, 300_000, pair.to_b));
    assert_eq!((sender.tag, sender.context), (7, null_mut()));
    let receiver = completion(pair.b).unwrap();
    assert_eq!((receiver.id, receiver.status, receiver.peer), (receive, 0, pair.to_a));
    assert_eq!((receiver.len, receiver.total, receiver.tag), (300_000, 300_000, 7));
    assert_eq!(receiver.context, got.as_mut_ptr().cast());
    assert!(got[..300_000] == sent && got[300_000..].iter().all(|&byte| byte == 0));
    assert_eq!(completion(pair.a).err(), Some(AGAIN));
    pair.close();
}

#[test]
fn a_message_too_long_for_its_memory_is_cut_and_peek_tells_beforehand() {
    let pair = Pair::new();
    let mut found = Tagged { tag: 0, len: 0, from: 9, reserved: 0 };
    // SAFETY: memory for what is found.
    let mut peek = |tag, ignore| unsafe {
        let code = gigae_peek(pair.b, ANYBODY, tag, ignore, &mut found);
        (code, found.tag, found.len, found.from)
    };
    assert_eq!(peek(0, !0), (AGAIN, 0, 0, 0));
    start(pair.a, pair.to_b, 0x1234, b"longer");
    pair.pass();
    assert_eq!(peek(0x1200, 0xff), (0, 0x1234, 6, pair.to_a));
    assert_eq!(peek(0x1200, 0x0f).0, AGAIN);
    let mut memory = [b'#'; 5];
    post(pair.b, 0x1234, &mut memory[..4]);
    let done = completion(pair.b).unwrap();
    assert_eq!((done.status, done.len, done.total), (Code::Truncated as c_int, 4, 6));
    assert_eq!(&memory, b"long#");
    pair.close();
}

#[test]
fn peers_read_write_and_change_what_was_registered_and_nothing_else() {
    let pair = Pair::new();
    let mut memory = [0u8; 64];
    let mut key = 0;
    let all = GIGAE_RIGHT_READ | GIGAE_RIGHT_WRITE | GIGAE_RIGHT_ATOMIC;
    // SAFETY: the array's own length (less its end); it stays until it is deregistered.
    let code = unsafe { gigae_register(pair.b, memory.as_mut_ptr().cast(), 56, all, &mut key) };
    assert_eq!(code, 0);
    let at = |offset| Place { key, offset, peer: pair.to_b, reserved: 0 };
    let end = || {
        pair.pass();
        let done = completion(pair.a).unwrap();
        (done.status, done.value, done.len)
    };
    let (word, none) = (99, null_mut());
    let write = |place: Place, bytes: &'static [u8], notice: *const u64| {
        let data = bytes.as_ptr().cast();
        // SAFETY: bytes that stay for ever, and numbers that live long enough to be read.
        let code = unsafe {
            gigae_start_write(pair.a, &place, data, bytes.len(), notice, none, null_mut())
        };
        assert_eq!(code, 0);
        end()
    };
    assert_eq!(write(at(8), b"\x05\0\0\0\0\0\0\0", &word), (0, 0, 8));
    let mut notice = Notice::default();
    // SAFETY: memory for a notice.
    assert_eq!(unsafe { gigae_try_notice(pair.b, &mut notice) }, 0);
    assert_eq!((notice.key, notice.offset, notice.value), (key, 8, 99));
    assert_eq!((notice.peer, notice.len), (pair.to_a, 8));
    assert_eq!(write(at(50), b"too long", null()).0, Code::Bounds as c_int);
    let other = Place { key: key ^ 1 << 40, ..at(0) };
    assert_eq!(write(other, b"x", null()).0, Code::NoRegion as c_int);
    // SAFETY: places; the numbers are not wanted.
    unsafe {
        assert_eq!(gigae_start_fetch_add(pair.a, &at(8), 3, none, null_mut()), 0);
        assert_eq!(end(), (0, 5, 0));
        assert_eq!(gigae_start_compare_swap(pair.a, &at(8), 8, 77, none, null_mut()), 0);
        assert_eq!(end(), (0, 8, 0));
        assert_eq!(gigae_start_fetch_add(pair.a, &at(9), 3, none, null_mut()), 0);
        assert_eq!(end().0, Code::Bounds as c_int);
    }
    let mut got = [0u8; 16];
    // SAFETY: the array's own length; it stays until the completion below.
    let code =
        unsafe { gigae_start_read(pair.a, &at(4), got.as_mut_ptr().cast(), 16, none, null_mut()) };
    assert_eq!((code, end()), (0, (0, 0, 16)));
    assert_eq!(got, [0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(gigae_deregister(pair.b, key), 0);
    assert_eq!(write(at(0), b"late", null()).0, Code::NoRegion as c_int);
    assert_eq!((memory[8], memory[0], &memory[48..]), (77, 0, &[0; 16][..]));
    pair.close();
}

#[test]
fn an_operation_with_a_peer_that_is_lost_says_so_with_the_reason() {
    let pair = Pair::new();
    let nobody = peer(pair.a, "02:00:00:00:00:99");
    start(pair.a, nobody, 1, b"anybody?");
    pair.run(Duration::from_millis(30));
    let done = completion(pair.a).unwrap();
    assert_eq!((done.status, done.reason), (Code::Lost as c_int, GIGAE_REASON_TIMEOUT));
    pair.close();
}

#[test]
fn completions_that_nobody_takes_keep_their_numbers_and_contexts() {
    // More than the uses after which the library's own numbers come up again.
    const MANY: usize = 9_000;
    let pair = Pair::new();
    let mut memory = [0u8; 1];
    let ids: Vec<u64> = (0..MANY)
        .map(|_| {
            let id = post(pair.a, 1, &mut memory);
            assert_eq!(gigae_cancel(pair.a, id), 1);
            id
        })
        .collect();
    assert_eq!(gigae_cancel(pair.a, ids[0]), 0, "over, whoever has its number now");
    for id in ids {
        let done = completion(pair.a).unwrap();
        assert_eq!((done.id, done.status), (id, Code::Cancelled as c_int));
    }
    assert_eq!(completion(pair.a).err(), Some(AGAIN));
    pair.close();
}

#[test]
fn closing_ends_all_loans() {
    let pair = Pair::new();
    let mut memory = vec![0u8; 100_000];
    let mut key = 0;
    post(pair.a, 1, &mut memory);
    // SAFETY: the vector's own length, until the endpoint is closed.
    unsafe {
        let (data, len) = (memory.as_mut_ptr().cast(), memory.len());
        assert_eq!(gigae_register(pair.a, data, len, GIGAE_RIGHT_WRITE, &mut key), 0);
        let mut count = 0;
        assert_eq!((gigae_outstanding(pair.a, &mut count), count), (0, 1));
    }
    assert_eq!(gigae_close(pair.a), 0);
    drop(memory);
    // What a peer still sends there finds nobody.
    let place = Place { key, offset: 0, peer: pair.to_a, reserved: 0 };
    let (data, none) = (b"x".as_ptr().cast(), null_mut());
    // SAFETY: bytes that stay for ever.
    let code = unsafe { gigae_start_write(pair.b, &place, data, 1, null(), none, null_mut()) };
    assert_eq!(code, 0);
    let mut done = Completion::EMPTY;
    for _ in 0..1_000 {
        assert_eq!(gigae_progress(pair.b), 0);
        pair.net.advance_to(pair.net.now() + 100_000);
        // SAFETY: memory for a completion.
        if unsafe { gigae_try_completion(pair.b, &mut done) } == 0 {
            break;
        }
    }
    assert_eq!(done.status, Code::Lost as c_int);
    assert_eq!(gigae_close(pair.b), 0);
}

/// A cluster file in a directory of its own, loaded.
fn load(text: &str) -> (tempfile::TempDir, Result<*mut ClusterHandle, c_int>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cluster.toml");
    std::fs::write(&path, text).unwrap();
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let mut cluster = ptr::dangling_mut();
    // SAFETY: text with a NUL, and a pointer to write to.
    let loaded = match unsafe { gigae_cluster_load(path.as_ptr(), &mut cluster) } {
        0 => Ok(cluster),
        code => {
            assert!(cluster.is_null(), "there is nothing to free");
            Err(code)
        }
    };
    (directory, loaded)
}

const CLUSTER: c_int = Code::Cluster as c_int;

/// The loopback's address makes every host the second node.
const TWO_NODES: &str = "port = 7\n[[node]]\nname = \"n1\"\nnic = [{ mac = \"02:00:00:00:00:01\" }]\n\
     [[node]]\nname = \"n2\"\nnic = [{ ip = \"127.0.0.1\" }]\n";

#[test]
fn a_cluster_is_read_and_asked() {
    let (_directory, cluster) = load(TWO_NODES);
    let cluster = cluster.unwrap();
    let (mut count, mut own, mut number) = (0, 9, 9);
    // SAFETY: numbers to write to, text with a NUL, and buffers of their stated sizes.
    unsafe {
        assert_eq!((gigae_cluster_count(cluster, &mut count), count), (0, 2));
        assert_eq!((gigae_cluster_self(cluster, &mut own), own), (0, 1));
        let name = c"n1".as_ptr();
        assert_eq!((gigae_cluster_number(cluster, name, &mut number), number), (0, 0));
        let address = text(|to, size| gigae_cluster_address(cluster, 0, to, size));
        assert_eq!(address, "02:00:00:00:00:01/7");
        assert_eq!(text(|to, size| gigae_cluster_name(cluster, 1, to, size)), "n2");
        let mut options = null_mut();
        assert_eq!(gigae_cluster_options(cluster, &mut options), 0);
        assert_eq!(gigae_cluster_free(cluster), 0);
        assert_eq!(gigae_options_port(options, 8), 0, "they outlive the cluster");
        assert_eq!(gigae_options_free(options), 0);
    }
}

#[test]
fn what_is_wrong_with_a_cluster_is_told() {
    let refused = load("[[node]]\nname = \"n1\"\nnic = []\n").1;
    assert_eq!(refused, Err(CLUSTER));
    assert!(last_error().contains("cluster.toml:3: node 'n1' has no NIC"), "{}", last_error());
    let (_directory, cluster) = load(TWO_NODES);
    let cluster = cluster.unwrap();
    let mut number = 5;
    // SAFETY: as above; NULL is answered.
    unsafe {
        assert_eq!(gigae_cluster_number(cluster, c"n9".as_ptr(), &mut number), CLUSTER);
        assert!(last_error().ends_with("no node 'n9'; choose one of: n1, n2"), "{}", last_error());
        assert_eq!(number, 5, "nothing is changed");
        assert_eq!(gigae_cluster_number(cluster, null(), &mut number), INVALID);
        assert_eq!(gigae_cluster_number(cluster, c"\xff".as_ptr(), &mut number), INVALID);
        assert_eq!(gigae_cluster_number(cluster, c"n1".as_ptr(), null_mut()), INVALID);
        assert_eq!(gigae_cluster_count(cluster, null_mut()), INVALID);
        assert_eq!(gigae_cluster_self(cluster, null_mut()), INVALID);
        assert_eq!(gigae_cluster_name(cluster, 2, null_mut(), 0), INVALID);
        assert_eq!(gigae_cluster_address(cluster, 2, null_mut(), 0), CLUSTER);
        assert_eq!(gigae_cluster_address(cluster, 1, null_mut(), 0), CLUSTER, "it has no mac");
        assert_eq!(gigae_cluster_options(cluster, null_mut()), INVALID);
        assert_eq!(gigae_cluster_load(c"/nonexistent".as_ptr(), null_mut()), INVALID);
        assert_eq!(gigae_cluster_free(cluster), 0);
        assert_eq!(gigae_cluster_free(cluster), BAD_HANDLE);
        assert_eq!(gigae_cluster_count(cluster, &mut number), BAD_HANDLE);
        assert_eq!(gigae_cluster_free(null_mut()), INVALID);
        assert_eq!(gigae_options_free(cluster.cast()), BAD_HANDLE, "of another kind");
    }
}
