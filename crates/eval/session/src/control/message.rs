//! The messages of the control connection.

use gigae_eval_measure::probe::Answered;
use gigae_eval_measure::site::ChannelAddress;
use gigae_eval_measure::transport::Task;
use gigae_eval_model::cost::Baseline;
use gigae_eval_model::duration;
use gigae_eval_model::environment::EndEnvironment;
use gigae_eval_model::job::Job;
use gigae_eval_model::knobs::{KnobState, Set, WantedKnob};
use gigae_eval_model::soak::Sample;
use gigae_eval_model::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// Version of everything in this file and of what its messages mean. Ends of different versions
/// refuse each other.
pub const VERSION: u32 = 8;

/// What the owner of a server allows each client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Seconds of a session.
    pub seconds: Option<f64>,
    /// Bytes per second of payload, in each direction.
    pub rate: Option<f64>,
}

/// A client's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Clients before this one, the one that is served included.
    pub before: u32,
    /// For how long the one that is served has been, in seconds.
    pub served: f64,
    /// Seconds until its turn at most, where the owner of the server limits sessions.
    pub at_most: Option<f64>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            1 => f.write_str("waiting: 1 client is before this one")?,
            more => write!(f, "waiting: {more} clients are before this one")?,
        }
        match self.at_most {
            Some(seconds) => write!(f, ", {} at most", duration::say(seconds)),
            None => write!(f, ", the present one for {}", duration::say(self.served)),
        }
    }
}

/// What the client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Describe your end.
    Describe,
    /// Watch your idle machine for this many milliseconds.
    Baseline(u64),
    /// What have you of these knobs, each with values that may be asked for? Whatever was set
    /// before is put back.
    Knobs(Vec<WantedKnob>),
    /// Set these, of those that were asked about, and all others as they were. The session's end
    /// puts back all.
    Tune(Vec<Set>),
    /// Open your end of this task; mine is here.
    Run {
        /// What to do.
        task: Task,
        /// Where the client's end is.
        address: ChannelAddress,
    },
    /// Open your ends of this task, to which many send; theirs are here. Ends with
    /// [`Request::Gathered`] or [`Request::Cancel`].
    Gather {
        /// What to do.
        task: Task,
        /// Where the senders are.
        addresses: Vec<ChannelAddress>,
        /// The CPUs for your threads in turn, where both ends are on one machine.
        cpus: Vec<usize>,
    },
    /// The senders are done and sent this many bytes each.
    Gathered {
        /// Bytes, in the senders' order.
        bytes: Vec<u64>,
    },
    /// I am done and sent this many bytes in all.
    Finish {
        /// Bytes.
        bytes: u64,
    },
    /// I could not join; give up this repetition.
    Cancel,
    /// Which other programs are installed there?
    Programs,
    /// Start your end of this program. Ends with [`Request::Cancel`].
    Program(Box<Job>),
    /// Open your end of a soak; mine is here. Ends with [`Request::Finish`] or [`Request::Cancel`].
    Soak(Box<Soak>),
    /// How is your end of the soak?
    Watch {
        /// Begin nothing new from now on.
        quiet: bool,
    },
}

/// What a soaked end must know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Sizes, rate and seed.
    pub traffic: Traffic,
    /// The server's number in the soak; the client's is 0.
    pub number: u8,
    /// Where the client's end is.
    pub address: ChannelAddress,
    /// The ports from which its TCP connections come, in the order of their roles. The server
    /// connects nowhere.
    pub ports: Vec<u16>,
    /// The memory that the client has registered for this end.
    pub key: u64,
    /// Seconds after which the server begins nothing new.
    pub seconds: f64,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// To [`Request::Describe`].
    Description(Box<EndEnvironment>),
    /// To [`Request::Baseline`].
    Baseline(Baseline),
    /// To [`Request::Knobs`].
    Knobs(Vec<KnobState>),
    /// To [`Request::Tune`]: it is done.
    Tuned,
    /// To [`Request::Run`]: the server's end is open, here.
    Ready(ChannelAddress),
    /// To [`Request::Gather`]: the server's ends are open, here; one for each sender or one for
    /// all.
    Gathering(Vec<ChannelAddress>),
    /// To [`Request::Gathered`].
    Counted(Vec<Answered>),
    /// To [`Request::Finish`].
    Done(Box<Answered>),
    /// To [`Request::Cancel`].
    Cancelled,
    /// To [`Request::Programs`]: their names.
    Programs(Vec<String>),
    /// To [`Request::Program`]: it waits.
    Listening {
        /// Where.
        at: SocketAddr,
    },
    /// To [`Request::Soak`]: the server's end is open, here.
    Soaking {
        /// Where, with the port to which the client connects by TCP.
        address: ChannelAddress,
        /// The memory registered for the client.
        key: u64,
    },
    /// To [`Request::Watch`], and to [`Request::Finish`] of a soak.
    Sample(Box<Sample>),
    /// Unasked, before anything else: others are before this client.
    Waiting(Waiting),
    /// Unasked, once: it is this client's turn, and this is what it may do.
    Welcome(Limits),
    /// Unasked or to any: the session is over.
    Over {
        /// One line.
        reason: String,
    },
    /// To any: it did not work, but the session goes on.
    Failed {
        /// One line.
        reason: String,
        /// Whether this transport can never work here.
        unavailable: bool,
    },
}
