//! Hosts, and the MPI libraries that are tried on them.
#![allow(missing_docs, unreachable_pub)]

use gigae_fabric::{FabricConfig, testing};
use gigae_mpi::{Hosts, Vendor};
use std::path::Path;
use std::sync::OnceLock;

pub fn hosts(test: &str, adapt: impl FnOnce(&mut FabricConfig)) -> Hosts {
    Hosts::new(testing::fabric(test, adapt)).unwrap()
}

pub fn open_mpi() -> Vendor {
    Vendor::open_mpi().unwrap()
}

/// In the target directory, for all tests and for the next time.
pub fn mpich() -> Vendor {
    static INSTALLED: OnceLock<Result<Vendor, String>> = OnceLock::new();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpich");
    let vendor = INSTALLED.get_or_init(|| Vendor::mpich(&place));
    vendor.clone().unwrap_or_else(|what| panic!("{what}"))
}
