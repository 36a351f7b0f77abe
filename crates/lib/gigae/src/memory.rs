//! Memory of the program in the hands of an operation.

use gigae_shm::SharedBuffer;
use gigae_transfer::Bytes;
use std::fmt;

/// Memory that an operation copies from or to, handed over to the endpoint until the operation is
/// completed.
pub enum Memory {
    /// The program's own bytes.
    Vec(Vec<u8>),
    /// Memory that processes of this node can map. While it is registered, a read or write of a
    /// neighbour ([`Options::local`](crate::Options::local)) is one copy by that process, without
    /// this one.
    Shared(SharedBuffer),
    /// Anything else that can be copied from and to, such as memory of a C program.
    Other(Box<dyn Bytes + Send>),
}

impl Memory {
    /// The bytes, if they were given as such.
    pub fn into_vec(self) -> Option<Vec<u8>> {
        match self {
            Self::Vec(bytes) => Some(bytes),
            Self::Shared(_) | Self::Other(_) => None,
        }
    }
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Vec(bytes)
    }
}

impl From<SharedBuffer> for Memory {
    fn from(shared: SharedBuffer) -> Self {
        Self::Shared(shared)
    }
}

/// Of shared memory, no bytes are used in place: a neighbour may write there at any time.
impl Bytes for Memory {
    fn len(&self) -> usize {
        match self {
            Self::Vec(bytes) => bytes.len(),
            Self::Shared(shared) => shared.len(),
            Self::Other(other) => other.len(),
        }
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        match self {
            Self::Vec(bytes) => bytes.read(at, out),
            Self::Shared(shared) => shared.read(at, out),
            Self::Other(other) => other.read(at, out),
        }
    }

    fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        match self {
            Self::Vec(bytes) => bytes.slice(at, len),
            Self::Shared(_) => None,
            Self::Other(other) => other.slice(at, len),
        }
    }

    fn is_lendable(&self) -> bool {
        match self {
            Self::Vec(bytes) => bytes.is_lendable(),
            Self::Shared(_) => false,
            Self::Other(other) => other.is_lendable(),
        }
    }

    fn slice_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        match self {
            Self::Vec(bytes) => bytes.slice_mut(at, len),
            Self::Shared(_) => None,
            Self::Other(other) => other.slice_mut(at, len),
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        match self {
            Self::Vec(own) => own.write(at, bytes),
            Self::Shared(shared) => shared.write(at, bytes),
            Self::Other(other) => other.write(at, bytes),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", Bytes::len(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pooled;

    impl Bytes for Pooled {
        fn len(&self) -> usize {
            0
        }

        fn read(&self, _at: usize, _out: &mut [u8]) {}

        fn write(&mut self, _at: usize, _bytes: &[u8]) {}
    }

    #[test]
    fn only_memory_that_says_so_is_lent() {
        assert!(Memory::from(vec![0; 8]).is_lendable());
        assert!(!Memory::Other(Box::new(Pooled)).is_lendable());
    }
}
