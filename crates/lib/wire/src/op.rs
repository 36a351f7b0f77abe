//! Operations on messages and on remote memory (`PROTOCOL.md` §9). The payload of an Op frame is
//! one operation after the other. Each has its own header in front of its data.
//!
//! ```text
//!   code (1)  flags (1)  bytes of data (2)  id (4)  fields of the code  data
//! ```
//!
//! This module only checks that all bytes are there, not that the operation makes sense.

mod change;

use crate::{Discard, Pieces};
pub use change::{Action, Change, MOST_FETCHED, Number};

/// Bytes in front of the fields.
const FIXED: usize = 8;

/// Longest header of an operation in bytes.
pub const MAX_OP_HEADER: usize = FIXED + 32;

/// One operation without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A whole message.
    Eager {
        /// Its tag and data word.
        label: Label,
    },
    /// The first part of a message. The others follow; no other message of the same sender comes
    /// between.
    First {
        /// Its tag and data word.
        label: Label,
        /// Bytes in the whole message.
        total: u32,
    },
    /// The next part of the message that is being sent.
    More,
    /// A message that waits at its sender until the receiver pulls it.
    Offer {
        /// The sender's number for it.
        id: u32,
        /// Its tag and data word.
        label: Label,
        /// Bytes in the whole message.
        total: u32,
    },
    /// The same to a process of the sender's node, which may read the message in the sender's
    /// memory.
    OfferAt {
        /// The sender's number for it.
        id: u32,
        /// Its tag and data word.
        label: Label,
        /// Bytes in the whole message.
        total: u32,
        /// Where they begin, in the address space of the sender's process.
        at: u64,
    },
    /// The receiver has read the first bytes of a message that was offered with an address. The
    /// answer is a [`Done`](Self::Done).
    Taken {
        /// The receiver's number, which the answer repeats.
        id: u32,
        /// The sender's number.
        offer: u32,
        /// How many.
        len: u32,
    },
    /// Asks for the first bytes of an offered message.
    Pull {
        /// The receiver's number, which the answer repeats.
        id: u32,
        /// The sender's number.
        offer: u32,
        /// How many.
        len: u32,
    },
    /// Asks for bytes of a registered memory.
    Read {
        /// The reader's number, which the answer repeats.
        id: u32,
        /// The memory.
        key: u64,
        /// First byte.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Some of the bytes that a Pull or Read asked for, in order.
    Reply {
        /// The number of the Pull or Read.
        id: u32,
        /// Offset of the first byte within the bytes asked for.
        at: u32,
    },
    /// Puts bytes into a registered memory.
    Write {
        /// The writer's number, which the answer repeats.
        id: u32,
        /// The memory.
        key: u64,
        /// Where the whole write begins.
        offset: u64,
        /// Bytes in the whole write.
        total: u32,
        /// Offset of the first byte within the whole write.
        at: u32,
        /// The owner of the memory gets this when all bytes are there.
        notice: Option<u64>,
    },
    /// Changes numbers of a registered memory, each atomically. The data are the operands.
    Atomic {
        /// The sender's number, which the answer repeats.
        id: u32,
        /// The memory.
        key: u64,
        /// First byte.
        offset: u64,
        /// What to do with them.
        change: Change,
    },
    /// Answers a Write, Atomic or Taken, or refuses a Read. The data are the former values, if the
    /// Atomic fetches.
    Done {
        /// The number of the operation that it answers.
        id: u32,
        /// The result.
        status: Status,
    },
    /// What the receiver of this operation may have its sender keep from now on (`PROTOCOL.md` 9.3
    /// to 9.5).
    Limit {
        /// Bytes that it may send unasked, counted from the beginning of the session, modulo 2^32.
        until: u32,
        /// Offers that may wait for their Pull, and operations that may wait for their answer.
        entries: u32,
    },
}

/// The tag and the data word of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label {
    /// Receives match by it.
    pub tag: u64,
    /// Only receives of untagged messages match it. Such a message may still have a tag: the two
    /// classes have separate spaces of tags.
    pub untagged: bool,
    /// The sender's word, which the receiver gets with the message.
    pub data: Option<u64>,
}

impl Label {
    /// That of an untagged message.
    pub const UNTAGGED: Self = Self { tag: 0, untagged: true, data: None };

    /// The same with a word for the receiver.
    #[must_use]
    pub const fn with_data(self, data: u64) -> Self {
        Self { data: Some(data), ..self }
    }

    /// Bytes behind the tag.
    const fn more(self) -> usize {
        if self.data.is_some() { 8 } else { 0 }
    }

    const fn flags(self) -> u8 {
        (if self.untagged { UNTAGGED } else { 0 }) | (if self.data.is_some() { DATA } else { 0 })
    }
}

impl From<u64> for Label {
    /// That of a tagged message.
    fn from(tag: u64) -> Self {
        Self { tag, untagged: false, data: None }
    }
}

/// The result of an operation on remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// No memory is registered under this key, or not any more.
    Key = 1,
    /// Some of the bytes are outside the memory.
    Bounds = 2,
    /// The memory was not registered for this access.
    Rights = 3,
    /// The owner has too many notices that its program did not take, or the peer has named too many
    /// wrong keys.
    Busy = 4,
}

impl Status {
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Ok,
            1 => Self::Key,
            2 => Self::Bounds,
            3 => Self::Rights,
            4 => Self::Busy,
            _ => return None,
        })
    }
}

/// Flag of Eager, First and both Offers: the message is untagged.
const UNTAGGED: u8 = 1;
/// Flag of Eager, First and both Offers: eight bytes for the receiver follow the tag.
const DATA: u8 = 2;

const EAGER: u8 = 1;
const FIRST: u8 = 2;
const MORE: u8 = 3;
const OFFER: u8 = 4;
const PULL: u8 = 5;
const READ: u8 = 6;
const REPLY: u8 = 7;
const WRITE: u8 = 8;
const WRITE_NOTICE: u8 = 9;
const ATOMIC: u8 = 10;
const DONE: u8 = 11;
const LIMIT: u8 = 12;
const OFFER_AT: u8 = 13;
const TAKEN: u8 = 14;

impl Op {
    /// Bytes of the header in front of the data.
    pub const fn header_len(&self) -> usize {
        FIXED
            + match self {
                Self::More | Self::Done { .. } => 0,
                Self::Reply { .. } => 4,
                Self::Pull { .. } | Self::Taken { .. } | Self::Limit { .. } => 8,
                Self::Eager { label } => 8 + label.more(),
                Self::First { label, .. } | Self::Offer { label, .. } => 12 + label.more(),
                Self::OfferAt { label, .. } => 20 + label.more(),
                Self::Read { .. } | Self::Atomic { .. } => 20,
                Self::Write { notice: None, .. } => 24,
                Self::Write { .. } => 32,
            }
    }

    /// Writes the header of an operation with `len` bytes of data behind it and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`header_len`](Self::header_len).
    pub fn write(&self, len: u16, out: &mut [u8]) -> usize {
        let mut writer = FieldWriter { out: &mut out[..self.header_len()], at: 4 };
        let (code, flags) = match *self {
            Self::Eager { label } => {
                writer.u32(0);
                writer.label(label);
                (EAGER, label.flags())
            }
            Self::First { label, total } => {
                writer.u32(0);
                writer.label(label);
                writer.u32(total);
                (FIRST, label.flags())
            }
            Self::More => {
                writer.u32(0);
                (MORE, 0)
            }
            Self::Offer { id, label, total } => {
                writer.u32(id);
                writer.label(label);
                writer.u32(total);
                (OFFER, label.flags())
            }
            Self::OfferAt { id, label, total, at } => {
                writer.u32(id);
                writer.label(label);
                writer.u32(total);
                writer.u64(at);
                (OFFER_AT, label.flags())
            }
            Self::Pull { id, offer, len } => {
                writer.u32(id);
                writer.u32(offer);
                writer.u32(len);
                (PULL, 0)
            }
            Self::Taken { id, offer, len } => {
                writer.u32(id);
                writer.u32(offer);
                writer.u32(len);
                (TAKEN, 0)
            }
            Self::Read { id, key, offset, len } => {
                writer.u32(id);
                writer.u64(key);
                writer.u64(offset);
                writer.u32(len);
                (READ, 0)
            }
            Self::Reply { id, at } => {
                writer.u32(id);
                writer.u32(at);
                (REPLY, 0)
            }
            Self::Write { id, key, offset, total, at, notice } => {
                writer.u32(id);
                writer.u64(key);
                writer.u64(offset);
                writer.u32(total);
                writer.u32(at);
                match notice {
                    None => (WRITE, 0),
                    Some(notice) => {
                        writer.u64(notice);
                        (WRITE_NOTICE, 0)
                    }
                }
            }
            Self::Atomic { id, key, offset, change } => {
                writer.u32(id);
                writer.u64(key);
                writer.u64(offset);
                writer.put(&change.to_bytes());
                (ATOMIC, 0)
            }
            Self::Done { id, status } => {
                writer.u32(id);
                (DONE, status as u8)
            }
            Self::Limit { until, entries } => {
                writer.u32(0);
                writer.u32(until);
                writer.u32(entries);
                (LIMIT, 0)
            }
        };
        let end = writer.at;
        out[0] = code;
        out[1] = flags;
        out[2..4].copy_from_slice(&len.to_be_bytes());
        end
    }

    /// Takes the next operation off a payload, and its data. `None` at the end of the payload.
    #[inline]
    pub fn take<'a>(payload: &mut Pieces<'a>) -> Result<Option<(Self, Pieces<'a>)>, Discard> {
        if payload.is_empty() {
            return Ok(None);
        }
        let copy;
        let front = match payload.front(MAX_OP_HEADER) {
            Some(front) => front,
            None => {
                copy = payload.copy_front::<MAX_OP_HEADER>();
                &copy[..payload.len().min(MAX_OP_HEADER)]
            }
        };
        let (op, header, len) = Self::parse(front)?;
        payload.skip(header);
        let data = payload.split(len).ok_or(Discard::Malformed)?;
        Ok(Some((op, data)))
    }

    /// The operation whose header is at the front, the length of that header, and the bytes of data
    /// behind it.
    #[inline(always)]
    fn parse(front: &[u8]) -> Result<(Self, usize, usize), Discard> {
        let mut reader = FieldReader(front);
        let [code, flags, high, low] = reader.take::<4>()?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        let id = reader.u32()?;
        let op = match code {
            EAGER => Self::Eager { label: reader.label(flags)? },
            FIRST => Self::First { label: reader.label(flags)?, total: reader.u32()? },
            MORE => Self::More,
            OFFER => Self::Offer { id, label: reader.label(flags)?, total: reader.u32()? },
            OFFER_AT => Self::OfferAt {
                id,
                label: reader.label(flags)?,
                total: reader.u32()?,
                at: reader.u64()?,
            },
            PULL => Self::Pull { id, offer: reader.u32()?, len: reader.u32()? },
            TAKEN => Self::Taken { id, offer: reader.u32()?, len: reader.u32()? },
            READ => {
                Self::Read { id, key: reader.u64()?, offset: reader.u64()?, len: reader.u32()? }
            }
            REPLY => Self::Reply { id, at: reader.u32()? },
            WRITE | WRITE_NOTICE => Self::Write {
                id,
                key: reader.u64()?,
                offset: reader.u64()?,
                total: reader.u32()?,
                at: reader.u32()?,
                notice: if code == WRITE { None } else { Some(reader.u64()?) },
            },
            ATOMIC => Self::Atomic {
                id,
                key: reader.u64()?,
                offset: reader.u64()?,
                change: Change::from_bytes(reader.take()?).ok_or(Discard::Malformed)?,
            },
            DONE => Self::Done { id, status: Status::from_bits(flags).ok_or(Discard::Malformed)? },
            LIMIT => Self::Limit { until: reader.u32()?, entries: reader.u32()? },
            _ => return Err(Discard::Malformed),
        };
        Ok((op, front.len() - reader.0.len(), len))
    }
}

/// Checks the payload of an Op frame: one operation at least, nothing behind the last.
pub fn check(mut payload: Pieces) -> Result<(), Discard> {
    if payload.is_empty() {
        return Err(Discard::Malformed);
    }
    while Op::take(&mut payload)?.is_some() {}
    Ok(())
}

struct FieldWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl FieldWriter<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..][..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    fn label(&mut self, label: Label) {
        self.u64(label.tag);
        if let Some(data) = label.data {
            self.u64(data);
        }
    }
}

struct FieldReader<'a>(&'a [u8]);

impl FieldReader<'_> {
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Discard> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Discard::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    #[inline(always)]
    fn u32(&mut self) -> Result<u32, Discard> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    #[inline(always)]
    fn u64(&mut self) -> Result<u64, Discard> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    #[inline(always)]
    fn label(&mut self, flags: u8) -> Result<Label, Discard> {
        if flags & !(UNTAGGED | DATA) != 0 {
            return Err(Discard::Malformed);
        }
        let tag = self.u64()?;
        let data = if flags & DATA == 0 { None } else { Some(self.u64()?) };
        Ok(Label { tag, untagged: flags & UNTAGGED != 0, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn ops() -> impl Strategy<Value = Op> {
        let change =
            any::<[u8; 4]>().prop_filter_map("no such change", |[action, number, count, fetch]| {
                Change::from_bytes([action % 19, number % 10, count % 33, fetch % 2])
            });
        let label = || {
            any::<(u64, bool, Option<u64>)>().prop_map(|(tag, untagged, data)| Label {
                tag,
                untagged,
                data,
            })
        };
        let status = (0_u8..5).prop_map(|bits| Status::from_bits(bits).unwrap());
        prop_oneof![
            label().prop_map(|label| Op::Eager { label }),
            (label(), any::<u32>()).prop_map(|(label, total)| Op::First { label, total }),
            Just(Op::More),
            (any::<(u32, u32)>(), label()).prop_map(|((id, total), label)| Op::Offer {
                id,
                label,
                total
            }),
            (any::<(u32, u32, u64)>(), label()).prop_map(|((id, total, at), label)| Op::OfferAt {
                id,
                label,
                total,
                at
            }),
            any::<(u32, u32, u32)>().prop_map(|(id, offer, len)| Op::Taken { id, offer, len }),
            any::<(u32, u32, u32)>().prop_map(|(id, offer, len)| Op::Pull { id, offer, len }),
            any::<(u32, u64, u64, u32)>().prop_map(|(id, key, offset, len)| Op::Read {
                id,
                key,
                offset,
                len
            }),
            any::<(u32, u32)>().prop_map(|(id, at)| Op::Reply { id, at }),
            any::<(u32, u64, u64, u32, u32, Option<u64>)>().prop_map(
                |(id, key, offset, total, at, notice)| Op::Write {
                    id,
                    key,
                    offset,
                    total,
                    at,
                    notice
                }
            ),
            (any::<(u32, u64, u64)>(), change).prop_map(|((id, key, offset), change)| Op::Atomic {
                id,
                key,
                offset,
                change
            }),
            (any::<u32>(), status).prop_map(|(id, status)| Op::Done { id, status }),
            any::<(u32, u32)>().prop_map(|(until, entries)| Op::Limit { until, entries }),
        ]
    }

    #[test]
    fn only_a_word_for_the_receiver_costs_bytes() {
        for label in [Label::from(7), Label::UNTAGGED] {
            assert_eq!(Op::Eager { label }.header_len(), 16);
            assert_eq!(Op::Eager { label: label.with_data(1) }.header_len(), 24);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            all in prop::collection::vec((ops(), prop::collection::vec(any::<u8>(), 0..40)), 1..20),
            first: prop::sample::Index,
            second: prop::sample::Index,
        ) {
            let mut payload = Vec::new();
            for (op, data) in &all {
                let mut header = [0; MAX_OP_HEADER];
                let len = op.write(data.len() as u16, &mut header);
                prop_assert_eq!(len, op.header_len());
                payload.extend_from_slice(&header[..len]);
                payload.extend_from_slice(data);
            }
            // At whatever bytes a receiver's segments end.
            let cuts = (first.index(payload.len()), second.index(payload.len()));
            let (a, b) = (cuts.0.min(cuts.1), cuts.0.max(cuts.1));
            let rest = [&payload[a..b], &payload[b..]];
            let mut left = Pieces::new(&payload[..a], &rest);
            prop_assert_eq!(check(left), Ok(()));
            for (op, data) in &all {
                let (read, place) = Op::take(&mut left).unwrap().unwrap();
                prop_assert_eq!((read, place.collect::<Vec<_>>().concat()), (*op, data.clone()));
            }
            prop_assert!(Op::take(&mut left).unwrap().is_none());
            let short = check(payload[..payload.len() - 1].into());
            prop_assert_eq!(short, Err(Discard::Malformed));
        }

        #[test]
        fn flags_that_nobody_knows_are_malformed(
            flags in 4_u8..,
            code in prop::sample::select(vec![EAGER, FIRST, OFFER, OFFER_AT]),
        ) {
            let mut bytes = [0; 32];
            (bytes[0], bytes[1]) = (code, flags);
            prop_assert_eq!(check(bytes[..].into()), Err(Discard::Malformed));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(bytes[..].into());
        }
    }
}
