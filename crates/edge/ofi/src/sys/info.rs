//! `fabric.h`: what an endpoint can do (`fi_info`), with its attributes.

use super::*;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) const FI_AV_TABLE: fi_av_type = 2;
pub(crate) type fi_av_type = c_uint;

pub(crate) const FI_MR_BASIC: fi_mr_mode = 1;
pub(crate) const FI_MR_SCALABLE: fi_mr_mode = 2;
pub(crate) type fi_mr_mode = c_uint;

pub(crate) const FI_PROGRESS_AUTO: fi_progress = 1;
pub(crate) type fi_progress = c_uint;

pub(crate) const FI_THREAD_SAFE: fi_threading = 1;
pub(crate) const FI_THREAD_DOMAIN: fi_threading = 3;
pub(crate) const FI_THREAD_COMPLETION: fi_threading = 4;
pub(crate) type fi_threading = c_uint;

pub(crate) const FI_RM_ENABLED: fi_resource_mgmt = 2;
pub(crate) type fi_resource_mgmt = c_uint;

pub(crate) const FI_EP_UNSPEC: fi_ep_type = 0;
pub(crate) const FI_EP_RDM: fi_ep_type = 3;
pub(crate) type fi_ep_type = c_uint;

pub(crate) type fi_bus_type = c_uint;
pub(crate) type fi_link_state = c_uint;

records! {
    struct fi_tx_attr {
        caps: u64, mode: u64, op_flags: u64, msg_order: u64, comp_order: u64, inject_size: usize,
        size: usize, iov_limit: usize, rma_iov_limit: usize, tclass: u32,
    }

    struct fi_rx_attr {
        caps: u64, mode: u64, op_flags: u64, msg_order: u64, comp_order: u64,
        total_buffered_recv: usize, size: usize, iov_limit: usize,
    }

    struct fi_ep_attr {
        type_: fi_ep_type, protocol: u32, protocol_version: u32, max_msg_size: usize,
        msg_prefix_size: usize, max_order_raw_size: usize, max_order_war_size: usize,
        max_order_waw_size: usize, mem_tag_format: u64, tx_ctx_cnt: usize, rx_ctx_cnt: usize,
        auth_key_size: usize, auth_key: *mut u8,
    }

    struct fi_domain_attr {
        domain: *mut fid_domain, name: *mut c_char, threading: fi_threading,
        control_progress: fi_progress, data_progress: fi_progress, resource_mgmt: fi_resource_mgmt,
        av_type: fi_av_type, mr_mode: c_int, mr_key_size: usize, cq_data_size: usize, cq_cnt: usize,
        ep_cnt: usize, tx_ctx_cnt: usize, rx_ctx_cnt: usize, max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize, max_ep_stx_ctx: usize, max_ep_srx_ctx: usize, cntr_cnt: usize,
        mr_iov_limit: usize, caps: u64, mode: u64, auth_key: *mut u8, auth_key_size: usize,
        max_err_data: usize, mr_cnt: usize, tclass: u32,
    }

    struct fi_fabric_attr {
        fabric: *mut fid_fabric, name: *mut c_char, prov_name: *mut c_char, prov_version: u32,
        api_version: u32,
    }

    struct fi_info {
        next: *mut fi_info, caps: u64, mode: u64, addr_format: u32, src_addrlen: usize,
        dest_addrlen: usize, src_addr: *mut c_void, dest_addr: *mut c_void, handle: fid_t,
        tx_attr: *mut fi_tx_attr, rx_attr: *mut fi_rx_attr, ep_attr: *mut fi_ep_attr,
        domain_attr: *mut fi_domain_attr, fabric_attr: *mut fi_fabric_attr, nic: *mut fid_nic,
    }

    struct fi_device_attr {
        name: *mut c_char, device_id: *mut c_char, device_version: *mut c_char,
        vendor_id: *mut c_char, driver: *mut c_char, firmware: *mut c_char,
    }

    struct fi_pci_attr { domain_id: u16, bus_id: u8, device_id: u8, function_id: u8 }
    struct fi_bus_attr { bus_type: fi_bus_type, attr: fi_bus_attr__bindgen_ty_1 }

    struct fi_link_attr {
        address: *mut c_char, mtu: usize, speed: usize, state: fi_link_state,
        network_type: *mut c_char,
    }

    struct fid_nic {
        fid: fid, device_attr: *mut fi_device_attr, bus_attr: *mut fi_bus_attr,
        link_attr: *mut fi_link_attr, prov_attr: *mut c_void,
    }
}

#[repr(C)]
#[derive(Copy, Clone)]
pub(crate) union fi_bus_attr__bindgen_ty_1 {
    pub(crate) pci: fi_pci_attr,
}
