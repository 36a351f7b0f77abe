//! File transfer between two nodes, without sockets, files or a clock.
//!
//! One protocol goes one way: a [`Fetcher`] asks and a [`Server`] answers. A push is a fetch by the
//! other end: the client asks the server to fetch ([`Request::Take`]), and answers its requests.
//!
//! - Every request and every reply is one message. A request has a number, which is the tag of its
//!   reply.
//! - The server answers each request by itself and keeps no open files for clients. So a request
//!   can be repeated, and a server that was restarted goes on where the former one stopped.
//! - Small files come many to a reply. A large file comes in parts of [`PART`] bytes, several at
//!   the same time. Each part, and each reply with small files, has a digest. The server computes
//!   it over the bytes that it has read, and the fetcher over those that it has received.
//! - A file has a version: a number that follows from its size, its times and its inode. A part of
//!   another version than the one that the fetcher began with is refused.
//!
//! A mounted share asks single questions instead ([`Caller`]): for the attributes of a file, what
//! is in a directory, or some bytes. There a file has an identity, and bytes of any version are
//! read, as of a file of this host that somebody else changes. It may also ask for
//! [changes](Change). Each has a number, and the server keeps the last answers to a client: what is
//! asked for again is not carried out again.
//!
//! What reads and writes files is behind two traits: [`Source`] and [`Sink`]. Both get paths as
//! bytes. The fetcher makes a path only of names that it has [checked](valid_name), so whatever a
//! server says, the path does not lead out of the destination.

#![forbid(unsafe_code)]

mod bytes;
mod caller;
mod change;
mod changes;
mod entry;
mod error;
mod fetcher;
mod inode;
mod message;
mod names;
mod pusher;
mod server;
mod source;
mod status;

pub use caller::Caller;
pub use change::{Change, Changed, Done, MAX_CHANGE, Parent, Ticket};
pub use entry::{Attributes, Entry, Kind};
pub use error::Fault;
pub use fetcher::{Fetcher, Options, Outgoing, Problem, Progress, Sink, Want, Wanted};
pub use inode::{Inode, Named, Space};
pub use message::{
    MAX_REPLY, MAX_REQUEST, MOST_PROBLEMS, MOST_SOURCES, PART, Reply, ReplyHeader, Request, SMALL,
    digest,
};
pub use names::{MAX_NAME, MAX_PATH, duplicate, join, printable, valid_name, valid_path};
pub use pusher::Pusher;
pub use server::{Answer, MOST_IN_FLIGHT, Server};
pub use source::{Listed, Source};
pub use status::Status;
