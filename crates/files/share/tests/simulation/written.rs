//! Files in memory that a copy writes.

use crate::world::{Files, Node, attributes};
use gigae_share::{Attributes, Fault, Kind, Sink, digest, valid_name};
use oorandom::Rand32;
use std::collections::BTreeMap;

/// Where files go. What is partial stays when the client is restarted.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) files: Files,
    partial: BTreeMap<(Vec<u8>, u64), Vec<u8>>,
    open: BTreeMap<u32, (Vec<u8>, u64)>,
    /// Bytes until the disk is full.
    pub(crate) room: Option<usize>,
    /// Whether each path was checked.
    pub(crate) resumed: u64,
}

impl Written {
    pub(crate) fn restart(&mut self) {
        self.open.clear();
    }

    /// What is left in a damaged state by a machine that lost power.
    pub(crate) fn damage(&mut self, rng: &mut Rand32) {
        for data in self.partial.values_mut().filter(|data| !data.is_empty()) {
            let at = rng.rand_range(0..data.len() as u32) as usize;
            data[at] ^= 1;
        }
    }

    fn check(&self, path: &[u8]) {
        let valid = path.is_empty() || path.split(|&byte| byte == b'/').all(valid_name);
        assert!(valid, "a path that leads elsewhere: {}", gigae_share::printable(path));
        if let Some(parent) = path.iter().rposition(|&byte| byte == b'/') {
            let kind = self.files.get(&path[..parent]).map(|node| node.attributes.kind);
            assert_eq!(kind, Some(Kind::Directory), "nothing is written through anything else");
        }
    }

    fn use_up(&mut self, len: usize) -> Result<(), Fault> {
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(len).ok_or(Fault::Full)?;
        }
        Ok(())
    }
}

impl Sink for Written {
    fn make_directory(&mut self, path: &[u8]) -> Result<bool, Fault> {
        self.check(path);
        match self.files.get(path).map(|node| node.attributes.kind) {
            Some(Kind::Directory) => Ok(false),
            Some(_) => Err(Fault::WrongKind),
            None => {
                let attributes = attributes(Kind::Directory, 0, 0);
                self.files.insert(path.to_vec(), Node { attributes, data: Vec::new() });
                Ok(true)
            }
        }
    }

    fn finish_directory(&mut self, path: &[u8], attributes: &Attributes) -> Result<(), Fault> {
        self.files.get_mut(path).ok_or(Fault::NotFound)?.attributes = *attributes;
        Ok(())
    }

    fn symlink(
        &mut self,
        path: &[u8],
        target: &[u8],
        attributes: &Attributes,
    ) -> Result<(), Fault> {
        self.check(path);
        if self.make_directory(path) == Ok(false) {
            return Err(Fault::WrongKind);
        }
        let node = Node { attributes: *attributes, data: target.to_vec() };
        self.files.insert(path.to_vec(), node);
        Ok(())
    }

    fn has(&mut self, path: &[u8], wanted: &Attributes) -> bool {
        self.files.get(path).is_some_and(|node| {
            let has = node.attributes;
            (has.kind, has.size, has.seconds) == (wanted.kind, wanted.size, wanted.seconds)
        })
    }

    fn store(&mut self, path: &[u8], attributes: &Attributes, data: &[u8]) -> Result<(), Fault> {
        self.check(path);
        self.use_up(data.len())?;
        let kind = self.files.get(path).map(|node| node.attributes.kind);
        if kind == Some(Kind::Directory) {
            return Err(Fault::WrongKind);
        }
        self.files.insert(path.to_vec(), Node { attributes: *attributes, data: data.to_vec() });
        Ok(())
    }

    fn begin(&mut self, file: u32, path: &[u8], attributes: &Attributes) -> Result<u64, Fault> {
        self.check(path);
        if self.files.get(path).is_some_and(|node| node.attributes.kind == Kind::Directory) {
            return Err(Fault::WrongKind);
        }
        let key = (path.to_vec(), attributes.version);
        let left = self.partial.entry(key.clone()).or_default().len() as u64;
        self.open.insert(file, key);
        Ok(left)
    }

    fn digest(&mut self, file: u32, offset: u64, len: usize) -> Result<u128, Fault> {
        let data = &self.partial[&self.open[&file]];
        let part = data.get(offset as usize..).and_then(|data| data.get(..len));
        self.resumed += len as u64;
        part.map(digest).ok_or(Fault::Changed)
    }

    fn write(&mut self, file: u32, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.use_up(data.len())?;
        let partial = self.partial.get_mut(&self.open[&file]).unwrap();
        let end = offset as usize + data.len();
        if partial.len() < end {
            partial.resize(end, 0);
        }
        partial[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn finish(&mut self, file: u32, attributes: &Attributes) -> Result<(), Fault> {
        let key = self.open.remove(&file).unwrap();
        let mut data = self.partial.remove(&key).unwrap();
        // A lying server may name any length; nothing more than a number comes of it here.
        data.resize((attributes.size as usize).min(16 << 20), 0);
        self.files.insert(key.0, Node { attributes: *attributes, data });
        Ok(())
    }

    fn leave(&mut self, file: u32, _fault: Option<Fault>) {
        self.open.remove(&file);
    }
}
