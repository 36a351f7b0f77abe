//! What several local users can do to a whole broker, and what it holds in the meantime.
//!
//! The broker is the one that runs as a daemon, with its sockets, quotas and fair queue; memory
//! and connections are real. Only interfaces and AF_XDP sockets are stand-ins, which take no
//! privileges: an interface is a number that is counted, a socket one end of a pair. Time is the
//! script's.

use crate::broker::{CONFIG, request};
use crate::meter::within;
use crate::script::Script;
use gigae_broker::{
    Answer, Broker, BrokerConfig, Kernel, MadePort, PeerProcess, Quotas, Request, filled,
};
use gigae_link::{Arena, LentMemory, Mode, OpenError};
use gigae_wire::MacAddr;
use gigae_xdp::Description;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The broker's quotas and clients, and a message of each.
const MEMORY: usize = 4 << 20;

const MOST_STEPS: usize = 20_000;

/// Clients at a time. A further one takes the place of the oldest.
const CLIENTS: usize = 40;

/// What the configuration allows a user, and all together.
const PER_USER: (u32, u64) = (3, 8 << 20);
const IN_ALL: (u32, u64) = (5, 12 << 20);

/// Descriptors of a broker that no one uses: listener, epoll instance, its list.
const OWN: usize = 3;

/// Steps between two counts of descriptors, which take longer than a step.
const COUNT_EVERY: usize = 64;

/// An interface, which counts while it exists.
#[derive(Debug)]
struct Interface(Rc<Cell<usize>>);

impl Drop for Interface {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Takes the place of the kernel.
struct FakeKernel {
    now: Instant,
    /// The next clients to connect.
    peers: VecDeque<PeerProcess>,
    interfaces: Rc<Cell<usize>>,
    /// What the next port takes; none if it fails.
    cost: Option<Duration>,
}

impl Kernel for FakeKernel {
    type Interface = Interface;

    fn peer(&mut self, _: &OwnedFd) -> io::Result<PeerProcess> {
        Ok(self.peers.pop_front().expect("every client is queued before it connects"))
    }

    fn make(
        &mut self,
        request: &Request,
        nics: &[String],
        memory: &LentMemory,
    ) -> Result<MadePort<Interface>, OpenError> {
        let what = "making a port";
        let io = |source| OpenError::Io { what, source };
        self.now += self.cost.ok_or_else(|| io(io::ErrorKind::Other.into()))?;
        // SAFETY: nothing is read, and it is unmapped at once.
        drop(unsafe { memory.filled(request.memory()) }.map_err(io)?);
        self.interfaces.set(self.interfaces.get() + 1);
        let pair = || {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let pair = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
            pair.map(|(one, _)| one).map_err(|e| io(e.into()))
        };
        let interface = Interface(Rc::clone(&self.interfaces));
        let (socket, claim) = (pair()?, pair()?);
        Ok(MadePort { interface, nic: nics[0].clone(), description: description(), socket, claim })
    }

    fn now(&self) -> Instant {
        self.now
    }
}

fn description() -> Description {
    Description {
        interface: "gigae0".into(),
        index: 7,
        lower: None,
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        mode: Mode::XdpGeneric,
        max_frame: 1514,
        several: false,
        tx_frames: 1,
        rx_frames: 1,
        rx_ready: 1,
        program: 1,
        busy: false,
        need_wakeup: true,
        reason: String::new(),
    }
}

/// One client, and what it has not given back. What is `None` it has not got yet, or has closed.
#[derive(Default)]
struct Client {
    uid: u32,
    bytes: u64,
    connection: Option<OwnedFd>,
    memory: Option<OwnedFd>,
    arena: Option<Arena>,
    socket: Option<OwnedFd>,
    claim: Option<OwnedFd>,
}

impl Client {
    /// What it holds of what it got for one request, whatever the broker's quotas say.
    fn has(&self) -> (u32, u64) {
        let memory = self.memory.is_some() || self.arena.is_some();
        let kept = memory || self.socket.is_some() || self.claim.is_some();
        if kept { (1, self.bytes) } else { (0, 0) }
    }

    fn descriptors(&self) -> usize {
        let all = [&self.connection, &self.memory, &self.socket, &self.claim];
        all.iter().filter(|descriptor| descriptor.is_some()).count()
    }

    fn say(&self, bytes: &[u8]) {
        if let Some(connection) = &self.connection {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let _ = rustix::net::send(connection, bytes, flags);
        }
    }

    /// Takes an answer, if there is one.
    fn take_answer(&mut self) {
        let Some(connection) = &self.connection else { return };
        let mut bytes = [0; 1024];
        let Ok((length, mut descriptors)) = receive(connection, &mut bytes) else { return };
        match Answer::parse(&bytes[..length]) {
            Ok(Answer::Memory) => {
                let memory = descriptors.pop().expect("it comes with its descriptor");
                self.bytes = rustix::fs::fstat(&memory).map_or(0, |about| about.st_size as u64);
                self.memory = Some(memory);
            }
            Ok(Answer::Port(_)) => {
                self.claim = descriptors.pop();
                self.socket = descriptors.pop();
                assert!(self.socket.is_some(), "a port has a socket and a claim");
            }
            Ok(Answer::Refusal(_)) => {}
            Err(_) => assert_eq!(length, 0, "an answer can be read"),
        }
    }

    fn fill(&mut self) {
        if let Some(memory) = self.memory.as_ref().filter(|_| self.arena.is_none()) {
            // SAFETY: nothing is read from it.
            self.arena = unsafe { Arena::of(memory, 1) }.ok();
        }
    }
}

fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let into = &mut [IoSliceMut::new(bytes)];
    let got = rustix::net::recvmsg(socket, into, &mut control, flags)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((got.bytes, rights.flatten().collect()))
}

struct Clients {
    broker: Broker<FakeKernel>,
    address: SocketAddrUnix,
    interfaces: Rc<Cell<usize>>,
    clients: VecDeque<Client>,
    /// Descriptors of this process before, if no other thread opens any.
    before: Option<usize>,
}

impl Clients {
    fn new(before: Option<usize>) -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let listener = rustix::net::socket_with(family, kind, flags, None).expect("a socket");
        // The kernel chooses a name.
        rustix::net::bind(&listener, &SocketAddrUnix::new_unnamed()).expect("a name");
        rustix::net::listen(&listener, 64).expect("it has a name");
        let address = rustix::net::getsockname(&listener).expect("it has a name");
        let address = address.try_into().expect("a UNIX-domain socket");
        let interfaces = Rc::new(Cell::new(0));
        let kernel = FakeKernel {
            now: Instant::now(),
            peers: VecDeque::new(),
            interfaces: Rc::clone(&interfaces),
            cost: Some(Duration::ZERO),
        };
        let config = BrokerConfig::parse(CONFIG, Path::new("broker.toml")).expect("it is right");
        let broker = Broker::new(Quotas::new(config), listener, kernel).expect("an epoll instance");
        Self { broker, address, interfaces, clients: VecDeque::new(), before }
    }

    fn act(&mut self, script: &mut Script<'_>) {
        let what = script.byte() % 16;
        if what == 0 {
            return self.connect(script);
        }
        if what < 4 {
            let costs = [Some(0), Some(20), Some(20), Some(20), Some(5000), None];
            self.broker.kernel().cost = script.pick(&costs).map(Duration::from_millis);
            return self.turn();
        }
        if what == 4 {
            let times = [1, 10, 100, 1000, 10_000, 60_000];
            self.broker.kernel().now += Duration::from_millis(script.pick(&times));
            return;
        }
        let number = usize::from(script.byte()) % self.clients.len().max(1);
        let Some(client) = self.clients.get_mut(number) else { return };
        match what {
            5 | 6 => client.say(&request(script)),
            7 | 8 => client.take_answer(),
            9 => client.fill(),
            10 => client.say(&filled()),
            11 => client.say(script.take(3)),
            // What an honest client does, as far as it is now.
            12 => {
                client.take_answer();
                client.fill();
                client.say(&filled());
            }
            _ => match script.byte() % 8 {
                0..3 => client.connection = None,
                3 => client.memory = None,
                4 => client.arena = None,
                5 => client.socket = None,
                6 => client.claim = None,
                _ => *client = Client { uid: client.uid, ..Client::default() },
            },
        }
    }

    fn connect(&mut self, script: &mut Script<'_>) {
        let uid = u32::from(script.byte() % 4);
        let elsewhere = script.byte() > 250;
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, kind, flags, None).expect("a socket");
        // The kernel keeps a bounded number.
        if rustix::net::connect(&socket, &self.address).is_err() {
            return;
        }
        let peer = PeerProcess { uid, groups: vec![uid * 10], pid: 1, elsewhere };
        self.broker.kernel().peers.push_back(peer);
        if self.clients.len() == CLIENTS {
            self.clients.pop_front();
        }
        let connection = Some(socket);
        self.clients.push_back(Client { uid, connection, ..Client::default() });
    }

    fn turn(&mut self) {
        self.broker.turn(Duration::ZERO, &mut |_| ()).expect("it does not fail");
    }

    /// What users have, and what the broker holds for that.
    fn check(&self) {
        let quotas = self.broker.quotas();
        let sum = |of: &dyn Fn(&Client) -> bool| {
            let has = self.clients.iter().filter(|client| of(client)).map(Client::has);
            has.fold((0, 0), |sum, has| (sum.0 + has.0, sum.1 + has.1))
        };
        for uid in 0..4 {
            let (has, booked) = (sum(&|client| client.uid == uid), quotas.of(uid));
            assert!(has.0 <= booked.ports && has.1 <= booked.bytes, "{uid}: {has:?} {booked:?}");
            assert!(booked.ports <= PER_USER.0 && booked.bytes <= PER_USER.1, "{uid}: {booked:?}");
        }
        let all = quotas.in_all();
        assert!(all.ports <= IN_ALL.0 && all.bytes <= IN_ALL.1, "all have {all:?}");
        assert!(
            self.interfaces.get() <= all.ports as usize,
            "{} interfaces",
            self.interfaces.get()
        );
        assert!(self.broker.leaving() <= all.ports as usize, "{} leave", self.broker.leaving());
        let (clients, users) = self.broker.entries();
        // The broker has not seen the end of some clients yet.
        assert!(clients <= 2 * 64 + IN_ALL.0 as usize && users <= 4, "{clients}, {users}");
    }

    fn count(&mut self) {
        let theirs: usize = self.clients.iter().map(Client::descriptors).sum();
        let (clients, _) = self.broker.entries();
        let most = OWN + clients + self.broker.quotas().in_all().ports as usize;
        let Some(before) = self.before else { return };
        let its = descriptors() - before - theirs;
        assert!(its <= most, "{its} descriptors, {most} are accounted for");
    }

    /// All clients leave.
    fn finish(mut self) {
        self.clients.clear();
        for _ in 0..200 {
            self.broker.kernel().now += Duration::from_secs(10);
            self.turn();
        }
        assert_eq!(self.broker.quotas().in_all(), gigae_broker::UserUsage::default());
        assert_eq!((self.interfaces.get(), self.broker.leaving()), (0, 0));
        assert_eq!(self.broker.entries().0, 0);
        let before = self.before;
        drop(self);
        assert!(before.is_none_or(|before| descriptors() == before), "descriptors are left");
    }
}

/// Descriptors of this process, the one that counts them included.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// Several users with several clients each, one broker: connecting, asking, filling memory or not,
/// keeping descriptors and mappings, hanging up, in any order, for long.
///
/// # Panics
/// If a user has more than he may, whatever the broker believes; if the broker holds more
/// interfaces, entries or memory than what is booked explains; or if something is left at the end.
pub fn clients(input: &[u8]) {
    run(input, None);
}

/// The same where no other thread opens files: descriptors are counted, too.
///
/// # Panics
/// Also if the broker holds more descriptors than what is booked explains, or leaves one.
pub fn clients_alone(input: &[u8]) {
    run(input, Some(descriptors()));
}

fn run(input: &[u8], before: Option<usize>) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        let mut clients = Clients::new(before);
        for number in 0..MOST_STEPS {
            if script.is_over() {
                break;
            }
            clients.act(&mut script);
            clients.check();
            if number.is_multiple_of(COUNT_EVERY) {
                clients.count();
            }
        }
        clients.finish();
    });
}
