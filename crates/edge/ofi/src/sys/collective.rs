//! `fi_collective.h`: collective operations.

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_av_set {
    _unused: [u8; 0],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_collective_attr {
    _unused: [u8; 0],
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_collective {
    _unused: [u8; 0],
}
