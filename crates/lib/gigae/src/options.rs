//! What a program can choose when it opens an endpoint.

use crate::sharing::Sharing;
use crate::wait::Wait;
use gigae_link::{ChannelSet, Mode};
use gigae_proto::ProtocolConfig;
use gigae_wire::{Envelope, is_node_name};
use gigae_xdp::BusyPoll;
use std::time::Duration;

/// Which kernel interface carries the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// AF_XDP in a mode of the driver's own, zero-copy or native, that passes its self-test; else
    /// AF_PACKET, since AF_XDP's generic mode costs long messages and the kernel's TCP more than it
    /// saves short ones. Where this user has measured shorter round trips for generic mode
    /// ([`MeasuredBackends`](crate::MeasuredBackends)), generic mode. In the UDP envelope a UDP
    /// socket where this process may open neither. [`gigae_link::Info::reason`] says why.
    #[default]
    Auto,
    /// AF_XDP in the best mode that passes its self-test, or an error.
    Xdp,
    /// AF_XDP in exactly this mode, or an error.
    XdpMode(Mode),
    /// AF_PACKET.
    Packet,
    /// A UDP socket, which needs no privilege; in the UDP envelope only. One endpoint for each
    /// interface and UDP port.
    Udp,
}

/// Whether a broker is asked for the link: a daemon of this machine (`gigae broker`) that makes
/// ports on its NICs for users without privileges.
///
/// Such a port is a child of the NIC, as with [`Sharing::Child`](crate::Sharing::Child), in
/// AF_XDP's generic mode; so it needs an Ethernet envelope. It listens at `/run/gigae/broker.sock`,
/// or where the environment variable `GIGAE_BROKER` says; `GIGAE_BROKER=never` means
/// [`Never`](Self::Never). A set-user-id program does not read that variable. A broker that was
/// started neither by root nor by this process's user is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokerUse {
    /// Where opening is refused for lack of privileges and a broker listens.
    #[default]
    Auto,
    /// Never.
    Never,
    /// Always: also with privileges.
    Only,
}

/// Who acknowledges, retransmits and answers while the program makes no calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A background thread, one for all endpoints of the process. It takes over an endpoint whose
    /// program has made no call for a millisecond. Then it handles everything that arrives at once,
    /// also operations on registered memory. While the program uses the endpoint, the thread looks
    /// at it 2,000 times a second, and does nothing else. An endpoint with which nothing is going
    /// on costs nothing. A call that only looks, for example at registered memory, receives now and
    /// then: a program that makes no other call is served, too.
    #[default]
    Auto,
    /// Only the program's own calls. If it makes none, a peer that waits for an answer regards this
    /// endpoint as lost after its [timeout](Options::peer_timeout). A message that begins a session
    /// goes out with one of the program's later calls. For programs that call
    /// [`Endpoint::progress`](crate::Endpoint::progress) more often than that and have no processor
    /// for a thread.
    Manual,
}

/// Frames of a simulated link, each way.
const SIMULATED_FRAMES: usize = 1024;

/// Options for opening an [`Endpoint`](crate::Endpoint).
///
/// [`new`](Options::new) or [`trunk`](Options::trunk) comes first. The options follow in any order;
/// if one is given twice, the last one counts. [`open`](Options::open) comes last: it checks them
/// together and makes the endpoint.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) interfaces: Vec<String>,
    pub(crate) channels: ChannelSet,
    pub(crate) envelope: Envelope,
    pub(crate) backend: Backend,
    pub(crate) sharing: Sharing,
    pub(crate) broker: BrokerUse,
    pub(crate) queue: u32,
    pub(crate) ring: bool,
    pub(crate) wait: Wait,
    pub(crate) linger: Duration,
    pub(crate) aggregate: bool,
    pub(crate) progress: Progress,
    pub(crate) busy_poll: BusyPoll,
    pub(crate) protocol: ProtocolConfig,
    pub(crate) simulated_frames: usize,
    pub(crate) name: Option<String>,
    /// Unless said, endpoints on kernel interfaces are.
    pub(crate) observable: Option<bool>,
    pub(crate) local: bool,
    /// Unless said, endpoints on kernel interfaces have a socket.
    pub(crate) bulk: Option<bool>,
    pub(crate) lend: bool,
    /// In switches, of frames that go first.
    pub(crate) priority: Option<u8>,
}

/// # Beginning
impl Options {
    /// Everything at its default for an interface: port id 0, channel 0, EtherType 0x88B5, the best
    /// backend, adaptive waiting, selective repeat, a peer timeout of 10 s, a linger of 1 s.
    ///
    /// A name such as `eth1v0/eth1v1` means the first of these interfaces that is up and no other
    /// endpoint uses, so that processes share SR-IOV functions, or NICs, by all naming the same.
    /// [`Sharing`] says what if all are in use.
    pub fn new(interface: &str) -> Self {
        Self {
            interfaces: vec![interface.into()],
            channels: ChannelSet::EMPTY.with(0),
            envelope: Envelope::DEFAULT,
            backend: Backend::default(),
            sharing: Sharing::default(),
            broker: BrokerUse::default(),
            queue: 0,
            ring: true,
            wait: Wait::default(),
            linger: Duration::from_secs(1),
            aggregate: true,
            progress: Progress::default(),
            busy_poll: BusyPoll::Auto,
            protocol: ProtocolConfig::default(),
            simulated_frames: SIMULATED_FRAMES,
            name: None,
            observable: None,
            local: false,
            bulk: None,
            lend: false,
            priority: None,
        }
    }

    /// The same over several interfaces as one, 2 to 8: frames go by all of them, weighed by what
    /// each delivers, and by those that are left when one fails, within 50 ms.
    ///
    /// The first names the endpoint; the n-th must lead to the peers' n-th. A peer with fewer is
    /// reached by as many as it has. The shortest MTU limits the messages. Windows are larger by
    /// the number of links, up to 1,024 frames. In the UDP envelope there is one interface only.
    pub fn trunk<I: Into<String>>(interfaces: impl IntoIterator<Item = I>) -> Self {
        let interfaces = interfaces.into_iter().map(Into::into).collect();
        Self { interfaces, ..Self::new("") }
    }
}

/// # Whose frames they are
impl Options {
    /// This endpoint's port id, by which endpoints on one node differ. In the UDP envelope, port
    /// ids from 32,769 on stand for UDP ports of their own, 1 and so on beyond that of the
    /// envelope.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.protocol.port = port;
        self
    }

    /// The channels to open instead of channel 0. Frames of others are left to other programs.
    #[must_use]
    pub fn channels(mut self, channels: impl IntoIterator<Item = u8>) -> Self {
        self.channels = channels.into_iter().collect();
        self
    }

    /// The envelope: another EtherType, or UDP for networks that carry no unknown EtherTypes. All
    /// nodes name the same UDP port, which is this endpoint's own unless its [port id](Self::port)
    /// says another.
    #[must_use]
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }
}

/// # The way to the NIC
impl Options {
    /// The kernel interface to use.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Whether the NIC is shared with other processes. With [`Sharing::Auto`] and
    /// [`Sharing::Child`], each endpoint has its own interface and address.
    /// [`Endpoint::identity`](crate::Endpoint::identity) returns the address.
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Whether a broker opens the links: by default if this process lacks the privileges and a
    /// broker listens.
    #[must_use]
    pub fn broker(mut self, broker: BrokerUse) -> Self {
        self.broker = broker;
        self
    }

    /// The receive queue of the NIC to which an AF_XDP socket is bound; frames of other queues are
    /// not seen, so steer them there (`ethtool -N`) or give the NIC one queue (`ethtool -L`).
    /// Several endpoints of a process may each have a queue of the same interface. They share one
    /// XDP program, so all of them are in generic mode, or none is.
    #[must_use]
    pub fn queue(mut self, queue: u32) -> Self {
        self.queue = queue;
        self
    }

    /// Whether an AF_PACKET link receives by a ring that the kernel and this process share: default
    /// `true`.
    ///
    /// The kernel takes some 30 ms longer to open and to close a socket with a ring (two grace
    /// periods of RCU, on Linux 6.18). A command that runs for less than a second can say `false`.
    /// Then each poll of the link is a system call, and frames wait in the socket's buffer, which
    /// without `CAP_NET_ADMIN` is no longer than `net.core.rmem_max`. Bulk data by
    /// [the UDP socket](Options::bulk) stay as fast.
    #[must_use]
    pub fn ring(mut self, ring: bool) -> Self {
        self.ring = ring;
        self
    }
}

/// # Waiting, and time
impl Options {
    /// How blocking calls wait.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Whether an empty receive ring makes the endpoint drive the driver itself instead of waiting
    /// for its interrupt (003 §4.4). Means nothing to AF_PACKET and AF_XDP in generic mode.
    #[must_use]
    pub fn busy_poll(mut self, busy_poll: BusyPoll) -> Self {
        self.busy_poll = busy_poll;
        self
    }

    /// Who acknowledges, retransmits and answers while the program makes no calls: by default a
    /// background thread. A simulated network has no such thread.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// After this long without an answer, a peer is lost and its messages fail.
    #[must_use]
    pub fn peer_timeout(mut self, timeout: Duration) -> Self {
        self.protocol.peer_timeout = timeout;
        self
    }

    /// How long dropping the endpoint waits at most. It first waits until the peers have
    /// acknowledged what was sent. Then it informs the peers that it closes and which messages have
    /// arrived here, and waits for their answers. With zero it does not wait. If its last
    /// acknowledgement is lost then, the peer reports as failed a message that has arrived.
    ///
    /// In any case it waits for a neighbour that is stopped in the middle of a copy
    /// ([`Endpoint::deregister`](crate::Endpoint::deregister)).
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }
}

/// # Frames
impl Options {
    /// Recovers from loss by go-back-N, as the papers do, instead of selective repeat.
    #[must_use]
    pub fn go_back_n(mut self) -> Self {
        self.protocol = self.protocol.go_back_n();
        self
    }

    /// Whether small messages that wait for the same doorbell share a frame (default), or each has
    /// its own frame.
    #[must_use]
    pub fn aggregate(mut self, aggregate: bool) -> Self {
        self.aggregate = aggregate;
        self
    }

    /// Whether the checksum of sent frames covers the messages (default) or only the header. That
    /// saves 20 to 30 ns per KB at each end. Ethernet's own FCS covers every wire, but neither
    /// memory, bus nor switch. What goes by the UDP socket for bulk data is covered always, and
    /// what goes through memory within a node never.
    #[must_use]
    pub fn payload_checksum(mut self, payload_checksum: bool) -> Self {
        self.protocol.payload_checksum = payload_checksum;
        self
    }
}

/// # Ways beside the link
impl Options {
    /// Whether frames to endpoints of this node go through memory instead of the NIC, where both
    /// ends say so: default `false`.
    ///
    /// Endpoints find each other in any order of opening: those of the same user in the
    /// same network namespace, on another interface, with the same channels and envelope. All else
    /// stays as it is. Of several interfaces as one, the first ones find each other, and all frames
    /// between the two go through that memory; by the others if a first one fails.
    ///
    /// The receiver copies a message of more than 12 KiB straight from the sender's memory, if the
    /// kernel allows that (process_vm_readv(2)): one copy and one system call for each 4 MiB.
    ///
    /// For each such peer two descriptors, and memory for all frames that may be unacknowledged
    /// each way: 256 for each interface and channel, 0.5 MiB at MTU 1500, of which what is never
    /// used takes up nothing.
    #[must_use]
    pub fn local(mut self, local: bool) -> Self {
        self.local = local;
        self
    }

    /// Whether long messages and long operations on remote memory go by a UDP socket of the
    /// endpoint, where the peer has one too: default `true`, unless the network is simulated.
    ///
    /// The kernel cuts and joins the datagrams of such a socket, so that one system call moves 64
    /// KiB. It needs an IP address on the NIC, but no privilege; all endpoints on a NIC have the
    /// same address, and ports of their own. While less than 4 KiB wait for a peer, operations stay
    /// on the link. If the receiver's kernel does not join the datagrams again, this limit is 8
    /// KiB, and 512 KiB for an operation while no other one waits or is on its way. The first long
    /// operation to a peer tests whether the socket reaches the peer. Until that is known, and if
    /// the test fails, the link carries everything. An endpoint with several interfaces has no such
    /// socket. An endpoint whose link is a UDP socket has a second socket, for frames of up to 64
    /// KiB.
    ///
    /// Costs three descriptors, and 43 MiB of addresses, of which what is never used takes up
    /// nothing. While nothing long is going on, a spinning endpoint makes one system call in 20 us
    /// for it.
    #[must_use]
    pub fn bulk(mut self, bulk: bool) -> Self {
        self.bulk = Some(bulk);
        self
    }

    /// Whether credit is shared among senders: default `true`.
    ///
    /// An endpoint that wants to send more than it has credit for says so. While several do, the
    /// receiver divides among them what its link carries, shorter transfers first. So many senders
    /// at once do not overfill the buffer of the switch in front of it. Rates are measured. It
    /// begins when an endpoint has a second peer, or hears of one that has. Both ends need it: an
    /// endpoint with `false` neither says what it wants nor rations. All endpoints understand each
    /// other. While an endpoint has had one peer only, credit begins with 16 frames and not with
    /// 64, and nothing else is different.
    ///
    /// With `false`, each peer has its own credit: many that send at once to one receiver lose
    /// frames in front of it. This is of use for comparisons.
    #[must_use]
    pub fn shared_credit(mut self, shared: bool) -> Self {
        self.protocol.shared_credit = shared;
        self
    }

    /// The 802.1p priority of short messages and acknowledgements, 1 to 7: default `None`, the
    /// same for all frames.
    ///
    /// Say so where the switches have a queue for this priority that they serve first. Then a short
    /// message, of at most four frames, and what acknowledges or grants others, pass the long
    /// messages of other endpoints there. Their frames have a priority tag, a VLAN tag without a
    /// VLAN; all others have none. A frame goes without that tag, too, when it is repeated, and
    /// where the tag would let it overtake frames of its own session. Only the bytes of messages
    /// that were offered, and of reads, may be overtaken, because they have no order
    /// (`PROTOCOL.md` 9.6).
    ///
    /// Every endpoint of this version receives frames with and without the tag. Endpoints of
    /// earlier versions do not receive them over AF_XDP, and in the UDP envelope over AF_PACKET:
    /// each such message then takes a timeout longer. The same holds for a network that drops such
    /// frames. Links over a UDP socket, and memory within a node, have no tag.
    #[must_use]
    pub fn priority(mut self, priority: Option<u8>) -> Self {
        self.priority = priority;
        self
    }

    /// Whether the UDP socket for bulk data may send data of 16 KiB or more from the program's
    /// memory, without a copy, where that is faster: default `false`.
    ///
    /// A NIC reads that memory itself when the frame leaves. A receiver on this machine, such as
    /// one in another container, copies from it, and can wait with that. So a peer on this machine
    /// that does not keep to the protocol can acknowledge a frame, leave it, and read later what
    /// was written since to the place of that message, also when the program has freed that memory.
    /// Say `true` if the program trusts its peers on this machine so far, as the processes of a
    /// parallel program do each other: long messages become up to 1.4 times as fast.
    ///
    /// For each of the 16 peers that get most, 2 MiB of memory. Has no effect before Linux 6.5.
    #[must_use]
    pub fn lend(mut self, lend: bool) -> Self {
        self.lend = lend;
        self
    }
}

/// # What others see
impl Options {
    /// What this node is called in answers to [`Endpoint::ask`](crate::Endpoint::ask) instead of
    /// its host name: 1 to 63 letters, digits, `-`, `_` and `.`; any other name is ignored.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into()).filter(|name: &String| is_node_name(name));
        self
    }

    /// Whether `gigae stat` and `gigae capture`, run by the same user or root, can look at this
    /// endpoint: by default, unless the network is simulated. Needs one descriptor and 8.1 MiB of
    /// addresses, and nearly no memory until `gigae capture` captures frames.
    #[must_use]
    pub fn observable(mut self, observable: bool) -> Self {
        self.observable = Some(observable);
        self
    }
}

impl Options {
    /// For simulations: frames of a simulated link each way (more than 64), and parameters of the
    /// protocol that no program has to know.
    #[doc(hidden)]
    #[must_use]
    pub fn tuned(
        mut self,
        simulated_frames: usize,
        tune: impl FnOnce(&mut ProtocolConfig),
    ) -> Self {
        self.simulated_frames = simulated_frames;
        tune(&mut self.protocol);
        self
    }
}
