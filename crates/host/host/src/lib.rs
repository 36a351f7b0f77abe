//! What the kernel says of this host outside of netlink, each thing in one home: the CPUs of a
//! thread ([`affinity`]) and its signals ([`signals`]), files of proc(5) ([`proc`]), interfaces by
//! ioctl ([`netdevice`]), the network namespace of a thread ([`netns`]), that of a socket and its
//! other end ([`socket`]), users ([`user`]), what the environment may say ([`environment`]),
//! installed programs ([`path`]), and files that only this user can write ([`own_files`]).
//!
//! Parsers take text, so that tests need no machine of a certain kind. A file that cannot be read
//! or that says something else than expected gives `None` or nothing: the callers describe a
//! machine and go on without what it does not say.

pub mod affinity;
pub mod environment;
pub mod netdevice;
pub mod netns;
pub mod own_files;
pub mod path;
pub mod proc;
pub mod signals;
pub mod socket;
pub mod user;
