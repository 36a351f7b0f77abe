//! The files that a push lets the server read: those that were named, and what is in them.

use crate::export::Export;
use gigae_share::{Attributes, Entry, Fault, Listed, Source};
use rustix::fd::OwnedFd;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// One of the files that were named.
#[derive(Debug)]
pub struct Pick {
    /// The name that it gets in a directory. `None`: its entries go there.
    pub name: Option<Vec<u8>>,
    /// The directory itself, or the one that the file is in.
    export: Export,
    /// The file in that directory; `None` if the directory is meant.
    file: Option<Vec<u8>>,
}

impl Pick {
    /// Opens what has this path: a directory, or else the directory that it is in. A symlink at its
    /// end is not followed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let stat = std::fs::symlink_metadata(path)?;
        let name = match path.components().next_back() {
            Some(Component::Normal(name)) => Some(name.as_bytes().to_vec()),
            _ => None,
        };
        if stat.is_dir() {
            return Ok(Self { name, export: Export::open(path)?, file: None });
        }
        let Some(name) = name else { return Err(ErrorKind::InvalidInput.into()) };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self { name: Some(name.clone()), export: Export::open(parent)?, file: Some(name) })
    }
}

/// Several files that were named. The path of each begins with its number.
#[derive(Debug)]
pub struct Picks(Vec<Pick>);

impl Picks {
    /// Those files.
    pub fn new(picks: Vec<Pick>) -> Self {
        Self(picks)
    }

    /// The path of the one with this number.
    pub fn path(number: usize) -> Vec<u8> {
        number.to_string().into_bytes()
    }

    fn find<'a>(&mut self, path: &'a [u8]) -> Result<(&mut Pick, &'a [u8]), Fault> {
        let (number, rest) = match path.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (path, &[][..]),
        };
        let number = str::from_utf8(number).ok().and_then(|text| text.parse::<usize>().ok());
        Ok((number.and_then(|n| self.0.get_mut(n)).ok_or(Fault::NotFound)?, rest))
    }

    /// The export, and the path in it. Of a file only the file itself.
    fn any(&mut self, path: &[u8]) -> Result<(&mut Export, Vec<u8>), Fault> {
        let (pick, rest) = self.find(path)?;
        match (&pick.file, rest) {
            (Some(name), []) => Ok((&mut pick.export, name.clone())),
            (Some(_), _) => Err(Fault::NotFound),
            (None, rest) => Ok((&mut pick.export, rest.to_vec())),
        }
    }

    /// The same for what only a directory has: a file that was named must not have become one.
    fn directory_only<'a>(&mut self, path: &'a [u8]) -> Result<(&mut Export, &'a [u8]), Fault> {
        let (pick, rest) = self.find(path)?;
        match pick.file {
            Some(_) => Err(Fault::NotFound),
            None => Ok((&mut pick.export, rest)),
        }
    }
}

impl Source for Picks {
    type Directory = OwnedFd;

    fn look(&mut self, path: &[u8]) -> Result<(Attributes, Vec<u8>), Fault> {
        let (export, path) = self.any(path)?;
        export.look(&path)
    }

    fn list(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Listed, Fault> {
        let (export, path) = self.directory_only(path)?;
        export.list(path, from, take)
    }

    fn directory(&mut self, path: &[u8]) -> Result<OwnedFd, Fault> {
        let (export, path) = self.directory_only(path)?;
        export.directory(path)
    }

    fn small(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Attributes, Fault> {
        self.0.first_mut().ok_or(Fault::NotFound)?.export.small(directory, name, most, out)
    }

    fn read(
        &mut self,
        path: &[u8],
        version: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let (export, path) = self.any(path)?;
        export.read(&path, version, offset, out)
    }

    fn data(&mut self, path: &[u8], version: u64, from: u64) -> Result<Option<(u64, u64)>, Fault> {
        let (export, path) = self.any(path)?;
        export.data(&path, version, from)
    }
}
