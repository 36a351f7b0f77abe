//! `fabric.h`: what an endpoint can do (`fi_info`), with its attributes.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub const FI_AV_UNSPEC: fi_av_type = 0;
pub const FI_AV_MAP: fi_av_type = 1;
pub const FI_AV_TABLE: fi_av_type = 2;
pub type fi_av_type = c_uint;
pub const FI_MR_UNSPEC: fi_mr_mode = 0;
pub const FI_MR_BASIC: fi_mr_mode = 1;
pub const FI_MR_SCALABLE: fi_mr_mode = 2;
pub type fi_mr_mode = c_uint;
pub const FI_PROGRESS_UNSPEC: fi_progress = 0;
pub const FI_PROGRESS_AUTO: fi_progress = 1;
pub const FI_PROGRESS_MANUAL: fi_progress = 2;
pub type fi_progress = c_uint;
pub const FI_THREAD_UNSPEC: fi_threading = 0;
pub const FI_THREAD_SAFE: fi_threading = 1;
pub const FI_THREAD_FID: fi_threading = 2;
pub const FI_THREAD_DOMAIN: fi_threading = 3;
pub const FI_THREAD_COMPLETION: fi_threading = 4;
pub const FI_THREAD_ENDPOINT: fi_threading = 5;
pub type fi_threading = c_uint;
pub const FI_RM_UNSPEC: fi_resource_mgmt = 0;
pub const FI_RM_DISABLED: fi_resource_mgmt = 1;
pub const FI_RM_ENABLED: fi_resource_mgmt = 2;
pub type fi_resource_mgmt = c_uint;
pub const FI_EP_UNSPEC: fi_ep_type = 0;
pub const FI_EP_MSG: fi_ep_type = 1;
pub const FI_EP_DGRAM: fi_ep_type = 2;
pub const FI_EP_RDM: fi_ep_type = 3;
pub const FI_EP_SOCK_STREAM: fi_ep_type = 4;
pub const FI_EP_SOCK_DGRAM: fi_ep_type = 5;
pub type fi_ep_type = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ep_attr {
    pub type_: fi_ep_type,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: fi_threading,
    pub control_progress: fi_progress,
    pub data_progress: fi_progress,
    pub resource_mgmt: fi_resource_mgmt,
    pub av_type: fi_av_type,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: fid_t,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut fid_nic,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_device_attr {
    pub name: *mut c_char,
    pub device_id: *mut c_char,
    pub device_version: *mut c_char,
    pub vendor_id: *mut c_char,
    pub driver: *mut c_char,
    pub firmware: *mut c_char,
}

pub const FI_BUS_UNSPEC: fi_bus_type = 0;
pub const FI_BUS_UNKNOWN: fi_bus_type = 0;
pub const FI_BUS_PCI: fi_bus_type = 1;
pub type fi_bus_type = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_pci_attr {
    pub domain_id: u16,
    pub bus_id: u8,
    pub device_id: u8,
    pub function_id: u8,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_bus_attr {
    pub bus_type: fi_bus_type,
    pub attr: fi_bus_attr__bindgen_ty_1,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub union fi_bus_attr__bindgen_ty_1 {
    pub pci: fi_pci_attr,
}

pub const FI_LINK_UNKNOWN: fi_link_state = 0;
pub const FI_LINK_DOWN: fi_link_state = 1;
pub const FI_LINK_UP: fi_link_state = 2;
pub type fi_link_state = c_uint;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_link_attr {
    pub address: *mut c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: fi_link_state,
    pub network_type: *mut c_char,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut c_void,
}
