//! The messages of the control connection.

use gigae_eval_measure::probe::Answered;
use gigae_eval_measure::site::ChannelAddress;
use gigae_eval_measure::transport::Task;
use gigae_eval_model::cost::{Baseline, Cost};
use gigae_eval_model::duration;
use gigae_eval_model::environment::EndEnvironment;
use gigae_eval_model::file_job::FileJob;
use gigae_eval_model::job::Job;
use gigae_eval_model::knobs::{KnobState, Set, WantedKnob};
use gigae_eval_model::soak::Sample;
use gigae_eval_model::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

/// Version of everything in this file and of what its messages mean. Ends of different versions
/// refuse each other.
pub const VERSION: u32 = 9;

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
    /// Something about a file server.
    Files(FilesRequest),
    /// Open your end of a soak; mine is here. Ends with [`Request::Finish`] or [`Request::Cancel`].
    Soak(Box<Soak>),
    /// How is your end of the soak?
    Watch {
        /// Begin nothing new from now on.
        quiet: bool,
    },
}

/// What the client asks for of a file server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FilesRequest {
    /// Start it. It ends with [`Request::Cancel`].
    Serve(Box<FileJob>),
    /// A repetition begins: remove what was sent in part, write all files to the disk, and read
    /// your counters.
    Begin,
    /// The repetition is over: what did it cost you?
    End,
    /// Is that which was sent under this name the same as this file of yours? Remove it.
    Compare {
        /// The name in the directory for files that are sent.
        sent: String,
        /// The name of the file.
        file: String,
    },
}

/// What the server answers to a [`FilesRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FilesReply {
    /// To [`FilesRequest::Serve`]: clients can come.
    Serving(Box<FilesServing>),
    /// To [`FilesRequest::Begin`].
    Begun,
    /// To [`FilesRequest::End`].
    Spent(Box<Spent>),
    /// To [`FilesRequest::Compare`]: whether it is.
    Compared(bool),
}

/// A file server that clients can reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesServing {
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its port, where it has no usual one.
    pub port: u16,
    /// What a client must know, where the server asks for a password.
    pub password: String,
    /// What its program says of its version.
    pub version: String,
    /// The file system of its files, and where they are.
    pub file_system: Option<String>,
    /// SHA-256 of each file and tree, in the order of the job, in hexadecimal digits.
    pub hashes: Vec<String>,
}

/// What a repetition cost a file server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Its processes, and the interrupts and frames of its machine.
    pub cost: Cost,
    /// Bytes that it read from its disk; absent where the kernel does not count them.
    pub disk: Option<u64>,
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
    /// To [`Request::Files`].
    Files(FilesReply),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_a_file_server_has_all_its_fields_and_no_other() {
        let job = FileJob { service: "ftp".into(), files: vec![(5, 1), (6, 100)], sent: Some(9) };
        let (sent, file) = ("5".to_owned(), "6".to_owned());
        for request in [
            FilesRequest::Serve(Box::new(job)),
            FilesRequest::Begin,
            FilesRequest::End,
            FilesRequest::Compare { sent, file },
        ] {
            let request = Request::Files(request);
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request, "{text}");
        }
        for text in [
            r#"{"files":{"serve":{"service":"ftp","files":[[5]],"sent":null}}}"#,
            r#"{"files":{"serve":{"service":"ftp","files":[[-5,1]],"sent":null}}}"#,
            r#"{"files":{"serve":{"service":"ftp","files":[],"sent":null,"path":"/"}}}"#,
            r#"{"files":{"compare":{"sent":"5"}}}"#,
            r#"{"files":"run"}"#,
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
    }
}
