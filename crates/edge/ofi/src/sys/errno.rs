//! `fi_errno.h`: error numbers.

use std::ffi::c_uint;

pub(crate) const FI_EPERM: u64 = 1;
pub(crate) const FI_ENOENT: u64 = 2;
pub(crate) const FI_EIO: u64 = 5;
pub(crate) const FI_EAGAIN: u64 = 11;
pub(crate) const FI_EACCES: u64 = 13;
pub(crate) const FI_EBUSY: u64 = 16;
pub(crate) const FI_ENODEV: u64 = 19;
pub(crate) const FI_EINVAL: u64 = 22;
pub(crate) const FI_ENOSYS: u64 = 38;
pub(crate) const FI_ENOMSG: u64 = 42;
pub(crate) const FI_ENODATA: u64 = 61;
pub(crate) const FI_EMSGSIZE: u64 = 90;
pub(crate) const FI_ENOPROTOOPT: u64 = 92;
pub(crate) const FI_EADDRNOTAVAIL: u64 = 99;
pub(crate) const FI_ECONNRESET: u64 = 104;
pub(crate) const FI_ETIMEDOUT: u64 = 110;
pub(crate) const FI_EHOSTUNREACH: u64 = 113;
pub(crate) const FI_ECANCELED: u64 = 125;
pub(crate) const FI_EOTHER: c_uint = 256;
pub(crate) const FI_ETOOSMALL: c_uint = 257;
pub(crate) const FI_EOPBADSTATE: c_uint = 258;
pub(crate) const FI_EAVAIL: c_uint = 259;
pub(crate) const FI_ENOCQ: c_uint = 263;
pub(crate) const FI_ETRUNC: c_uint = 265;
pub(crate) const FI_ENOKEY: c_uint = 266;
pub(crate) const FI_ENOAV: c_uint = 267;
