//! The GigaE header and the payloads of control frames (`PROTOCOL.md` §1 and §2).

use crate::checksum;
use crate::{Epoch, Pieces, SeqNo};
use core::fmt;

/// The version this crate speaks. Its place in the header (byte 4, high half) never changes.
pub const VERSION: u8 = 3;

/// Bytes in the GigaE header: with MTU 1500 this leaves 1,468 bytes, GigaE PM II's message size.
pub const HEADER_LEN: usize = 32;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// One message; takes a sequence number.
    Data = 1,
    /// Only acknowledgement and credit; the payload is an [`AckReport`].
    Ack = 2,
    /// Proposes a session; the payload is a [`crate::Handshake`].
    Hello = 3,
    /// Answers a Hello with what the proposer must repeat; the payload is a [`crate::Handshake`].
    HelloAck = 4,
    /// Says that the session with this `dst_epoch` is not known here.
    Reset = 5,
    /// Several messages, see [`crate::batch`]; takes one sequence number.
    Batch = 6,
    /// Operations, see [`crate::op`]; takes one sequence number.
    Op = 7,
    /// Asks all nodes which endpoints there are. Belongs to no session.
    Who = 8,
    /// The answer to a Who; the payload is a [`crate::Here`].
    Here = 9,
    /// Asks whether a frame of this length arrives.
    Probe = 10,
    /// Says that a Probe has arrived.
    Echo = 11,
    /// Repeats the contents of the HelloAck, which brings the session up at the other end; the
    /// payload is a [`crate::Handshake`].
    Confirm = 12,
    /// A part of a bulk frame that cannot go by the socket any more, see [`crate::PartHeader`].
    Part = 13,
}

impl Kind {
    /// Whether the frame carries messages or operations, and so has a sequence number.
    #[inline]
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::Batch | Self::Op)
    }

    /// Whether the frame belongs to a session that is up: both epochs must be known.
    #[inline]
    pub const fn is_of_session(self) -> bool {
        matches!(
            self,
            Self::Data | Self::Batch | Self::Op | Self::Ack | Self::Probe | Self::Echo | Self::Part
        )
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Hello,
            4 => Self::HelloAck,
            5 => Self::Reset,
            6 => Self::Batch,
            7 => Self::Op,
            8 => Self::Who,
            9 => Self::Here,
            10 => Self::Probe,
            11 => Self::Echo,
            12 => Self::Confirm,
            13 => Self::Part,
            _ => return None,
        })
    }
}

/// One-bit marks of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// No mark.
    pub const NONE: Self = Self(0);
    /// The sender asks for an acknowledgement at once, for example because it probes whether a GO
    /// was lost. On a Reset: the frame is a graceful close, its
    /// acknowledgement counts, and it wants an answer.
    pub const ASK: Self = Self(1);
    /// The checksum covers only the header.
    pub const HEADER_ONLY: Self = Self(2);
    /// On an Ack: it answers an Ack or Confirm with [`ASK`](Self::ASK) that came by the same path.
    /// On a Reset: it answers a Confirm, so the session is over.
    pub const ANSWER: Self = Self(4);
    /// On a data frame: its sender is stopped now, because it has no credit for another one, and
    /// the network would carry more.
    pub const STOPPED: Self = Self(8);

    /// The receiver of this frame has no credit for all that it wants to send, and need not ask:
    /// this end knows and gives credit as the network allows.
    pub const WAIT: Self = Self(16);

    /// The sender of this frame keeps its last credit for short messages. More credit is for the
    /// long one that waits.
    pub const KEEP: Self = Self(32);

    /// The receiver of this frame may [keep](Self::KEEP) its last credit for short messages: there
    /// is room for that here.
    pub const ROOM: Self = Self(64);

    /// On a data frame: the last one of its sender went to another node. So it does not have its
    /// link for the receiver of this frame alone.
    pub const DIVIDED: Self = Self(128);

    /// On a frame of operations: they may be carried out before those of frames that were sent
    /// earlier and have not come. Those only bring bytes of messages that were asked for.
    pub const EARLY: Self = Self(1 << 15);

    /// The lowest of the four bits that hold the [demand](Self::demand).
    const DEMAND_SHIFT: u32 = 8;
    /// The largest [demand](Self::demand).
    pub const MOST_DEMAND: u8 = 15;

    /// The marks and the number that say something of credit for several senders.
    const CREDIT: u16 = Self::WAIT.0
        | Self::KEEP.0
        | Self::ROOM.0
        | (Self::MOST_DEMAND as u16) << Self::DEMAND_SHIFT;

    /// Whether the sender of this frame shares its credit among several: it says so by
    /// [`WAIT`](Self::WAIT) or [`ROOM`](Self::ROOM).
    #[inline]
    pub const fn shares_credit(self) -> bool {
        self.has_any(Self::WAIT.with(Self::ROOM))
    }

    /// How many frames the sender would send if it had more credit: 0 if its credit is enough, else
    /// the number of bits of that number of frames, [`MOST_DEMAND`](Self::MOST_DEMAND) at most.
    #[inline]
    pub const fn demand(self) -> u8 {
        (self.0 >> Self::DEMAND_SHIFT) as u8 & Self::MOST_DEMAND
    }

    /// The same marks with this [demand](Self::demand), where none was set.
    #[inline]
    #[must_use]
    pub const fn with_demand(self, demand: u8) -> Self {
        Self(self.0 | ((demand & Self::MOST_DEMAND) as u16) << Self::DEMAND_SHIFT)
    }

    /// Whether all marks of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any mark of `other` is set.
    #[inline]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those marks that say something of credit for several senders.
    #[must_use]
    pub const fn of_credit(self) -> Self {
        Self(self.0 & Self::CREDIT)
    }

    /// The same marks, but these as in others.
    #[must_use]
    pub const fn with_credit_of(self, others: Self) -> Self {
        Self(self.0 & !Self::CREDIT | others.of_credit().0)
    }

    /// The lowest of the three bits that hold [`back`](Self::back).
    const BACK_SHIFT: u32 = 12;
    /// The largest [`back`](Self::back).
    pub const MOST_BACK: u8 = 7;

    /// Of a frame with [`EARLY`](Self::EARLY): the frame so many numbers before it must be carried
    /// out first; 0: none must.
    #[must_use]
    pub const fn back(self) -> u8 {
        (self.0 >> Self::BACK_SHIFT) as u8 & Self::MOST_BACK
    }

    /// The same marks and [`EARLY`](Self::EARLY), where neither that nor [`back`](Self::back) was
    /// set.
    #[must_use]
    pub const fn early(self, back: u8) -> Self {
        Self(self.0 | Self::EARLY.0 | ((back & Self::MOST_BACK) as u16) << Self::BACK_SHIFT)
    }

    /// How many of a frame's bytes the checksum covers, its own place included.
    #[inline]
    const fn covered(self, frame: usize) -> usize {
        if self.has(Self::HEADER_ONLY) { HEADER_LEN } else { frame }
    }

    /// Both sets of marks.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The fields of a GigaE header. Lengths and the checksum are computed when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// The virtual network on which both ends meet; frames of other channels are not seen.
    pub channel: u8,
    /// Port id of the sending endpoint on its node.
    pub src_port: u16,
    /// Port id of the receiving endpoint on its node.
    pub dst_port: u16,
    /// The sender's epoch of this session.
    pub src_epoch: Epoch,
    /// The receiver's epoch of this session as the sender knows it.
    pub dst_epoch: Epoch,
    /// Data: the frame's own number. Otherwise: the number that the next data frame will have.
    pub seq: SeqNo,
    /// All numbers before this one have arrived.
    pub ack: SeqNo,
    /// How many frames from `ack` on the sender of this header has room for. Zero is STOP,
    /// anything else GO.
    pub credit: u16,
    /// Marks.
    pub flags: Flags,
}

/// Why a frame was not accepted. The receiver counts it and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Discard {
    /// Shorter than its headers, or than the length it states.
    Short,
    /// In another envelope (EtherType, IP protocol, port).
    NotOurs,
    /// Another protocol version.
    Version(u8),
    /// The checksum does not fit the bytes.
    Checksum,
    /// The checksum is right, but a field has a value that no sender of this version writes.
    Malformed,
    /// For a port id other than this endpoint's.
    Port,
    /// For a channel that this endpoint has not opened.
    Channel,
    /// From an unknown or former epoch.
    Epoch,
    /// Already received.
    Duplicate,
    /// Beyond the window or the granted credit.
    Window,
    /// Out of order, with no reorder window to keep it in (go-back-N).
    OutOfOrder,
    /// No room for a further session.
    Sessions,
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "short frame",
            Self::NotOurs => "another envelope",
            Self::Version(_) => "another protocol version",
            Self::Checksum => "bad checksum",
            Self::Malformed => "malformed header",
            Self::Port => "another port",
            Self::Channel => "channel not open",
            Self::Epoch => "unknown epoch",
            Self::Duplicate => "duplicate",
            Self::Window => "outside the window",
            Self::OutOfOrder => "out of order",
            Self::Sessions => "too many sessions",
        })
    }
}

impl core::error::Error for Discard {}

/// Source and destination port id of a frame that begins with a header.
#[inline]
pub(crate) fn port_ids(frame: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = frame.get(8..12)?.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The checksum of a frame that is read piece by piece, while it is copied: see [`Header::begin`].
pub struct Sealing {
    digest: checksum::Digest,
    header_only: bool,
}

impl Sealing {
    /// Reads the next bytes of the payload.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        if !self.header_only {
            self.digest.add(bytes);
        }
    }

    /// What belongs into the first four bytes of the frame.
    pub fn finish(self) -> [u8; 4] {
        self.digest.finish().to_be_bytes()
    }
}

impl Header {
    /// Writes the header into the first [`HEADER_LEN`] bytes of `frame`, whose remaining bytes are
    /// the payload, and seals both with their checksum (CRC32C, or XXH3 for long payloads), or
    /// the header alone where the flags say so.
    ///
    /// Reads the payload once for the checksum and copies nothing. Inlined, so a header that was
    /// just built does not pass through memory.
    ///
    /// # Panics
    /// If `frame` is shorter than a header or longer than a header and 65,535 bytes.
    #[inline(always)]
    pub fn seal(&self, frame: &mut [u8]) {
        let length = u16::try_from(frame.len() - HEADER_LEN).expect("payload over 65,535 bytes");
        let words = self.words(length);
        let (places, _) = frame.as_chunks_mut();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        let sum = checksum::of_new_frame(&words, &frame[..self.flags.covered(frame.len())]);
        frame[..4].copy_from_slice(&sum.to_be_bytes());
    }

    /// Like [`seal`](Self::seal) for a frame in segments: its payload continues in `behind`.
    ///
    /// # Panics
    /// If `first` is shorter than a header or the payload longer than 65,535 bytes.
    pub fn seal_segments(&self, first: &mut [u8], behind: Pieces) {
        let mut sealing = self.begin(first, behind.len());
        sealing.add(&first[HEADER_LEN..]);
        behind.into_iter().for_each(|piece| sealing.add(piece));
        first[..4].copy_from_slice(&sealing.finish());
    }

    /// Writes the header into the first bytes of a frame, which goes on in `behind` bytes
    /// elsewhere, but for its checksum: the first four bytes. [`add`](Sealing::add) all of its
    /// payload in order.
    ///
    /// # Panics
    /// If `first` is shorter than a header or the payload longer than 65,535 bytes.
    pub fn begin(&self, first: &mut [u8], behind: usize) -> Sealing {
        let length = first.len() - HEADER_LEN + behind;
        let words = self.words(u16::try_from(length).expect("payload over 65,535 bytes"));
        first[..HEADER_LEN].copy_from_slice(words.map(u64::to_be_bytes).as_flattened());
        let header_only = self.flags.has(Flags::HEADER_ONLY);
        let mut digest = checksum::Digest::new(if header_only { 0 } else { length });
        digest.add(&first[4..HEADER_LEN]);
        Sealing { digest, header_only }
    }

    /// The 32 bytes of the header as four words, with zero for the checksum.
    #[inline]
    const fn words(&self, length: u16) -> [u64; HEADER_LEN / 8] {
        let kind = VERSION << 4 | self.kind as u8;
        let ports = (self.src_port as u32) << 16 | self.dst_port as u32;
        let last = (self.credit as u32) << 16 | self.flags.0 as u32;
        [
            (kind as u64) << 24 | (self.channel as u64) << 16 | length as u64,
            (ports as u64) << 32 | self.src_epoch.0 as u64,
            (self.dst_epoch.0 as u64) << 32 | self.seq.0 as u64,
            (self.ack.0 as u64) << 32 | last as u64,
        ]
    }

    /// Reads a sealed frame: the header and its payload, in place. Ignores bytes after the stated
    /// length (Ethernet pads frames to 60 bytes).
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), Discard> {
        let h: &[u8; HEADER_LEN] = frame.first_chunk().ok_or(Discard::Short)?;
        let (sum, length) = outline(h)?;
        let frame = frame.get(..HEADER_LEN + length).ok_or(Discard::Short)?;
        if checksum::of(&frame[4..flags_of(h).covered(frame.len())]) != sum {
            return Err(Discard::Checksum);
        }
        Ok((Self::fields(h)?, &frame[HEADER_LEN..]))
    }

    /// The same for a frame in segments.
    pub fn parse_segments(mut frame: Pieces) -> Result<(Self, Pieces), Discard> {
        let h = &frame.split_array().ok_or(Discard::Short)?;
        let (sum, length) = outline(h)?;
        let payload = frame.split(length).ok_or(Discard::Short)?;
        let covered =
            if flags_of(h).has(Flags::HEADER_ONLY) { Pieces::from(&[][..]) } else { payload };
        if checksum::of_pieces(&h[4..], covered) != sum {
            return Err(Discard::Checksum);
        }
        Ok((Self::fields(h)?, payload))
    }

    #[inline]
    fn fields(h: &[u8; HEADER_LEN]) -> Result<Self, Discard> {
        let u16_at = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
        let u32_at = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        Ok(Self {
            kind: Kind::from_bits(h[4] & 0xf).ok_or(Discard::Malformed)?,
            channel: h[5],
            src_port: u16_at(8),
            dst_port: u16_at(10),
            src_epoch: Epoch(u32_at(12)),
            dst_epoch: Epoch(u32_at(16)),
            seq: SeqNo(u32_at(20)),
            ack: SeqNo(u32_at(24)),
            credit: u16_at(28),
            flags: flags_of(h),
        })
    }
}

/// The checksum and the payload's length that a header of this version states.
#[inline]
fn outline(h: &[u8; HEADER_LEN]) -> Result<(u32, usize), Discard> {
    if h[4] >> 4 != VERSION {
        return Err(Discard::Version(h[4] >> 4));
    }
    let sum = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
    Ok((sum, u16::from_be_bytes([h[6], h[7]]).into()))
}

#[inline]
const fn flags_of(h: &[u8; HEADER_LEN]) -> Flags {
    Flags(u16::from_be_bytes([h[30], h[31]]))
}

/// Payload of [`Kind::Ack`]: what the receiver holds beyond the cumulative acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckReport<'a> {
    /// The frame whose arrival led to this report. Frames that were sent before it (by more than
    /// the allowed reordering) and are not acknowledged are lost.
    pub latest: SeqNo,
    /// Bit `i`, counted from the least significant bit of the first byte, says that number `ack + 1
    /// + i` has arrived. `ack` itself is missing by definition.
    pub bitmap: &'a [u8],
}

impl<'a> AckReport<'a> {
    /// Longest bitmap in bytes: 1,024 frames, the largest reorder window.
    pub const MAX_BITMAP: usize = 128;

    /// Reads the payload of an Ack. An empty payload is not a report. One longer than any report is
    /// padding: such a frame shows how long frames may be on its path.
    pub fn parse(payload: &'a [u8]) -> Result<Option<Self>, Discard> {
        if payload.is_empty() || payload.len() > 4 + Self::MAX_BITMAP {
            return Ok(None);
        }
        let (latest, bitmap) = payload.split_first_chunk().ok_or(Discard::Malformed)?;
        Ok(Some(Self { latest: SeqNo(u32::from_be_bytes(*latest)), bitmap }))
    }

    /// The offsets from `ack` of the frames that have arrived, ascending.
    pub fn offsets(&self) -> impl Iterator<Item = u32> + use<'a> {
        let bitmap = self.bitmap;
        (0..bitmap.len() * 8)
            .filter(move |&i| bitmap[i / 8] >> (i % 8) & 1 == 1)
            .map(|i| u32::try_from(i).expect("at most 1,024") + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn sample() -> Header {
        Header {
            kind: Kind::Data,
            channel: 3,
            src_port: 0x1122,
            dst_port: 0x3344,
            src_epoch: Epoch(0x0102_0304),
            dst_epoch: Epoch(0x0506_0708),
            seq: SeqNo(0x090a_0b0c),
            ack: SeqNo(0x0d0e_0f10),
            credit: 0x1112,
            flags: Flags::ASK,
        }
    }

    fn sealed(header: Header, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER_LEN + payload.len()];
        frame[HEADER_LEN..].copy_from_slice(payload);
        header.seal(&mut frame);
        frame
    }

    /// The layout in `PROTOCOL.md` §1, byte for byte.
    #[test]
    fn the_layout_is_the_documented_one() {
        let frame = sealed(sample(), b"ab");
        assert_eq!(
            &frame[4..],
            [
                0x31, 3, 0, 2, 0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                14, 15, 16, 0x11, 0x12, 0, 1, b'a', b'b'
            ]
        );
        assert_eq!(frame[..4], checksum::of(&frame[4..]).to_be_bytes());
    }

    #[test]
    fn padding_after_the_stated_length_is_ignored() {
        let mut frame = sealed(sample(), b"eight by");
        frame.resize(60, 0xee);
        assert_eq!(Header::parse(&frame), Ok((sample(), &b"eight by"[..])));
    }

    #[test]
    fn another_version_differs_from_a_bad_checksum() {
        let mut frame = sealed(sample(), b"");
        frame[4] = 1 << 4 | 1;
        assert_eq!(Header::parse(&frame), Err(Discard::Version(1)));
    }

    #[test]
    fn a_crc_of_the_header_alone_leaves_the_payload_open_and_no_field() {
        let header = Header { flags: Flags::HEADER_ONLY, ..sample() };
        let mut frame = sealed(header, b"payload");
        frame[HEADER_LEN] ^= 1;
        assert_eq!(Header::parse(&frame), Ok((header, &b"qayload"[..])));
        for bit in 0..HEADER_LEN * 8 {
            let mut frame = sealed(header, b"payload");
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&frame).is_err(), "bit {bit}");
        }
    }

    /// One frame written whole, in segments and piece by piece, and read whole and in segments: on
    /// both sides of the length from which another checksum is used.
    #[test]
    fn the_same_checksum_is_written_and_read_in_one_piece_and_in_several() {
        let bytes: [u8; 300] = core::array::from_fn(|i| (i * 7) as u8);
        for flags in [Flags::NONE, Flags::HEADER_ONLY] {
            let header = Header { flags, ..sample() };
            for len in [0, 8, 127, 128, 129, 130, 300] {
                let (a, b) = bytes[..len].split_at(len / 3);
                let whole = sealed(header, &bytes[..len]);
                let mut first = [0; HEADER_LEN];
                first.copy_from_slice(&whole[..HEADER_LEN]);
                first[..4].fill(0);
                let mut segments = first.to_vec();
                segments.extend(a);
                header.seal_segments(&mut segments, Pieces::new(b, &[]));
                assert_eq!(segments, whole[..HEADER_LEN + a.len()], "{len} bytes in segments");
                let mut sealing = header.begin(&mut first, len);
                [a, b].into_iter().for_each(|piece| sealing.add(piece));
                first[..4].copy_from_slice(&sealing.finish());
                assert_eq!(first, whole[..HEADER_LEN], "{len} bytes, piece by piece");
                assert_eq!(Header::parse(&whole), Ok((header, &bytes[..len])));
                let (front, behind) = whole.split_at(HEADER_LEN + a.len());
                let behind = [behind];
                let read = Header::parse_segments(Pieces::new(front, &behind));
                assert_eq!(read.map(|(read, payload)| (read, payload.len())), Ok((header, len)));
            }
        }
    }

    #[test]
    fn a_kind_that_nobody_writes_is_malformed() {
        let mut frame = sealed(sample(), b"");
        frame[4] = VERSION << 4 | 15;
        let sum = checksum::of(&frame[4..]).to_be_bytes();
        frame[..4].copy_from_slice(&sum);
        assert_eq!(Header::parse(&frame), Err(Discard::Malformed));
    }

    #[test]
    fn an_ack_report_lists_the_offsets_in_its_bitmap() {
        let report = AckReport::parse(&[0, 0, 0, 9, 0b101, 0x80]).unwrap().unwrap();
        assert_eq!(report.latest, SeqNo(9));
        assert_eq!(report.offsets().collect::<Vec<_>>(), [1, 3, 16]);
        assert_eq!(AckReport::parse(&[]), Ok(None));
        assert_eq!(AckReport::parse(&[1, 2]), Err(Discard::Malformed));
        assert_eq!(AckReport::parse(&[0; 4 + 129]), Ok(None));
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_parsed_back(
            kind in prop::sample::select((1..=12u8).collect::<Vec<_>>()), channel: u8, ports: (u16, u16), epochs: (u32, u32),
            seq: u32, ack: u32, credit: u16, flags: u16, payload in prop::collection::vec(any::<u8>(), 0..1500), cut: prop::sample::Index,
        ) {
            let header = Header {
                kind: Kind::from_bits(kind).unwrap(), channel, src_port: ports.0, dst_port: ports.1,
                src_epoch: Epoch(epochs.0), dst_epoch: Epoch(epochs.1), seq: SeqNo(seq), ack: SeqNo(ack),
                credit, flags: Flags(flags & !2),
            };
            let frame = sealed(header, &payload);
            prop_assert_eq!(Header::parse(&frame), Ok((header, &payload[..])));
            let cut = HEADER_LEN + cut.index(payload.len() + 1);
            let mut first = frame[..cut].to_vec();
            first[..HEADER_LEN].fill(0);
            header.seal_segments(&mut first, frame[cut..].into());
            prop_assert_eq!(&first, &frame[..cut]);
            let rest = [&frame[cut..], &[0xee; 3]];
            let (read, pieces) = Header::parse_segments(Pieces::new(&first, &rest)).unwrap();
            prop_assert_eq!((read, pieces.collect::<Vec<_>>().concat()), (header, payload));
        }

        #[test]
        fn one_flipped_bit_is_never_accepted(payload in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, bit in 0u8..8) {
            let mut frame = sealed(sample(), &payload);
            let at = at.index(frame.len());
            frame[at] ^= 1 << bit;
            prop_assert!(Header::parse(&frame).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::parse(&bytes);
            if let Ok(Some(report)) = AckReport::parse(&bytes) { report.offsets().count(); }
        }
    }
}
