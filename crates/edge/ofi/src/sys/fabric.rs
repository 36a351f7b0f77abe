//! `fabric.h`: capabilities and flags, what all descriptors have in common, the fabric.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub const FI_MAJOR_VERSION: u64 = 1;
pub const FI_MINOR_VERSION: u64 = 17;
pub const FI_REVISION_VERSION: u64 = 0;
pub const FI_PROV_SPECIFIC: u64 = 2147483648;
pub const FI_MSG: u64 = 2;
pub const FI_RMA: u64 = 4;
pub const FI_TAGGED: u64 = 8;
pub const FI_ATOMIC: u64 = 16;
pub const FI_ATOMICS: u64 = 16;
pub const FI_MULTICAST: u64 = 32;
pub const FI_COLLECTIVE: u64 = 64;
pub const FI_READ: u64 = 256;
pub const FI_WRITE: u64 = 512;
pub const FI_RECV: u64 = 1024;
pub const FI_SEND: u64 = 2048;
pub const FI_TRANSMIT: u64 = 2048;
pub const FI_REMOTE_READ: u64 = 4096;
pub const FI_REMOTE_WRITE: u64 = 8192;
pub const FI_MULTI_RECV: u64 = 65536;
pub const FI_REMOTE_CQ_DATA: u64 = 131072;
pub const FI_MORE: u64 = 262144;
pub const FI_PEEK: u64 = 524288;
pub const FI_TRIGGER: u64 = 1048576;
pub const FI_FENCE: u64 = 2097152;
pub const FI_PRIORITY: u64 = 4194304;
pub const FI_COMPLETION: u64 = 16777216;
pub const FI_EVENT: u64 = 16777216;
pub const FI_INJECT: u64 = 33554432;
pub const FI_INJECT_COMPLETE: u64 = 67108864;
pub const FI_TRANSMIT_COMPLETE: u64 = 134217728;
pub const FI_DELIVERY_COMPLETE: u64 = 268435456;
pub const FI_AFFINITY: u64 = 536870912;
pub const FI_COMMIT_COMPLETE: u64 = 1073741824;
pub const FI_MATCH_COMPLETE: u64 = 2147483648;
pub const FI_PEER_TRANSFER: u64 = 68719476736;
pub const FI_AV_USER_ID: u64 = 2199023255552;
pub const FI_PEER: u64 = 8796093022208;
pub const FI_XPU_TRIGGER: u64 = 17592186044416;
pub const FI_HMEM_HOST_ALLOC: u64 = 35184372088832;
pub const FI_HMEM_DEVICE_ONLY: u64 = 70368744177664;
pub const FI_HMEM: u64 = 140737488355328;
pub const FI_VARIABLE_MSG: u64 = 281474976710656;
pub const FI_RMA_PMEM: u64 = 562949953421312;
pub const FI_SOURCE_ERR: u64 = 1125899906842624;
pub const FI_LOCAL_COMM: u64 = 2251799813685248;
pub const FI_REMOTE_COMM: u64 = 4503599627370496;
pub const FI_SHARED_AV: u64 = 9007199254740992;
pub const FI_PROV_ATTR_ONLY: u64 = 18014398509481984;
pub const FI_NUMERICHOST: u64 = 36028797018963968;
pub const FI_RMA_EVENT: u64 = 72057594037927936;
pub const FI_SOURCE: u64 = 144115188075855872;
pub const FI_NAMED_RX_CTX: u64 = 288230376151711744;
pub const FI_DIRECTED_RECV: u64 = 576460752303423488;
pub const FI_CLAIM: u64 = 576460752303423488;
pub const FI_DISCARD: u64 = 288230376151711744;
pub const FI_SHARED_CONTEXT: i32 = -1;
pub const FI_MR_LOCAL: u64 = 4;
pub const FI_MR_RAW: u64 = 8;
pub const FI_MR_VIRT_ADDR: u64 = 16;
pub const FI_MR_ALLOCATED: u64 = 32;
pub const FI_MR_PROV_KEY: u64 = 64;
pub const FI_MR_MMU_NOTIFY: u64 = 128;
pub const FI_MR_RMA_EVENT: u64 = 256;
pub const FI_MR_ENDPOINT: u64 = 512;
pub const FI_MR_HMEM: u64 = 1024;
pub const FI_MR_COLLECTIVE: u64 = 2048;
pub const FI_ORDER_NONE: u64 = 0;
pub const FI_ORDER_RAR: u64 = 1;
pub const FI_ORDER_RAW: u64 = 2;
pub const FI_ORDER_RAS: u64 = 4;
pub const FI_ORDER_WAR: u64 = 8;
pub const FI_ORDER_WAW: u64 = 16;
pub const FI_ORDER_WAS: u64 = 32;
pub const FI_ORDER_SAR: u64 = 64;
pub const FI_ORDER_SAW: u64 = 128;
pub const FI_ORDER_SAS: u64 = 256;
pub const FI_ORDER_STRICT: u64 = 511;
pub const FI_ORDER_RMA_RAR: u64 = 4294967296;
pub const FI_ORDER_RMA_RAW: u64 = 8589934592;
pub const FI_ORDER_RMA_WAR: u64 = 17179869184;
pub const FI_ORDER_RMA_WAW: u64 = 34359738368;
pub const FI_ORDER_ATOMIC_RAR: u64 = 68719476736;
pub const FI_ORDER_ATOMIC_RAW: u64 = 137438953472;
pub const FI_ORDER_ATOMIC_WAR: u64 = 274877906944;
pub const FI_ORDER_ATOMIC_WAW: u64 = 549755813888;
pub const FI_ORDER_DATA: u64 = 65536;
pub const FI_CONTEXT: u64 = 576460752303423488;
pub const FI_MSG_PREFIX: u64 = 288230376151711744;
pub const FI_ASYNC_IOV: u64 = 144115188075855872;
pub const FI_RX_CQ_DATA: u64 = 72057594037927936;
pub const FI_LOCAL_MR: u64 = 36028797018963968;
pub const FI_NOTIFY_FLAGS_ONLY: u64 = 18014398509481984;
pub const FI_RESTRICTED_COMP: u64 = 9007199254740992;
pub const FI_CONTEXT2: u64 = 4503599627370496;
pub const FI_BUFFERED_RECV: u64 = 2251799813685248;
pub const FI_SELECTIVE_COMPLETION: u64 = 576460752303423488;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct iovec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}

pub const FI_PATH_MAX: c_uint = 256;
pub const FI_NAME_MAX: c_uint = 64;
pub const FI_VERSION_MAX: c_uint = 64;
pub type fid_t = *mut fid;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

pub const FI_FORMAT_UNSPEC: c_uint = 0;
pub const FI_SOCKADDR: c_uint = 1;
pub const FI_SOCKADDR_IN: c_uint = 2;
pub const FI_SOCKADDR_IN6: c_uint = 3;
pub const FI_SOCKADDR_IB: c_uint = 4;
pub const FI_ADDR_PSMX: c_uint = 5;
pub const FI_ADDR_GNI: c_uint = 6;
pub const FI_ADDR_BGQ: c_uint = 7;
pub const FI_ADDR_MLX: c_uint = 8;
pub const FI_ADDR_STR: c_uint = 9;
pub const FI_ADDR_PSMX2: c_uint = 10;
pub const FI_ADDR_IB_UD: c_uint = 11;
pub const FI_ADDR_EFA: c_uint = 12;
pub const FI_ADDR_PSMX3: c_uint = 13;
pub const FI_ADDR_OPX: c_uint = 14;
pub const FI_ADDR_CXI: c_uint = 15;
pub type fi_addr_t = u64;
pub const FI_PROTO_UNSPEC: c_uint = 0;
pub const FI_PROTO_RDMA_CM_IB_RC: c_uint = 1;
pub const FI_PROTO_IWARP: c_uint = 2;
pub const FI_PROTO_IB_UD: c_uint = 3;
pub const FI_PROTO_PSMX: c_uint = 4;
pub const FI_PROTO_UDP: c_uint = 5;
pub const FI_PROTO_SOCK_TCP: c_uint = 6;
pub const FI_PROTO_MXM: c_uint = 7;
pub const FI_PROTO_IWARP_RDM: c_uint = 8;
pub const FI_PROTO_IB_RDM: c_uint = 9;
pub const FI_PROTO_GNI: c_uint = 10;
pub const FI_PROTO_RXM: c_uint = 11;
pub const FI_PROTO_RXD: c_uint = 12;
pub const FI_PROTO_MLX: c_uint = 13;
pub const FI_PROTO_NETWORKDIRECT: c_uint = 14;
pub const FI_PROTO_PSMX2: c_uint = 15;
pub const FI_PROTO_SHM: c_uint = 16;
pub const FI_PROTO_MRAIL: c_uint = 17;
pub const FI_PROTO_RSTREAM: c_uint = 18;
pub const FI_PROTO_RDMA_CM_IB_XRC: c_uint = 19;
pub const FI_PROTO_EFA: c_uint = 20;
pub const FI_PROTO_PSMX3: c_uint = 21;
pub const FI_PROTO_RXM_TCP: c_uint = 22;
pub const FI_PROTO_OPX: c_uint = 23;
pub const FI_PROTO_CXI: c_uint = 24;
pub const FI_PROTO_XNET: c_uint = 25;
pub const FI_TC_UNSPEC: c_uint = 0;
pub const FI_TC_DSCP: c_uint = 256;
pub const FI_TC_LABEL: c_uint = 512;
pub const FI_TC_BEST_EFFORT: c_uint = 512;
pub const FI_TC_LOW_LATENCY: c_uint = 513;
pub const FI_TC_DEDICATED_ACCESS: c_uint = 514;
pub const FI_TC_BULK_DATA: c_uint = 515;
pub const FI_TC_SCAVENGER: c_uint = 516;
pub const FI_TC_NETWORK_CTRL: c_uint = 517;
pub const FI_CLASS_UNSPEC: c_uint = 0;
pub const FI_CLASS_FABRIC: c_uint = 1;
pub const FI_CLASS_DOMAIN: c_uint = 2;
pub const FI_CLASS_EP: c_uint = 3;
pub const FI_CLASS_SEP: c_uint = 4;
pub const FI_CLASS_RX_CTX: c_uint = 5;
pub const FI_CLASS_SRX_CTX: c_uint = 6;
pub const FI_CLASS_TX_CTX: c_uint = 7;
pub const FI_CLASS_STX_CTX: c_uint = 8;
pub const FI_CLASS_PEP: c_uint = 9;
pub const FI_CLASS_INTERFACE: c_uint = 10;
pub const FI_CLASS_AV: c_uint = 11;
pub const FI_CLASS_MR: c_uint = 12;
pub const FI_CLASS_EQ: c_uint = 13;
pub const FI_CLASS_CQ: c_uint = 14;
pub const FI_CLASS_CNTR: c_uint = 15;
pub const FI_CLASS_WAIT: c_uint = 16;
pub const FI_CLASS_POLL: c_uint = 17;
pub const FI_CLASS_CONNREQ: c_uint = 18;
pub const FI_CLASS_MC: c_uint = 19;
pub const FI_CLASS_NIC: c_uint = 20;
pub const FI_CLASS_AV_SET: c_uint = 21;
pub const FI_CLASS_MR_CACHE: c_uint = 22;
pub const FI_CLASS_MEM_MONITOR: c_uint = 23;
pub const FI_CLASS_PEER_CQ: c_uint = 24;
pub const FI_CLASS_PEER_SRX: c_uint = 25;
pub const FI_CLASS_LOG: c_uint = 26;
pub const FI_CLASS_PEER_AV: c_uint = 27;
pub const FI_CLASS_PEER_AV_SET: c_uint = 28;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(fid: *mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int>,
    pub control:
        Option<unsafe extern "C" fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int>,
    pub ops_open: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub tostr: Option<unsafe extern "C" fn(fid: *const fid, buf: *mut c_char, len: usize) -> c_int>,
    pub ops_set: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    >,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub passive_ep: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            pep: *mut *mut fid_pep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub eq_open: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_eq_attr,
            eq: *mut *mut fid_eq,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub wait_open: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_wait_attr,
            waitset: *mut *mut fid_wait,
        ) -> c_int,
    >,
    pub trywait: Option<
        unsafe extern "C" fn(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int,
    >,
    pub domain2: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_alias {
    pub fid: *mut *mut fid,
    pub flags: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_fid_var {
    pub name: c_int,
    pub val: *mut c_void,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_mr_raw_attr {
    pub flags: u64,
    pub base_addr: *mut u64,
    pub raw_key: *mut u8,
    pub key_size: *mut usize,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_mr_map_raw {
    pub flags: u64,
    pub base_addr: u64,
    pub raw_key: *mut u8,
    pub key_size: usize,
    pub key: *mut u64,
}

pub const FI_GETFIDFLAG: c_uint = 0;
pub const FI_SETFIDFLAG: c_uint = 1;
pub const FI_GETOPSFLAG: c_uint = 2;
pub const FI_SETOPSFLAG: c_uint = 3;
pub const FI_ALIAS: c_uint = 4;
pub const FI_GETWAIT: c_uint = 5;
pub const FI_ENABLE: c_uint = 6;
pub const FI_BACKLOG: c_uint = 7;
pub const FI_GET_RAW_MR: c_uint = 8;
pub const FI_MAP_RAW_MR: c_uint = 9;
pub const FI_UNMAP_KEY: c_uint = 10;
pub const FI_QUEUE_WORK: c_uint = 11;
pub const FI_CANCEL_WORK: c_uint = 12;
pub const FI_FLUSH_WORK: c_uint = 13;
pub const FI_REFRESH: c_uint = 14;
pub const FI_DUP: c_uint = 15;
pub const FI_GETWAITOBJ: c_uint = 16;
pub const FI_GET_VAL: c_uint = 17;
pub const FI_SET_VAL: c_uint = 18;
pub const FI_EXPORT_FID: c_uint = 19;
pub const FI_TYPE_INFO: fi_type = 0;
pub const FI_TYPE_EP_TYPE: fi_type = 1;
pub const FI_TYPE_CAPS: fi_type = 2;
pub const FI_TYPE_OP_FLAGS: fi_type = 3;
pub const FI_TYPE_ADDR_FORMAT: fi_type = 4;
pub const FI_TYPE_TX_ATTR: fi_type = 5;
pub const FI_TYPE_RX_ATTR: fi_type = 6;
pub const FI_TYPE_EP_ATTR: fi_type = 7;
pub const FI_TYPE_DOMAIN_ATTR: fi_type = 8;
pub const FI_TYPE_FABRIC_ATTR: fi_type = 9;
pub const FI_TYPE_THREADING: fi_type = 10;
pub const FI_TYPE_PROGRESS: fi_type = 11;
pub const FI_TYPE_PROTOCOL: fi_type = 12;
pub const FI_TYPE_MSG_ORDER: fi_type = 13;
pub const FI_TYPE_MODE: fi_type = 14;
pub const FI_TYPE_AV_TYPE: fi_type = 15;
pub const FI_TYPE_ATOMIC_TYPE: fi_type = 16;
pub const FI_TYPE_ATOMIC_OP: fi_type = 17;
pub const FI_TYPE_VERSION: fi_type = 18;
pub const FI_TYPE_EQ_EVENT: fi_type = 19;
pub const FI_TYPE_CQ_EVENT_FLAGS: fi_type = 20;
pub const FI_TYPE_MR_MODE: fi_type = 21;
pub const FI_TYPE_OP_TYPE: fi_type = 22;
pub const FI_TYPE_FID: fi_type = 23;
pub const FI_TYPE_COLLECTIVE_OP: fi_type = 24;
pub const FI_TYPE_HMEM_IFACE: fi_type = 25;
pub const FI_TYPE_CQ_FORMAT: fi_type = 26;
pub const FI_TYPE_LOG_LEVEL: fi_type = 27;
pub const FI_TYPE_LOG_SUBSYS: fi_type = 28;
pub type fi_type = c_uint;
pub const FI_PARAM_STRING: fi_param_type = 0;
pub const FI_PARAM_INT: fi_param_type = 1;
pub const FI_PARAM_BOOL: fi_param_type = 2;
pub const FI_PARAM_SIZE_T: fi_param_type = 3;
pub type fi_param_type = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_param {
    pub name: *const c_char,
    pub type_: fi_param_type,
    pub help_string: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_context {
    pub internal: [*mut c_void; 4usize],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8usize],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_recv_context {
    pub ep: *mut fid_ep,
    pub context: *mut c_void,
}
