//! Settings of transports: what a `[TRANSPORT.NAME]` table of a plan may say.
//!
//! Each named table is measured as a variant of its transport. What a table leaves out is as an
//! ordinary program finds it: the library's or the kernel's default.

use serde::{Deserialize, Serialize};

/// The name by which an experiment asks for a transport at its defaults, beside named variants.
pub const DEFAULT: &str = "default";

/// Most frames per doorbell: after this many full ones a streaming program flushes anyway
/// (`probe.rs`).
const LARGEST_BATCH: u32 = 64;

/// Most frames that a link takes (`XdpConfig`).
const MOST_FRAMES: u32 = 65_536;

/// Longest write: as long as the longest message.
const LONGEST_WRITE: u32 = 4 << 20;

/// The setting of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// The transport at its defaults.
    #[default]
    Default,
    /// A `[tcp.NAME]`.
    Tcp(TcpOptions),
    /// A `[gigae.NAME]`.
    Gigae(GigaeOptions),
    /// An `[xdp.NAME]`.
    Xdp(XdpOptions),
}

impl Setting {
    /// TCP's part; the defaults for any other transport.
    pub fn tcp(&self) -> TcpOptions {
        if let Self::Tcp(options) = self { *options } else { TcpOptions::default() }
    }

    /// GigaE's part; the defaults for any other transport.
    pub fn gigae(&self) -> GigaeOptions {
        if let Self::Gigae(options) = self { *options } else { GigaeOptions::default() }
    }

    /// The raw AF_XDP link's part; the defaults for any other transport.
    pub fn xdp(&self) -> XdpOptions {
        if let Self::Xdp(options) = self { *options } else { XdpOptions::default() }
    }

    /// Refuses what cannot be set, in one line. Both the plan and the answering end ask.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: Option<u32>, most: u32| match value {
            Some(value) if !(1..=most).contains(&value) => {
                Err(format!("{name} must be from 1 to {most}"))
            }
            _ => Ok(()),
        };
        match self {
            Self::Default => Ok(()),
            Self::Tcp(options) => {
                within("buffer", options.buffer, i32::MAX as u32)?;
                within("write", options.write, LONGEST_WRITE)?;
                options.check()
            }
            Self::Gigae(options) => options.busy_poll.check(),
            Self::Xdp(options) => {
                options.busy_poll.check()?;
                within("batch", options.batch, LARGEST_BATCH)?;
                within("rx_frames", options.rx_frames, MOST_FRAMES)?;
                within("tx_frames", options.tx_frames, MOST_FRAMES)
            }
        }
    }
}

/// How TCP's sockets are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpOptions {
    /// `TCP_NODELAY`: no waiting for more to send (tcp(7)).
    pub nodelay: bool,
    /// `SO_SNDBUF` and `SO_RCVBUF` in bytes; absent: the kernel tunes them (tcp(7)
    /// `tcp_moderate_rcvbuf`).
    pub buffer: Option<u32>,
    /// Keep an idle GigaE endpoint open on both interfaces, to see what it costs TCP.
    pub beside: Option<Backend>,
    /// All messages lie in one memory at each end, as those of most programs that measure networks
    /// do. Otherwise long messages have memories that take turns, as gigae's have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_buffer: bool,
    /// Bytes of a write: shorter messages are gathered in the program's memory until there are this
    /// many, longer ones are cut. Absent: a write for each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<u32>,
    /// `MSG_ZEROCOPY`: the kernel sends from the program's memory, which is not written again
    /// before the kernel is done with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zerocopy: bool,
    /// The congestion control; absent: the one of all figures that are to be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<CongestionControl>,
}

impl TcpOptions {
    /// Whether it differs from the defaults in `nodelay` and `buffer` only, as most programs do.
    pub fn is_plain(&self) -> bool {
        *self == Self { nodelay: self.nodelay, buffer: self.buffer, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        if self.zerocopy && self.one_buffer {
            return Err("zerocopy needs several memories; leave one_buffer out".into());
        }
        Ok(())
    }
}

/// A congestion control of TCP. A kernel may lack it; what is measured with it is left out then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// By loss (RFC 9438).
    Cubic,
    /// By measured bandwidth and round-trip time, with pacing.
    Bbr,
    /// By loss, the oldest (RFC 5681).
    Reno,
}

impl CongestionControl {
    /// Its name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Reno => "reno",
        }
    }
}

/// How a GigaE endpoint is opened and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GigaeOptions {
    /// The kernel interface.
    pub backend: Backend,
    /// Several small messages share a frame when several wait.
    pub aggregate: bool,
    /// The checksum covers the messages, not only the header.
    pub checksum: bool,
    /// What is repeated after a loss.
    pub recovery: Recovery,
    /// Whether an empty ring makes the endpoint drive the driver.
    pub busy_poll: BusyPoll,
    /// Send from a buffer of the program's and receive into one, instead of in place.
    pub copy: bool,
    /// The kernel gets the memory of long data instead of copying it.
    pub lend: bool,
    /// A receiver gives all its senders credit out of one budget.
    #[serde(skip_serializing_if = "is_true")]
    pub shared_credit: bool,
}

/// Whether it is as usual, so that results need not say it.
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for GigaeOptions {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            aggregate: true,
            checksum: true,
            recovery: Recovery::Selective,
            busy_poll: BusyPoll::Auto,
            copy: false,
            lend: false,
            shared_credit: true,
        }
    }
}

/// How the raw AF_XDP link is opened and used; what is absent is the link's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct XdpOptions {
    /// Where the program runs.
    pub mode: XdpMode,
    /// Whether an empty ring makes the link drive the driver.
    pub busy_poll: BusyPoll,
    /// Frames per doorbell of a stream, and most frames per poll.
    pub batch: Option<u32>,
    /// Receive frames, all of them in the ring.
    pub rx_frames: Option<u32>,
    /// Transmit frames.
    pub tx_frames: Option<u32>,
    /// Frame memory in huge pages.
    pub huge_pages: Option<bool>,
    /// Ring the doorbell only when the driver asks (`XDP_USE_NEED_WAKEUP`).
    pub need_wakeup: Option<bool>,
}

/// Which kernel interface an endpoint uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The one that the self-test chooses.
    #[default]
    Auto,
    /// AF_XDP, program above the driver.
    Generic,
    /// AF_XDP, program in the driver.
    Native,
    /// AF_PACKET.
    Packet,
    /// A UDP socket, in the UDP envelope.
    Udp,
}

/// Where the program of an AF_XDP link runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// Where the self-test finds it best.
    #[default]
    Auto,
    /// Above the driver.
    Generic,
    /// In the driver.
    Native,
}

/// What a sender repeats after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// What was lost.
    #[default]
    Selective,
    /// Everything from there on, as in the papers.
    GoBackN,
}

/// Busy polling: `"auto"`, `"off"`, or `{ micros = 20, budget = 64 }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BusyPoll {
    /// Where it is known to help.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always; the transport is refused where the kernel refuses.
    #[serde(untagged)]
    On(BusyPollOn),
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusyPollOn {
    /// Longest busy poll in microseconds.
    pub micros: u32,
    /// Most frames per busy poll.
    pub budget: u16,
}

impl<'de> Deserialize<'de> for BusyPoll {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Word(String),
            On(BusyPollOn),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Word(word)) if word == "auto" => Ok(Self::Auto),
            Ok(Raw::Word(word)) if word == "off" => Ok(Self::Off),
            Ok(Raw::On(on)) => Ok(Self::On(on)),
            _ => Err(serde::de::Error::custom(
                "busy_poll is \"auto\", \"off\" or { micros = 20, budget = 64 }",
            )),
        }
    }
}

impl BusyPoll {
    fn check(self) -> Result<(), String> {
        match self {
            Self::On(on) if on.budget == 0 || on.micros == 0 || on.micros > 1_000_000 => {
                Err("busy_poll needs micros from 1 to 1000000 and a budget above 0".into())
            }
            _ => Ok(()),
        }
    }
}
