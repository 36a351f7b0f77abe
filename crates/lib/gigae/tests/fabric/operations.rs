//! Tagged messages and remote memory.

use super::*;

/// Tagged messages of all sizes both ways at once, and a memory that both ends write and count in.
pub(crate) fn operate(fabric: &Fabric, options: &Options) {
    operate_with(fabric, options, |n| gigae::MacAddr(fabric.node(n).mac).into());
}

/// The same with nodes of these addresses.
pub(crate) fn operate_with(fabric: &Fabric, options: &Options, address: impl Fn(u16) -> Address) {
    const SIZES: [usize; 6] = [0, 8, 1_500, 20_000, 100_000, 1 << 20];
    let region = |me: u16| vec![me as u8; 1 << 20];
    std::thread::scope(|scope| {
        for (me, other) in [(1_u16, 2), (2, 1)] {
            let endpoint = on(&fabric.node(me), options.clone()).unwrap();
            let other = address(other);
            scope.spawn(move || {
                let peer = endpoint.peer(other).unwrap();
                let key = endpoint.register(region(me), gigae::Rights::ALL).unwrap();
                endpoint.send(peer, &key.0.to_be_bytes()).unwrap();
                let received = endpoint.recv_timeout(PATIENCE).unwrap().expect("the key came");
                let key = gigae::RegionKey(u64::from_be_bytes(received[..].try_into().unwrap()));
                drop(received);
                for (n, size) in SIZES.into_iter().enumerate() {
                    endpoint.start_recv(gigae::Wanted::tag(n as u64), vec![0; size]).unwrap();
                    endpoint.start_send(peer, n as u64, vec![n as u8; size]).unwrap();
                }
                endpoint.start_write(peer, key, 8, vec![77; 500_000], Some(5)).unwrap();
                let added = endpoint.start_fetch_add(peer, key, 0, 1).unwrap();
                endpoint.start_read(peer, key, 0, vec![0; 1 << 20]).unwrap();
                for _ in 0..2 * SIZES.len() + 3 {
                    let ended = endpoint.completion_timeout(PATIENCE).unwrap();
                    let ended = ended.expect("it completed in time");
                    assert_eq!(ended.result, Ok(()));
                    if ended.id == added {
                        assert_eq!(ended.value, u64::from_le_bytes([3 - me as u8; 8]));
                        continue;
                    }
                    let bytes = ended.memory.and_then(gigae::Memory::into_vec);
                    match &bytes.expect("each was given memory")[..] {
                        read if ended.tag == 0 && read.len() == 1 << 20 => {
                            assert!(read[8..500_008].iter().all(|&byte| byte == 77));
                        }
                        bytes => {
                            assert!(
                                bytes.iter().all(|&byte| [ended.tag as u8, 77].contains(&byte))
                            );
                        }
                    }
                }
                let notice = endpoint.notice_timeout(PATIENCE).unwrap().expect("a notice came");
                assert_eq!((notice.offset, notice.len, notice.value), (8, 500_000, 5));
                // What is owed to the peer goes on until it says that it has everything.
                endpoint.send(peer, b"done").unwrap();
                assert!(endpoint.recv_timeout(PATIENCE).unwrap().is_some());
                endpoint.drain(PATIENCE).unwrap();
            });
        }
    });
}

pub(crate) fn operations_over(backend: Backend) {
    for mtu in [1500, 3400, 9000] {
        let fabric = testing::fabric("ops", |config: &mut FabricConfig| config.mtu = mtu);
        operate(&fabric, &options(backend));
    }
}

pub(crate) fn operations_pass_over_xdp_generic_at_every_mtu() {
    operations_over(Backend::XdpMode(Mode::XdpGeneric));
}

pub(crate) fn operations_pass_over_xdp_native_at_every_mtu() {
    operations_over(Backend::XdpMode(Mode::XdpNative));
}

pub(crate) fn operations_pass_over_packet_sockets_at_every_mtu() {
    operations_over(Backend::Packet);
}

pub(crate) fn an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too() {
    let fabric = testing::fabric("silent", |_| ());
    // Until it falls silent it answers in this time, on a loaded machine too.
    let options = options(Backend::Xdp).peer_timeout(Duration::from_secs(3));
    let asleep = on(&fabric.node(1), options.clone()).unwrap();
    let silent = on(&fabric.node(2), options.progress(Progress::Manual)).unwrap();
    let to = asleep.peer(Address::from(silent.link().mac)).unwrap();
    asleep.send(to, b"first").unwrap();
    while silent.recv_timeout(Duration::from_millis(1)).unwrap().is_none() {
        asleep.progress().unwrap();
    }
    silent.prepare_to_wait().unwrap();
    asleep.drain(PATIENCE).unwrap();
    // From here on the peer is there and does nothing.
    asleep.start_send(to, 1, vec![0; 8]).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(asleep.completion().unwrap().unwrap().result));
    let result = receiver.recv_timeout(PATIENCE).expect("the sleeper woke up");
    assert_eq!(result, Err(gigae::OpError::Lost(Reason::Timeout)));
    drop(silent);
}

pub(crate) fn operations_pass_in_the_udp_envelope_on_a_jumbo_network() {
    let fabric = testing::fabric("udpops", |config: &mut FabricConfig| config.mtu = 9000);
    let options = options(Backend::Xdp).envelope(UDP);
    operate_with(&fabric, &options, |n| IpAddr::from(fabric.node(n).ipv4).into());
    operate_with(&fabric, &options, |n| IpAddr::from(fabric.node(n).ipv6).into());
}

pub(crate) fn operations_with_oneself_pass_in_the_udp_envelope() {
    let fabric = testing::fabric("udpself", |_| ());
    let node = fabric.node(1);
    let endpoint = on(&node, options(Backend::Packet).envelope(UDP)).unwrap();
    for ip in [IpAddr::from(node.ipv4), IpAddr::from(node.ipv6)] {
        let peer = endpoint.peer(Address::from(ip)).unwrap();
        endpoint.start_recv(gigae::Wanted::tag(1), vec![0; 100_000]).unwrap();
        endpoint.start_send(peer, 1, vec![7; 100_000]).unwrap();
        for _ in 0..2 {
            let ended = endpoint.completion_timeout(PATIENCE).unwrap().expect("it ended");
            assert_eq!((ended.result, ended.len), (Ok(()), 100_000));
            let bytes = ended.memory.and_then(gigae::Memory::into_vec).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
        // No way leads to another endpoint of this node.
        assert!(endpoint.peer(Address::from(ip).port(1)).is_err());
    }
}

pub(crate) fn operations_pass_through_loss_duplication_and_corruption() {
    for mtu in [1500, 9000] {
        let fabric = testing::fabric("wildops", |config: &mut FabricConfig| {
            (config.loss, config.duplicate, config.corrupt, config.seed) = (0.02, 0.01, 0.01, 11);
            config.mtu = mtu;
        });
        operate(&fabric, &options(Backend::Xdp));
        operate(&fabric, &options(Backend::Xdp).go_back_n());
    }
}

/// What a write of a mebibyte takes in data frames, and how often it was found that long ones
/// vanish.
pub(crate) fn frames_of_a_write(fabric: &Fabric) -> (u64, u64) {
    let node = |n| on(&fabric.node(n), options(Backend::Xdp)).unwrap();
    let (from, to) = (node(1), node(2));
    let peer = from.peer(Address::from(to.link().mac)).unwrap();
    let key = to.register(vec![0; 1 << 20], gigae::Rights::ALL).unwrap();
    from.start_write(peer, key, 0, vec![7; 1 << 20], None).unwrap();
    let (mut done, began) = (None, std::time::Instant::now());
    while done.is_none() && began.elapsed() < PATIENCE {
        to.progress().unwrap();
        done = from.try_completion().unwrap();
    }
    assert_eq!(done.expect("it completed in time").result, Ok(()));
    let mut there = vec![0; 1 << 20];
    assert!(to.read_region(key, 0, &mut there) && there == vec![7; 1 << 20]);
    (to.counters().protocol.frames_delivered, from.counters().protocol.black_holes)
}

pub(crate) fn operations_fill_jumbo_frames() {
    let fabric = testing::fabric("long", |config: &mut FabricConfig| config.mtu = 9000);
    let (frames, holes) = frames_of_a_write(&fabric);
    assert!(frames <= 120 && holes == 0, "{frames} frames of 8,968 bytes, {holes} holes");
}

pub(crate) fn a_switch_that_swallows_long_frames_is_found_out() {
    let fabric = testing::fabric("hole", |config: &mut FabricConfig| {
        config.node_mtus = vec![9000, 9000];
        config.switch_mtu = Some(1500);
    });
    let (frames, holes) = frames_of_a_write(&fabric);
    assert!(frames > 700 && holes == 1, "{frames} frames of 1,468 bytes, {holes} holes");
}

/// The state of the predictable generator that gives this key: its steps backwards.
fn state_behind(key: u64) -> u64 {
    let z = key ^ (key >> 31) ^ (key >> 62);
    let z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = z ^ (z >> 27) ^ (z >> 54);
    let z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    z ^ (z >> 30) ^ (z >> 60)
}

/// How many keys one can compute who knows the key before and takes the generator for predictable.
fn foreseen(keys: &[u64]) -> usize {
    let computed = |key| gigae_transfer::predictable_keys(state_behind(key))();
    keys.windows(2).filter(|pair| computed(pair[0]) == pair[1]).count()
}

pub(crate) fn no_key_of_a_registered_memory_follows_from_another() {
    const KEYS: usize = 64;
    let predictable = std::iter::repeat_with(gigae_transfer::predictable_keys(7));
    let predictable: Vec<u64> = predictable.take(KEYS).collect();
    assert_eq!(foreseen(&predictable), KEYS - 1, "such keys would be noticed");
    let fabric = testing::fabric("keys", |_| ());
    let ends = [1, 2].map(|n| on(&fabric.node(n), options(Backend::Packet)).unwrap());
    let keys = ends.each_ref().map(|end| -> Vec<u64> {
        let register = || end.register(vec![0; 8], gigae::Rights::ALL).unwrap().0;
        std::iter::repeat_with(register).take(KEYS).collect()
    });
    for keys in &keys {
        let set = keys.iter().fold(0_u64, |all, key| all | key);
        let clear = keys.iter().fold(0_u64, |all, key| all | !key);
        assert_eq!((set, clear), (u64::MAX, u64::MAX), "every bit is random");
        assert_eq!(foreseen(keys), 0);
        let steps = keys.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        let steps: std::collections::HashSet<u64> = steps.collect();
        assert_eq!(steps.len(), KEYS - 1, "no two steps are the same");
    }
    let all: std::collections::HashSet<&u64> = keys.iter().flatten().collect();
    assert_eq!(all.len(), 2 * KEYS, "two endpoints have no key in common");
}
