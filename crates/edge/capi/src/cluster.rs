//! The node table of a cluster.

use crate::abi::{ClusterHandle, OptionsHandle};
use crate::error::{EntryResult, Error, answer};
use crate::handle::{HandleTable, contain};
use crate::options::OPTIONS;
use crate::text;
use gigae::Cluster;
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;

/// All clusters of the process.
pub(crate) static CLUSTERS: HandleTable<Cluster> = HandleTable::new(5);

fn call(cluster: *const ClusterHandle, work: impl FnOnce(&Cluster) -> EntryResult<c_int>) -> c_int {
    answer(CLUSTERS.with(cluster.addr(), |cluster| work(cluster)))
}

/// Reads a cluster file. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_load(
    file: *const c_char,
    cluster: *mut *mut ClusterHandle,
) -> c_int {
    answer(contain(|| {
        // SAFETY: the caller's promise. NULL is noticed before anything is read.
        unsafe { text::put(cluster, ptr::null_mut(), "where to put the cluster")? };
        let read = if file.is_null() {
            Cluster::load()?
        } else {
            // SAFETY: the caller's promise.
            Cluster::read(Path::new(unsafe { text::take(file, "the file's name")? }))?
        };
        let handle = CLUSTERS.insert(Box::new(read))?;
        // SAFETY: the caller's promise.
        unsafe { text::put(cluster, ptr::without_provenance_mut(handle), "the cluster")? };
        Ok(0)
    }))
}

/// Frees a cluster.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_cluster_free(cluster: *mut ClusterHandle) -> c_int {
    answer(contain(|| {
        drop(CLUSTERS.remove(cluster.addr(), |_| Ok(()))?);
        Ok(0)
    }))
}

/// The number of nodes.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_count(
    cluster: *const ClusterHandle,
    count: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    call(cluster, |cluster| unsafe { put(cluster.nodes().len(), count) })
}

/// This node's number.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_self(
    cluster: *const ClusterHandle,
    number: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    call(cluster, |cluster| unsafe { put(cluster.own()?, number) })
}

/// The number of a node by its name.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_number(
    cluster: *const ClusterHandle,
    name: *const c_char,
    number: *mut u32,
) -> c_int {
    call(cluster, |cluster| {
        // SAFETY: the caller's promise.
        let name = unsafe { text::take(name, "the node's name")? };
        // SAFETY: the caller's promise.
        unsafe { put(cluster.number(name)?, number) }
    })
}

/// # Safety
/// `to` is NULL or points to a writable number.
unsafe fn put(number: usize, to: *mut u32) -> EntryResult<c_int> {
    let number = u32::try_from(number).map_err(|_| Error::invalid("more nodes than numbers"))?;
    // SAFETY: the caller's promise.
    unsafe { text::put(to, number, "where to put the number")? };
    Ok(0)
}

/// The name of a node.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_name(
    cluster: *const ClusterHandle,
    number: u32,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(cluster, |cluster| {
        let node = cluster.nodes().get(number as usize).ok_or_else(|| {
            Error::invalid(format!("no node {number}; gigae_cluster_count says how many there are"))
        })?;
        // SAFETY: the caller's promise.
        unsafe { text::give(&node.name, text, size) }
    })
}

/// The address of a node's endpoint.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_address(
    cluster: *const ClusterHandle,
    number: u32,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(cluster, |cluster| {
        let address = cluster.address(number as usize)?;
        // SAFETY: the caller's promise.
        unsafe { text::give(&address.to_string(), text, size) }
    })
}

/// Options for this node's endpoint.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_cluster_options(
    cluster: *const ClusterHandle,
    options: *mut *mut OptionsHandle,
) -> c_int {
    call(cluster, |cluster| {
        // SAFETY: the caller's promise. NULL is noticed before anything is made.
        unsafe { text::put(options, ptr::null_mut(), "where to put the options")? };
        let handle = OPTIONS.insert(Box::new(cluster.options()?))?;
        // SAFETY: the caller's promise.
        unsafe { text::put(options, ptr::without_provenance_mut(handle), "the options")? };
        Ok(0)
    })
}
