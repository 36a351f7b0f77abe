//! Why a request failed: the kernel's number and, since Linux 4.12, its own words.

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK_TLVS, NLM_F_CAPPED, NetlinkHeader, NlasIterator,
};
use rustix::io::Errno;
use std::{fmt, io};

/// linux/netlink.h, `NLMSGERR_ATTR_MSG`: the attribute with the kernel's words.
const MESSAGE: u16 = 1;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// The numbers that an error may have (the kernel's linux/err.h, `MAX_ERRNO`).
const ERRNOS: std::ops::Range<i32> = 1..4096;

/// A request failed.
#[derive(Debug)]
pub struct Error {
    errno: Errno,
    text: Option<String>,
}

impl Error {
    /// The kernel's number; `EPROTO` for an answer that cannot be read.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// The answer is none that the kernel should give.
    pub(crate) fn malformed(text: impl fmt::Display) -> Self {
        Self { errno: Errno::PROTO, text: Some(text.to_string()) }
    }

    /// `None` if the kernel says that all is well.
    pub(crate) fn of(header: &NetlinkHeader, error: &ErrorMessage) -> Option<Self> {
        let number = error.code?.get().checked_neg().filter(|number| ERRNOS.contains(number));
        let Some(number) = number else { return Some(Self::malformed("an unknown error")) };
        let text = words(header.flags, &error.header);
        Some(Self { errno: Errno::from_raw_os_error(number), text })
    }
}

/// The kernel's words. They follow the refused request, of which `echo` has the header at least.
fn words(flags: u16, echo: &[u8]) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let length = u32::from_ne_bytes(*echo.first_chunk()?) as usize;
    let skip = if flags & NLM_F_CAPPED != 0 { HEADER } else { length.next_multiple_of(4) };
    let attributes = NlasIterator::new(echo.get(skip..)?);
    let found = attributes.map_while(Result::ok).find(|attribute| attribute.kind() == MESSAGE)?;
    let text = String::from_utf8_lossy(found.value()).trim_end_matches('\0').to_owned();
    Some(text).filter(|text| !text.is_empty())
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self { errno, text: None }
    }
}

/// Keeps the number as the raw one, unless the kernel said more. `EINVAL` is then no
/// [`InvalidInput`](io::ErrorKind::InvalidInput): the request was ours, not the caller's.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let plain = io::Error::from(error.errno);
        match (&error.text, error.errno) {
            (None, _) => plain,
            (Some(_), Errno::INVAL) => io::Error::other(error),
            (Some(_), _) => io::Error::new(plain.kind(), error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "{}: {text}", self.errno),
            None => self.errno.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_follow_the_request() {
        let header = [11_u16.to_ne_bytes(), MESSAGE.to_ne_bytes()].concat();
        let attribute = [&header[..], b"busy!!\0\0"].concat();
        let mut echo = [0; 24];
        echo[..4].copy_from_slice(&24_u32.to_ne_bytes());
        let whole = [&echo[..], &attribute].concat();
        assert_eq!(words(NLM_F_ACK_TLVS, &whole).as_deref(), Some("busy!!"));
        let capped = [&echo[..16], &attribute].concat();
        assert_eq!(words(NLM_F_ACK_TLVS | NLM_F_CAPPED, &capped).as_deref(), Some("busy!!"));
        assert_eq!(words(0, &whole), None);
        for length in 0..whole.len() - 1 {
            assert_eq!(words(NLM_F_ACK_TLVS, &whole[..length]), None, "{length} bytes");
        }
    }
}
