//! `fi_collective.h`: collective operations.

records! {
    struct fid_av_set { _unused: [u8; 0] }
    struct fi_collective_attr { _unused: [u8; 0] }
    struct fi_ops_collective { _unused: [u8; 0] }
}
