//! What a mounted file system shows of a file.

use crate::fault::of_source;
use gigae_share::{Attributes, Fault, Inode, Kind, Space};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, fstatvfs, statx};
use rustix::io::Errno;
use twox_hash::XxHash3_64;

/// The entry of a directory, or with an empty name what is open itself.
pub(crate) fn of(directory: impl AsFd, name: &[u8]) -> Result<Inode, Errno> {
    // A look at a place where something would be mounted mounts nothing.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    Ok(inode(&statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?))
}

/// What a listing shows of an entry, which has this number there. `None`: it was removed. What has
/// no attributes, as the place of a mount that hangs, is listed nevertheless: nothing can be done
/// with it, but with the rest of the directory.
pub(crate) fn listed(found: Result<Inode, Errno>, number: u64) -> Option<Inode> {
    match found {
        Ok(inode) => Some(inode),
        Err(Errno::NOENT) => None,
        Err(_) => Some(Inode {
            attributes: Attributes {
                kind: Kind::Special,
                sparse: false,
                mode: 0,
                size: 0,
                seconds: 0,
                nanoseconds: 0,
                version: 0,
            },
            // Not that of the file itself, whose attributes may be seen later.
            id: identity(&[number]),
            links: 1,
            blocks: 0,
            changed: (0, 0),
        }),
    }
}

fn hash(parts: &[u64]) -> u64 {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_le_bytes()).collect();
    XxHash3_64::oneshot(&bytes)
}

/// Neither 0 nor 1.
fn identity(parts: &[u64]) -> u64 {
    match hash(parts) {
        id @ (0 | 1) => id | 1 << 63,
        id => id,
    }
}

fn inode(stat: &Statx) -> Inode {
    let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    // A new file may get the inode of a removed one, but not its birth.
    let birth = match stat.stx_mask & StatxFlags::BTIME.bits() {
        0 => [0, 0],
        _ => [stat.stx_btime.tv_sec as u64, stat.stx_btime.tv_nsec.into()],
    };
    let id = identity(&[device, stat.stx_ino, birth[0], birth[1]]);
    let (modified, changed) = (stat.stx_mtime, stat.stx_ctime);
    let version = hash(&[
        id,
        stat.stx_size,
        modified.tv_sec as u64,
        modified.tv_nsec.into(),
        changed.tv_sec as u64,
        changed.tv_nsec.into(),
    ]);
    let attributes = Attributes {
        kind,
        sparse: kind == Kind::File && stat.stx_blocks * 512 < stat.stx_size,
        mode: stat.stx_mode & 0o777,
        size: stat.stx_size,
        seconds: modified.tv_sec,
        nanoseconds: modified.tv_nsec,
        version,
    };
    Inode {
        attributes,
        id,
        links: stat.stx_nlink,
        blocks: stat.stx_blocks,
        changed: (changed.tv_sec, changed.tv_nsec),
    }
}

/// How much room the file system has in which an open file is.
pub(crate) fn space(file: impl AsFd) -> Result<Space, Fault> {
    let stat = fstatvfs(file).map_err(of_source)?;
    Ok(Space {
        block: u32::try_from(stat.f_frsize).unwrap_or(4096),
        blocks: [stat.f_blocks, stat.f_bfree, stat.f_bavail],
        files: [stat.f_files, stat.f_ffree],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_attributes_is_listed_as_special() {
        let itself = of(rustix::fs::CWD, b".").unwrap();
        assert_eq!(listed(Ok(itself), 7), Some(itself));
        assert_eq!(listed(Err(Errno::NOENT), 7), None);
        for error in [Errno::NOTCONN, Errno::ACCESS, Errno::IO] {
            let entry = listed(Err(error), 7).unwrap();
            assert_eq!((entry.attributes.kind, entry.attributes.mode), (Kind::Special, 0));
            assert!(entry.id > 1 && Some(entry.id) != listed(Err(error), 8).map(|other| other.id));
        }
    }
}
