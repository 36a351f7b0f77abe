//! File services: real servers and clients on a virtual network, such as `vsftpd` with `curl`.
//!
//! A [`Service`] is a file here: how its server is configured, how its client fetches a file, and
//! how the client's output is read. To add one: describe it in `SERVICES` of
//! `gigae_eval_model::service`, write its file, and name it in [`all`] at the same position.
//!
//! - [`store`] has the files, in a temporary directory that goes with the run.
//! - [`server`] starts a server in a node, watches it and ends it.
//! - [`client`] fetches a file once, by one or several clients, and compares copies.
//! - [`meter`] counts what that costs both ends.
//! - [`memory`] gives a server less memory and a slower disk.
//!
//! No file system is mounted, and nothing outside of the temporary directory is written. Servers
//! and clients run under a guard ([`gigae_eval_session::programs::process`]): they end with the
//! run, however that ends.

pub mod client;
mod error;
mod ftp;
pub mod memory;
pub mod meter;
pub mod server;
mod service;
mod smb;
pub mod store;

pub use error::ServiceError;
pub use service::{Fetch, ServerPlace, Service, Transfer};

use gigae_eval_model::plan::FilesPlan;
use gigae_eval_model::service as model;

/// All services, in the order of [`model::SERVICES`].
pub fn all() -> &'static [&'static dyn Service] {
    &[&ftp::Ftp, &smb::Smb]
}

/// Finds a service.
pub fn by_name(name: &str) -> Option<&'static dyn Service> {
    all().iter().copied().find(|service| service.spec().name == name)
}

/// Where servers are, beside the directories of `PATH`.
const SYSTEM_PROGRAMS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The path of a program, if it is installed.
fn find(program: &str) -> Option<String> {
    let path = gigae_host::path::find(program, &SYSTEM_PROGRAMS)?;
    Some(path.to_string_lossy().into_owned())
}

/// Refuses to measure services whose programs are missing. The error names the packages.
pub fn installed(files: &[FilesPlan]) -> Result<(), ServiceError> {
    let mut missing: Vec<(&str, &str)> = Vec::new();
    for spec in files.iter().filter_map(|files| model::by_name(&files.service)) {
        for &one in spec.programs {
            if find(one.0).is_none() && !missing.contains(&one) {
                missing.push(one);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let words = |of: fn(&(&'static str, &'static str)) -> &'static str, between: &str| {
        let mut words: Vec<&str> = missing.iter().map(of).collect();
        words.dedup();
        words.join(between)
    };
    Err(ServiceError::Missing {
        programs: words(|one| one.0, ", "),
        packages: words(|one| one.1, " "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::plan::Plan;

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

    #[test]
    fn a_plan_without_services_needs_no_program() {
        assert!(installed(&Plan::load("quick").unwrap().files).is_ok());
    }
}
