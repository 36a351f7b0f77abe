//! File services: real servers and clients, such as `vsftpd` with `curl`, on a virtual network or
//! on two machines.
//!
//! A [`Service`] is a file here: how its server is configured, how its client fetches a file, and
//! how the client's output is read. To add one: describe it in `SERVICES` of
//! `gigae_eval_model::service`, write its file, and name it in [`all`] at the same position.
//!
//! - [`store`] has the files, in a temporary directory that goes with the run.
//! - [`server`] starts a server, watches it and ends it. [`serving`] is what a run needs of it.
//! - [`answer`] does that for another machine, and [`peer`] is that machine's end of it.
//! - [`client`] fetches a file once, by one or several clients, and compares copies.
//! - [`access`] reads and writes within a file of a server, by `fio`.
//! - [`metadata`] makes, lists, renames and removes small files, by libnfs.
//! - [`meter`] counts what that costs both ends.
//! - [`memory`] gives a server less memory and a slower disk.
//! - [`mount`] has file systems that guests mount, and the programs that use them.
//!
//! Only guests mount file systems; no client on this machine does. Nothing outside of the temporary
//! directory is written: the NFS server has a `/run` of its own, and each guest has mounts of its
//! own, in mount namespaces that go with them. Servers and clients
//! run under a guard ([`gigae_eval_session::programs::process`]): they end with the
//! run, however that ends.

pub mod access;
pub mod answer;
pub mod client;
mod error;
pub mod fence;
mod fio;
mod ftp;
pub mod host;
mod installed;
mod lftp;
mod libnfs;
pub mod memory;
pub mod metadata;
pub mod meter;
pub mod mount;
mod nfs;
mod own;
pub mod peer;
mod removal;
mod rights;
mod rsync;
pub mod server;
mod service;
pub mod serving;
mod smb;
mod ssh;
pub mod store;

pub use error::ServiceError;
pub use installed::{installed, services_installed};
pub use service::{Fetch, ServerPlace, Service, Transfer};

/// All services, in the order of [`SERVICES`](gigae_eval_model::service::SERVICES).
pub fn all() -> &'static [&'static dyn Service] {
    &[
        &ftp::Ftp,
        &smb::Smb,
        &nfs::Nfs,
        &lftp::Lftp,
        &rsync::Rsync,
        &ssh::RsyncSsh,
        &ssh::Scp,
        &own::Own,
    ]
}

/// Finds a service.
pub fn by_name(name: &str) -> Option<&'static dyn Service> {
    all().iter().copied().find(|service| service.spec().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::service as model;

    #[test]
    fn every_service_of_the_model_has_its_code_and_is_at_the_same_position() {
        let names = |specs: Vec<&'static str>| specs;
        let described = names(model::SERVICES.iter().map(|spec| spec.name).collect());
        let written = names(all().iter().map(|service| service.spec().name).collect());
        assert_eq!(described, written);
        for service in all() {
            assert_eq!(by_name(service.spec().name).unwrap().spec().name, service.spec().name);
        }
    }
}
