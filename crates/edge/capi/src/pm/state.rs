//! The state of a context: an endpoint on a channel, its nodes, and what the program holds of it.

use super::alarm::Alarm;
use super::held::{HeldSend, LockedRegion, PendingTransfer};
use super::nodes::Nodes;
use super::{Fault, PmContext, PmResult, answer};
use crate::endpoint::OpenEndpoint;
use crate::error::Error;
use crate::handle::HandleTable;
use gigae::{Address, Endpoint, OpId, Peer};
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::io::Write;

/// Everything behind one `pmContext`.
pub(crate) struct Context {
    channel: u8,
    pub(super) me: c_int,
    pub(super) table: Nodes,
    /// The nodes that the context is associated with.
    pub(super) peers: BTreeMap<c_int, Peer>,
    /// The send buffer that the program holds.
    pub(super) filling: Option<HeldSend>,
    /// Sent messages without room, or with writes that must come first; at most one for each node.
    pub(super) waiting: Vec<HeldSend>,
    /// The received message that the program holds.
    pub(super) reading: Option<u64>,
    /// What the next receive must report.
    pub(super) fault: Option<Fault>,
    pub(super) locked: Vec<LockedRegion>,
    pub(super) transfers: HashMap<OpId, PendingTransfer>,
    /// Failed transfers, by kind.
    pub(super) refused: [Option<Fault>; 2],
    pub(super) alarm: Option<Alarm>,
    /// Between `pmBeforeSelect` and `pmAfterSelect`.
    pub(super) selecting: bool,
    pub(super) state: OpenEndpoint,
}

impl Context {
    pub(super) fn new(endpoint: Endpoint, channel: u8, table: Nodes) -> PmResult<Self> {
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
            state: OpenEndpoint::new(endpoint),
        };
        let all: Vec<c_int> = context.table.nodes.keys().copied().collect();
        context.associate(&all)?;
        Ok(context)
    }

    /// Associates only these nodes from now on.
    pub(super) fn associate(&mut self, nodes: &[c_int]) -> PmResult<()> {
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
    pub(super) fn peer(&self, node: c_int) -> PmResult<Peer> {
        self.peers.get(&node).copied().ok_or_else(|| {
            Fault::invalid(&format!(
                "node {node} does not exist, is not associated, or is this node"
            ))
        })
    }

    /// Writes a description.
    pub(super) fn dump(&self, to: &mut impl Write) -> std::io::Result<()> {
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
            "  regions locked: {}, transfers in progress: {}",
            self.locked.len(),
            self.transfers.len()
        )
    }
}

/// All open contexts of the process.
pub(super) static CONTEXTS: HandleTable<Context> = HandleTable::new(4);

/// Makes one call on a context and returns its result.
#[inline]
pub(super) fn call(pmc: *mut PmContext, work: impl FnOnce(&mut Context) -> PmResult<()>) -> c_int {
    let done = CONTEXTS.with(pmc.addr(), |context| Ok(work(context)));
    answer(done.unwrap_or_else(|error| Err(error.into())))
}
