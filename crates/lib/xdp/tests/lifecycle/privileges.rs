//! What is refused, and what takes which privileges.

use super::*;

pub(crate) fn what_cannot_be_opened_is_refused() {
    let fabric = testing::fabric("refusals", |_| ());
    let refused = |config| {
        let error = open(&fabric, config).err().expect("this cannot be opened");
        assert!(!error.to_string().contains('\n'), "{error}");
        error
    };
    let error = refused(config("eth7"));
    assert!(
        matches!(&error, OpenError::NoInterface { existing, .. } if existing.contains(&"eth0".into()))
    );
    let error = refused(XdpConfig { queue: 9, ..config("eth0") });
    assert!(error.to_string().contains("queue 9"), "{error}");
    ip(&fabric, "link set eth0 mtu 100");
    let error = refused(config("eth0"));
    assert!(matches!(error, OpenError::MtuTooSmall { mtu: 100, needed: 164, .. }), "{error}");
    ip(&fabric, "link set eth0 down");
    let error = refused(config("eth0"));
    assert!(matches!(&error, OpenError::InterfaceDown(name) if name == "eth0"), "{error}");
}

/// Runs `work` in a thread with these capabilities only, for they are a thread's own.
pub(crate) fn with<T: Send>(kept: CapabilitySet, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let result = scope.spawn(|| {
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective = kept;
            rustix::thread::set_capabilities(None, sets).unwrap();
            let result = work();
            sets.effective = sets.permitted;
            rustix::thread::set_capabilities(None, sets).unwrap();
            result
        });
        result.join().unwrap()
    })
}

pub(crate) fn documented_capabilities_are_enough() {
    let fabric = testing::fabric("enough", |_| ());
    // The last for frame memory beyond the limit of locked memory.
    let kept = CapabilitySet::NET_RAW
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::BPF
        | CapabilitySet::IPC_LOCK;
    for (mode, mtu) in [(Mode::XdpGeneric, 1500), (Mode::XdpNative, 1500), (Mode::XdpNative, 9000)]
    {
        ip(&fabric, &format!("link set eth0 mtu {mtu}"));
        let node = fabric.node(1);
        let _inside = node.enter().unwrap();
        let open = || XdpLink::open(XdpConfig { mode: Some(mode), ..config("eth0") });
        let link = with(kept, open).unwrap_or_else(|e| panic!("{mode}, MTU {mtu}: {e}"));
        assert_eq!(link.info().max_frame, mtu + 14);
    }
}

pub(crate) fn parts_are_assembled() {
    let fabric = testing::fabric("parts", |_| ());
    let node = fabric.node(1);
    let inside = node.enter().unwrap();
    let (parts, arena) = make(&config("eth0"));
    drop(inside);
    let mut peer = {
        let node = fabric.node(2);
        let _inside = node.enter().unwrap();
        XdpLink::open(config("eth0")).unwrap()
    };
    let [to, back] = [[2, 1], [1, 2]]
        .map(|ends| ends.map(|n| fabric.node(n)))
        .map(|[a, b]| route(Envelope::DEFAULT, [&a, &b], over_ipv4));
    // What comes between is there when the link is.
    let early = frame(&to, CHANNEL, 1, 200);
    send(&mut peer, &early);
    let made = parts.description.clone();
    // SAFETY: the parts are new, and used here only, with the memory that they were made for.
    let assemble = || unsafe { XdpLink::assemble(parts, arena) };
    let mut link = with(CapabilitySet::empty(), assemble).unwrap();
    assert_eq!((&link.info().reason, link.info().mac), (&made.reason, made.mac));
    with(CapabilitySet::empty(), || {
        only(&mut link, &early);
        for number in 0..20 {
            let there = frame(&to, CHANNEL, number, 300);
            send(&mut peer, &there);
            only(&mut link, &there);
            let again = frame(&back, CHANNEL, number, 400);
            send(&mut link, &again);
            only(&mut peer, &again);
        }
    });
    drop(link);
    assert!(has_program(&fabric), "it goes with the interface and not with the link");
}

pub(crate) fn memory_that_is_not_there_is_refused() {
    let fabric = testing::fabric("not there", |_| ());
    let _inside = fabric.node(1).enter().unwrap();
    let config = config("eth0");
    let bytes = XdpLink::memory_for(config.tx_frames as u32, config.rx_frames as u32);
    let memory = LentMemory::new(bytes).unwrap();
    let theirs = memory.lend().unwrap();
    rustix::fs::fcntl_add_seals(&theirs, rustix::fs::SealFlags::FUTURE_WRITE).unwrap();
    let error = XdpLink::make(&config, &memory).expect_err("it was not filled").to_string();
    assert!(error.contains("pages are missing") && !error.contains('\n'), "{error}");
    assert_eq!(rustix::fs::fstat(&theirs).unwrap().st_blocks, 0, "the one who asks pays for it");
}

/// Why no socket is passed on before it is bound, though its memory could be registered by who gets
/// it.
pub(crate) fn an_unbound_socket_would_be_bound_anywhere() {
    use rustix::net::{AddressFamily, SocketType, sockopt, xdp};
    let fabric = testing::fabric("unbound", |_| ());
    let _inside = fabric.node(1).enter().unwrap();
    let socket = rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
    let interface = gigae_link::Interface::find("eth0").unwrap().index;
    let arena = Arena::anonymous(1 << 14).unwrap();
    let attempt = || {
        let memory = xdp::XdpUmemReg {
            addr: arena.base().as_ptr() as u64,
            len: arena.len() as u64,
            chunk_size: 4096,
            headroom: 0,
            flags: xdp::XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, memory)?;
        sockopt::set_xdp_umem_fill_ring_size(&socket, 4)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, 4)?;
        sockopt::set_xdp_tx_ring_size(&socket, 4)?;
        let flags = xdp::SocketAddrXdpFlags::XDP_COPY;
        rustix::net::bind(&socket, &xdp::SocketAddrXdp::new(flags, interface, 0))
    };
    let bound = with(CapabilitySet::empty(), attempt);
    assert_eq!(bound, Ok(()), "if this kernel forbids it, clients could register their memory");
}

pub(crate) fn parts_cannot_be_changed() {
    use rustix::net::{sockopt, xdp};
    let fabric = testing::fabric("whose", |_| ());
    ip(&fabric, "link add eth9 type bridge");
    ip(&fabric, "link set eth9 up");
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    let (parts, _arena) = make(&config("eth0"));
    let other = gigae_link::Interface::find("eth9").unwrap();
    let busy = Err(rustix::io::Errno::BUSY);
    let attempts = || {
        let flags = xdp::SocketAddrXdpFlags::XDP_COPY;
        for (index, queue) in [(other.index, 0), (parts.description.index, 1)] {
            let address = xdp::SocketAddrXdp::new(flags, index, queue);
            assert_eq!(rustix::net::bind(&parts.socket, &address), busy);
        }
        let memory = xdp::XdpUmemReg {
            addr: 0,
            len: 4096,
            chunk_size: 4096,
            headroom: 0,
            flags: xdp::XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        assert_eq!(sockopt::set_xdp_umem_reg(&parts.socket, memory), busy);
        assert_eq!(sockopt::set_xdp_umem_fill_ring_size(&parts.socket, 64), busy);
        assert_eq!(sockopt::set_xdp_umem_completion_ring_size(&parts.socket, 64), busy);
        assert_eq!(sockopt::set_xdp_rx_ring_size(&parts.socket, 64), busy);
        assert_eq!(sockopt::set_xdp_tx_ring_size(&parts.socket, 64), busy);
        // A further socket with the same memory on another queue, and another program, need
        // capabilities.
        let kind = rustix::net::SocketType::RAW;
        let further = rustix::net::socket(rustix::net::AddressFamily::XDP, kind, None);
        assert_eq!(further.err(), Some(rustix::io::Errno::PERM));
        assert!(foreign::try_load().is_err());
        // Through the control socket nothing is changed.
        assert!(!foreign::set_down(&parts.control, "eth9"));
    };
    with(CapabilitySet::empty(), attempts);
    // Nor when its interface is gone, for a socket is bound once.
    ip(&fabric, "link del eth0");
    let address = xdp::SocketAddrXdp::new(xdp::SocketAddrXdpFlags::XDP_COPY, other.index, 0);
    assert_eq!(rustix::net::bind(&parts.socket, &address), busy);
}

pub(crate) fn missing_capabilities_are_named() {
    let fabric = testing::fabric("capabilities", |_| ());
    for (kept, named) in [
        (CapabilitySet::NET_RAW | CapabilitySet::IPC_LOCK, "CAP_BPF"),
        (CapabilitySet::BPF | CapabilitySet::NET_ADMIN | CapabilitySet::IPC_LOCK, "CAP_NET_RAW"),
    ] {
        let _inside = fabric.node(1).enter().unwrap();
        let error = with(kept, || XdpLink::open(config("eth0")).err()).expect("not permitted");
        assert!(matches!(error, OpenError::MissingCapability { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}
