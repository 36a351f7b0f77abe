//! Endpoints of this node that connect: accepting, and what they say first.

use super::*;

impl Neighbours {
    pub(super) fn accept(&mut self) {
        for _ in 0..AT_ONCE {
            let accepted = match rendezvous::accept(&self.listener) {
                Err(Errno::MFILE) => self.turn_away(),
                accepted => accepted,
            };
            match accepted {
                Ok(Some(socket)) => self.enter(socket),
                // Another user's, turned away, or already closed.
                Ok(None) | Err(Errno::CONNABORTED) => {}
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.listen_no_more(),
            }
        }
        self.look_soon = true;
    }

    /// There is no descriptor for a new connection, and the watched listener would wake every sleep
    /// at once. So the connection gets the spare one and is closed. Its frames go by the NIC, and
    /// the neighbour tries again some seconds later. Fails like accept(2), also if another thread
    /// was faster.
    #[cold]
    fn turn_away(&mut self) -> Result<Option<OwnedFd>, Errno> {
        self.spare = None;
        let accepted = rendezvous::accept(&self.listener).map(drop);
        self.spare = reserve(&self.events);
        accepted.map(|()| None)
    }

    /// There is no memory for a new connection, nor a spare descriptor. Connections are accepted a
    /// second later, if that works then. Until then their frames go by the NIC.
    #[cold]
    fn listen_no_more(&mut self) {
        self.listens = epoll::delete(&self.events, &self.listener).is_err();
    }

    #[cold]
    pub(super) fn listen_again(&mut self) {
        let (data, flags) = (EventSource::Listener.data(), epoll::EventFlags::IN);
        self.listens = epoll::add(&self.events, &self.listener, data, flags).is_ok();
        self.spare = self.spare.take().or_else(|| reserve(&self.events));
    }

    /// Takes in a connection. Closes it if there are too many: its frames go by the NIC.
    fn enter(&mut self, socket: OwnedFd) {
        if self.incoming.len() + self.silent.len() >= MOST {
            return;
        }
        let id = self.fresh_id();
        let door = EventSource::Incoming(id).data();
        if epoll::add(&self.events, &socket, door, epoll::EventFlags::IN).is_ok() {
            self.silent.push((id, socket));
            self.greet(id);
        }
    }

    /// Reads the hello of a connection. Closes a connection that does not belong here.
    pub(super) fn greet(&mut self, id: u32) {
        let Some(at) = self.silent.iter().position(|silent| silent.0 == id) else { return };
        let (hello, memory) = match rendezvous::greeting(&self.silent[at].1) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => return close(&self.events, self.silent.swap_remove(at).1),
            Ok(greeting) => greeting,
        };
        let (_, socket) = self.silent.swap_remove(at);
        let Some(memory) = rendezvous::map(&hello, &memory, WORDS) else {
            return close(&self.events, socket);
        };
        if !self.hello.takes_as(&hello) {
            debug!(peer = %hello.mac, "endpoint of this node refused: its envelope or channels differ");
            Ring::new(memory.words()).refuse();
            return close(&self.events, socket);
        }
        let ring = Ring::new(memory.words());
        let lender = Lender::new(&socket, &ring, hello.ring_at);
        ring.welcome(lender.is_some());
        let reads_memory = lender.is_some();
        debug!(peer = %hello.mac, reads_memory, "endpoint of this node sends through memory");
        let (key, reader) = (key(hello.mac.0), Reader::default());
        let (permits, ended, done) = (None, false, false);
        self.incoming.push(IncomingRing {
            key,
            id,
            lender,
            socket,
            memory,
            reader,
            permits,
            ended,
            done,
        });
        // The neighbour is here: try to connect to it, if there was no ring yet.
        if matches!(self.known.get(&key), Some(AddressState::Absent { .. })) {
            self.forget(key);
        }
    }
}
