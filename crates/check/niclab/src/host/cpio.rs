//! Archives that the kernel unpacks into its first file system (`newc`, the kernel's
//! `early-userspace/buffer-format.rst`).

/// An archive under construction. Every directory must come before what is in it.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inodes: u32,
}

/// File types and modes, as in inode(7).
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;
const CHARACTERS: u32 = 0o020_600;

impl Archive {
    /// Adds a directory.
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, [0, 0], &[]);
    }

    /// Adds a file.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PLAIN, [0, 0], content);
    }

    /// Adds a file that can be run.
    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, [0, 0], content);
    }

    /// Adds a character device by its numbers.
    pub fn device(&mut self, name: &str, numbers: [u32; 2]) {
        self.entry(name, CHARACTERS, numbers, &[]);
    }

    /// The bytes. Several archives may stand one behind the other.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, [0, 0], &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: [u32; 2], content: &[u8]) {
        self.inodes += 1;
        let size = u32::try_from(content.len()).expect("a file of less than 4 GiB");
        let name = name.trim_start_matches('/');
        let fields = [
            self.inodes,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            size,
            0,
            0,
            device[0],
            device[1],
            name.len() as u32 + 1,
            0, // checksum, unused in this form
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Headers and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_begins_every_part_at_a_multiple_of_four_and_ends_with_its_trailer() {
        let mut archive = Archive::default();
        archive.directory("/etc");
        archive.file("/etc/a", b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        let at = bytes.windows(5).position(|window| window == b"hello").unwrap();
        assert_eq!(at % 4, 0);
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }
}
