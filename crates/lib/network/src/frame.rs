//! Frames, and the memory that frames on their way are kept in.

/// Bytes in front of a frame and behind it that take time on the wire and no memory: preamble with
/// start delimiter, and the gap between two frames.
pub const PREAMBLE: u32 = 8;
/// See [`PREAMBLE`].
pub const GAP: u32 = 12;
/// The shortest frame, from its destination address to its checksum.
pub const SHORTEST: u32 = 64;
/// Priorities, as in a VLAN tag. 7 leaves first.
pub const PRIORITIES: usize = 8;

/// A host's number.
pub type HostId = u32;
/// A port's number: ports of hosts first, host `n` has port `n`.
pub type PortId = u32;

/// An Ethernet frame. `P` is what the hosts' protocol writes into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P> {
    /// The sender.
    pub source: HostId,
    /// The receiver.
    pub destination: HostId,
    /// Frames with the same value take the same path. A host that gives each frame another value
    /// sprays its frames over all paths.
    pub flow: u32,
    /// From the destination address to the checksum, in bytes. Switches count these in their
    /// buffers. A frame of less than 64 bytes is padded.
    pub length: u32,
    /// 0 to 7; 7 leaves first.
    pub priority: u8,
    /// Congestion experienced: a switch on the path held more than its threshold.
    pub marked: bool,
    /// What the protocol needs.
    pub payload: P,
}

impl<P> Frame<P> {
    /// Bytes that the frame keeps a link busy: with padding, preamble and gap.
    pub fn wire_bytes(&self) -> u32 {
        wire_bytes(self.length)
    }
}

/// As [`Frame::wire_bytes`], for a length.
pub fn wire_bytes(length: u32) -> u32 {
    length.max(SHORTEST) + PREAMBLE + GAP
}

/// No frame: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// A frame on its way.
#[derive(Clone, Debug)]
pub(crate) struct Slot<P> {
    pub(crate) frame: Option<Frame<P>>,
    /// The next frame in the same queue, or the next free slot.
    pub(crate) next: u32,
    /// The port that sent it last.
    pub(crate) port: PortId,
    /// Cut-through: when its last bit arrives at the switch that has it.
    pub(crate) whole_at: crate::Time,
}

/// All frames on their way. It grows to the most frames that ever were under way, and then
/// allocates nothing more by itself; a payload may.
#[derive(Clone, Debug)]
pub(crate) struct Frames<P> {
    slots: Vec<Slot<P>>,
    free: u32,
    used: usize,
}

impl<P> Frames<P> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, used: 0 }
    }

    /// Frames on their way.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn add(&mut self, frame: Frame<P>) -> u32 {
        self.used += 1;
        let (port, whole_at) = (NONE, crate::Time::ZERO);
        let slot = Slot { frame: Some(frame), next: NONE, port, whole_at };
        match self.free {
            NONE => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 frames")
            }
            free => {
                self.free = self.slots[free as usize].next;
                self.slots[free as usize] = slot;
                free
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u32) -> Frame<P> {
        self.used -= 1;
        let slot = &mut self.slots[id as usize];
        slot.next = self.free;
        self.free = id;
        slot.frame.take().expect("a frame on its way")
    }

    #[inline]
    pub(crate) fn slot(&mut self, id: u32) -> &mut Slot<P> {
        &mut self.slots[id as usize]
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Frame<P> {
        self.slots[id as usize].frame.as_ref().expect("a frame on its way")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Frame<P> {
        self.slots[id as usize].frame.as_mut().expect("a frame on its way")
    }
}
