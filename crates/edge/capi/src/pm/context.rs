//! Contexts: an endpoint on a channel, its nodes, and what the program holds of it.

use super::device::{DEVICES, guard};
use super::memory::{Locked, Transfer};
use super::message::Outgoing;
use super::nodes::Nodes;
use super::select::Alarm;
use super::{Fault, Outcome, PmContext, PmDevice, answer};
use crate::endpoint::State;
use crate::error::Error;
use crate::handle::Table;
use crate::text;
use gigae::{Address, Endpoint, OpId, Options, Peer};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::ptr;
use std::time::{Duration, Instant};

/// How long closing waits at most until the windows have room for the messages that were sent last;
/// the endpoint then waits for their acknowledgement.
const LINGER: Duration = Duration::from_secs(1);

/// Everything behind one `pmContext`.
pub(crate) struct Context {
    channel: u8,
    me: c_int,
    table: Nodes,
    /// The nodes that the context is associated with.
    pub(super) peers: BTreeMap<c_int, Peer>,
    /// The send buffer that the program holds.
    pub(super) filling: Option<Outgoing>,
    /// Sent, but there was no room, or writes that must come first; at most one for each node.
    pub(super) waiting: Vec<Outgoing>,
    /// The received message that the program holds.
    pub(super) reading: Option<u64>,
    /// What the next receive is to report.
    pub(super) fault: Option<Fault>,
    pub(super) locked: Vec<Locked>,
    pub(super) transfers: HashMap<OpId, Transfer>,
    /// Those that went wrong, by kind.
    pub(super) refused: [Option<Fault>; 2],
    pub(super) alarm: Option<Alarm>,
    /// Between `pmBeforeSelect` and `pmAfterSelect`.
    pub(super) selecting: bool,
    pub(super) state: State,
}

impl Context {
    pub(super) fn new(endpoint: Endpoint, channel: u8, table: Nodes) -> Outcome<Self> {
        let mac = endpoint.link().mac;
        let Some((&me, _)) = table.nodes.iter().find(|&(_, &node)| node == mac) else {
            let interface = &table.interfaces[0];
            let why = format!("{interface} has {mac}, which is none of the nodes; add it to them");
            return Err(Fault::invalid(&why));
        };
        let mut context = Self {
            channel,
            me,
            table,
            peers: BTreeMap::new(),
            filling: None,
            waiting: Vec::new(),
            reading: None,
            fault: None,
            locked: Vec::new(),
            transfers: HashMap::new(),
            refused: [None, None],
            alarm: None,
            selecting: false,
            state: State::new(endpoint),
        };
        let all: Vec<c_int> = context.table.nodes.keys().copied().collect();
        context.associate(&all)?;
        Ok(context)
    }

    /// From now on, these nodes and no others.
    fn associate(&mut self, nodes: &[c_int]) -> Outcome<()> {
        let mut peers = BTreeMap::new();
        for node in nodes {
            let Some(&mac) = self.table.nodes.get(node) else {
                return Err(Fault::invalid(&format!("node {node} is not in the list of nodes")));
            };
            if *node != self.me {
                let address = Address::from(mac).channel(self.channel);
                let peer = self.state.endpoint().peer(address).map_err(Error::from)?;
                peers.insert(*node, peer);
            }
        }
        self.peers = peers;
        Ok(())
    }

    /// A node to communicate with.
    pub(super) fn peer(&self, node: c_int) -> Outcome<Peer> {
        self.peers.get(&node).copied().ok_or_else(|| {
            Fault::invalid(&format!("node {node} is none, not associated or this one itself"))
        })
    }

    /// What was sent last goes out, if its receivers have room for it in time.
    fn settle(&mut self) {
        let end = Instant::now() + LINGER;
        while !self.waiting.is_empty() && Instant::now() < end {
            if self.progress().is_err() {
                break;
            }
        }
    }

    fn dump(&self, to: &mut impl Write) -> std::io::Result<()> {
        let endpoint = self.state.endpoint();
        let (link, protocol) = (endpoint.link(), endpoint.counters().protocol);
        writeln!(
            to,
            "PM context on channel {} of {}, {}",
            self.channel, link.interface, link.mode
        )?;
        writeln!(
            to,
            "  node {} of {}, MTU {}",
            self.me,
            self.table.nodes.len(),
            endpoint.max_message()
        )?;
        for (node, peer) in &self.peers {
            writeln!(to, "  node {node} is {}", endpoint.address(*peer))?;
        }
        let yes = |is| if is { "yes" } else { "no" };
        let (send, receive) = (self.filling.is_some(), self.reading.is_some());
        writeln!(to, "  send buffer held: {}, message held: {}", yes(send), yes(receive))?;
        writeln!(
            to,
            "  messages: {} sent, {} received, {} failed, {} waiting for room",
            protocol.messages_sent,
            protocol.messages_received,
            protocol.messages_failed,
            self.waiting.len()
        )?;
        writeln!(
            to,
            "  regions locked: {}, transfers going on: {}",
            self.locked.len(),
            self.transfers.len()
        )
    }
}

/// All open contexts of the process.
pub(super) static CONTEXTS: Table<Context> = Table::new(4);

/// Makes one call on a context and answers.
#[inline]
pub(super) fn call(pmc: *mut PmContext, work: impl FnOnce(&mut Context) -> Outcome<()>) -> c_int {
    let done = CONTEXTS.with(pmc.addr(), |context| Ok(work(context)));
    answer(done.unwrap_or_else(|error| Err(error.into())))
}

/// Opens a context. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmOpenContext(
    pmd: *mut PmDevice,
    ctx: c_int,
    pmcp: *mut *mut PmContext,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(guard(|| unsafe {
        text::put(pmcp, ptr::null_mut(), "where to put the context")?;
        let table = DEVICES.with(pmd.addr(), |nodes| Ok(nodes.clone()))?;
        let why = || Fault::invalid("a context's number is from 0 to 255");
        let channel = u8::try_from(ctx).map_err(|_| why())?;
        let options = Options::trunk(&table.interfaces).channels([channel]);
        let endpoint = options.payload_checksum(table.checksum).open().map_err(Error::from)?;
        let context = Context::new(endpoint, channel, table)?;
        let handle = CONTEXTS.insert(Box::new(context))?;
        Ok(text::put(pmcp, ptr::without_provenance_mut(handle), "where to put the context")?)
    }))
}

/// Closes a context.
#[unsafe(no_mangle)]
pub extern "C" fn pmCloseContext(pmc: *mut PmContext) -> c_int {
    answer(guard(|| {
        let settle = |context: &mut Context| {
            context.settle();
            Ok(())
        };
        drop(CONTEXTS.remove(pmc.addr(), settle)?);
        Ok(())
    }))
}

/// Cannot be done here.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmAttachContext(
    _type: *mut c_char,
    _fd: c_int,
    pmcp: *mut *mut PmContext,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(guard(|| unsafe {
        text::put(pmcp, ptr::null_mut(), "where to put the context")?;
        Err(Fault::new(Errno::NODEV, "contexts stay in their process; open one with pmOpenContext"))
    }))
}

/// Chooses nodes.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmAssociateNodes(
    pmc: *mut PmContext,
    nodes: *const c_int,
    nnode: c_int,
) -> c_int {
    call(pmc, |context| {
        let count = usize::try_from(nnode).map_err(|_| Fault::invalid("nnode is negative"))?;
        if nodes.is_null() || count == 0 {
            return Err(Fault::invalid("no nodes are given"));
        }
        // SAFETY: the caller's promise; an int's number of ints is less than a slice can have.
        context.associate(unsafe { std::slice::from_raw_parts(nodes, count) })
    })
}

/// This node's number.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetSelf(pmc: *mut PmContext, node: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    call(pmc, |context| unsafe { Ok(text::put(node, context.me, "where to put the node")?) })
}

/// All nodes.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetNodeList(
    pmc: *mut PmContext,
    nodes: *mut c_int,
    nnodep: *mut c_int,
) -> c_int {
    call(pmc, |context| {
        let all: Vec<c_int> = context.table.nodes.keys().copied().collect();
        // SAFETY: the caller's promise.
        unsafe { list(&all, nodes, nnodep) }
    })
}

/// Answers with numbers as `pmGetFd` does: how many there are, always, and all of them if there is
/// room.
///
/// # Safety
/// `count` is NULL or says how many numbers there is room for in `into`.
pub(super) unsafe fn list(all: &[c_int], into: *mut c_int, count: *mut c_int) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let count = unsafe { count.as_mut() }.ok_or_else(|| Error::null("the number of places"))?;
    let room = usize::try_from(*count).map_err(|_| Fault::invalid("less than no room is given"))?;
    *count = c_int::try_from(all.len()).unwrap_or(c_int::MAX);
    if room < all.len() {
        return Err(Errno::NOSPC.into());
    }
    if into.is_null() {
        return Err(Error::null("the places").into());
    }
    // SAFETY: the caller's promise, and there is room.
    unsafe { into.copy_from_nonoverlapping(all.as_ptr(), all.len()) };
    Ok(())
}

/// Longest message.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetMtu(pmc: *mut PmContext, mtu: *mut usize) -> c_int {
    call(pmc, |context| {
        let longest = context.state.endpoint().max_message();
        // SAFETY: the caller's promise.
        unsafe { text::put(mtu, longest, "where to put the length")? };
        Ok(())
    })
}

/// Writes what there is to know to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn pmDumpContext(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        // Nobody can be told that standard error does not work.
        let _ = context.dump(&mut std::io::stderr().lock());
        Ok(())
    })
}

/// Cannot be done here.
#[unsafe(no_mangle)]
pub extern "C" fn pmTimeRequest(pmc: *mut PmContext, _dest: c_int) -> c_int {
    call(pmc, |_| Err(Errno::NOSYS.into()))
}
