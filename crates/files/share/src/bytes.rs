//! Numbers and byte strings in messages, all little-endian.

/// The message ends too early, or has a value that it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is malformed")]
pub struct Malformed;

/// What is left of a message.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// A byte string of at most 65,535 bytes behind its length.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u16()?;
        self.take(len.into())
    }

    /// Nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends to a message.
pub(crate) trait Write {
    fn put(&mut self, bytes: &[u8]);

    /// A byte string; its callers have checked the length.
    fn put_string(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.put(&len.to_le_bytes());
        self.put(&bytes[..len.into()]);
    }
}

impl Write for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
