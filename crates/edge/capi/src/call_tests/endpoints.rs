//! What is asked of endpoints, peers, options and a cluster.

use super::*;

#[test]
fn peers_have_stable_numbers_and_their_addresses_read_back() {
    let pair = EndpointPair::new();
    let mac = mac(pair.b);
    let with_port = format!("{mac}/7");
    let other = peer(pair.a, &with_port);
    assert_ne!((other, pair.to_b), (pair.to_b, 0));
    assert_eq!((peer(pair.a, &mac), peer(pair.a, &with_port)), (pair.to_b, other));
    let bytes: Vec<u8> = mac.split(':').map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    let mut by_mac = 0;
    // SAFETY: six bytes, and a number to write to.
    assert_eq!(unsafe { gigae_peer_by_mac(pair.a, bytes.as_ptr(), 7, 0, &mut by_mac) }, 0);
    assert_eq!(by_mac, other);
    // SAFETY: text() gives a buffer of the stated size.
    let address = text(|to, size| unsafe { gigae_peer_address(pair.a, other, to, size) });
    assert_eq!(address, with_port);
    pair.close();
}

#[test]
fn kinds_of_invalid_addresses_have_different_codes() {
    let pair = EndpointPair::new();
    let mut peer = 9;
    let mut name = |address: &CStr| {
        // SAFETY: text with a NUL, and a number to write to.
        let code = unsafe { gigae_peer(pair.a, address.as_ptr(), &mut peer) };
        (code, peer)
    };
    assert_eq!(name(c"node7"), (Code::Address as c_int, 0));
    assert_eq!(name(c"198.18.0.1"), (Code::Address as c_int, 0));
    assert_eq!(name(c"02:00:00:00:00:09/0/3"), (Code::Channel as c_int, 0));
    assert_eq!(name(c"\xff"), (INVALID, 0));
    // SAFETY: four bytes, of which none is read for a length that no address has.
    let code = unsafe { gigae_peer_by_ip(pair.a, [1u8; 4].as_ptr().cast(), 5, 0, 0, &mut peer) };
    assert_eq!(code, INVALID);
    pair.close();
}

#[test]
fn counts_fit_programs_with_an_older_and_a_newer_header() {
    let pair = EndpointPair::new();
    assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
    pair.pass();
    let mut longer = (Counts::default(), [7u64; 2]);
    // SAFETY: the sizes are those of what is there, or less.
    unsafe {
        let counts = &raw mut longer;
        assert_eq!(gigae_counters(pair.a, counts.cast(), size_of_val(&longer)), 0);
    }
    assert_eq!((longer.0.messages_sent, longer.0.sessions, longer.1), (1, 1, [0; 2]));
    let mut shorter = [0u64, 7];
    // SAFETY: as above.
    assert_eq!(unsafe { gigae_counters(pair.a, shorter.as_mut_ptr().cast(), 8) }, 0);
    assert_eq!(shorter, [1, 7]);
    pair.close();
}

#[test]
fn an_endpoint_tells_what_it_is_and_when_to_come_back() {
    let pair = EndpointPair::new();
    let (mut max, mut time) = (0, 7);
    // SAFETY: numbers to write to.
    unsafe {
        assert_eq!(gigae_max_message(pair.a, &mut max), 0);
        assert_eq!((gigae_prepare_to_wait(pair.a, &mut time), time), (0, -1), "nothing to do");
        assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
        assert_eq!(gigae_prepare_to_wait(pair.a, &mut time), 0);
        assert!(time > 0, "there is a retransmission to mind");
        pair.pass();
        assert_eq!((gigae_prepare_to_wait(pair.b, &mut time), time), (0, 0), "a message waits");
    }
    assert_eq!(max, take_and_drop(pair.a));
    // SAFETY: text() gives a buffer of the stated size.
    let link = text(|to, size| unsafe { gigae_link_info(pair.a, to, size) });
    assert!(link.contains(&mac(pair.a)) && link.contains("simulated"), "{link}");
    assert_eq!(gigae_fd(pair.a), Code::Unsupported as c_int, "a simulated link has none");
    assert_eq!(gigae_set_wait(pair.a, GIGAE_WAIT_SPIN), 0);
    assert_eq!(gigae_set_wait(pair.a, 9), INVALID);
    pair.close();
}

fn take_and_drop(endpoint: Handle) -> usize {
    let mut buffer = take(endpoint);
    let capacity = buffer.capacity;
    assert_eq!(drop_buffer(&mut buffer), 0);
    capacity
}

#[test]
fn an_endpoint_says_by_which_address_it_is_named() {
    let pair = EndpointPair::new();
    // SAFETY: text() gives a buffer of the stated size.
    let address = text(|to, size| unsafe { gigae_address(pair.a, to, size) });
    assert_eq!(address, mac(pair.a), "port id and channel are 0");
    pair.close();
}

#[test]
fn options_are_checked_one_by_one() {
    let mut options = null_mut();
    // SAFETY: text with a NUL, and a pointer to write to.
    assert_eq!(unsafe { gigae_options_new(c"nosuch".as_ptr(), &mut options) }, 0);
    let o = options;
    // SAFETY: the array's own size, or one that is refused.
    let channels = |count| unsafe { gigae_options_channels(o, [1, 2].as_ptr(), count) };
    let good = [
        gigae_options_port(o, 7),
        channels(2),
        gigae_options_ethertype(o, 0x88b6),
        gigae_options_udp(o, 4791),
        gigae_options_queue(o, 1),
        gigae_options_wait(o, GIGAE_WAIT_SLEEP),
        gigae_options_busy_poll(o, GIGAE_BUSY_POLL_ON, 20, 8),
        gigae_options_busy_poll(o, GIGAE_BUSY_POLL_OFF, 0, 0),
        gigae_options_busy_poll(o, GIGAE_BUSY_POLL_AUTO, 0, 0),
        gigae_options_peer_timeout(o, 1),
        gigae_options_linger(o, 0),
        gigae_options_go_back_n(o),
        gigae_options_aggregate(o, 0),
        gigae_options_lend(o, 0),
        gigae_options_payload_checksum(o, 0),
        gigae_options_local(o, 1),
        gigae_options_local(o, 0),
        gigae_options_bulk(o, 0),
        gigae_options_bulk(o, 1),
        gigae_options_progress(o, GIGAE_PROGRESS_MANUAL),
        gigae_options_progress(o, GIGAE_PROGRESS_AUTO),
    ];
    assert_eq!(good, [0; 21]);
    for backend in GIGAE_BACKEND_AUTO..=GIGAE_BACKEND_UDP {
        assert_eq!(gigae_options_backend(o, backend), 0);
    }
    for sharing in GIGAE_SHARING_ALONE..=GIGAE_SHARING_CHILD {
        assert_eq!(gigae_options_sharing(o, sharing), 0);
    }
    let bad = [
        channels(0),
        channels(257),
        gigae_options_ethertype(o, 0x05ff),
        gigae_options_udp(o, 0),
        gigae_options_wait(o, 3),
        gigae_options_busy_poll(o, -1, 0, 0),
        gigae_options_peer_timeout(o, 0),
        gigae_options_backend(o, 7),
        gigae_options_sharing(o, 3),
        gigae_options_broker(o, 3),
        gigae_options_broker(o, -1),
        gigae_options_progress(o, 2),
    ];
    assert_eq!(bad, [INVALID; 12]);
    assert_eq!(gigae_options_broker(o, GIGAE_BROKER_ONLY), 0);
    let mut endpoint = ptr::without_provenance_mut(1);
    // SAFETY: a pointer to write to.
    let code = unsafe { gigae_open_with(options, &mut endpoint) };
    assert_eq!((code, endpoint), (Code::Io as c_int, null_mut()));
    assert!(last_error().contains("no broker listens"), "{}", last_error());
    assert_eq!(gigae_options_broker(o, GIGAE_BROKER_AUTO), 0);
    assert_eq!(gigae_options_broker(o, GIGAE_BROKER_NEVER), 0);
    // SAFETY: a pointer to write to.
    let code = unsafe { gigae_open_with(options, &mut endpoint) };
    assert_eq!((code, endpoint), (Code::NoInterface as c_int, null_mut()));
    assert!(last_error().starts_with("no interface 'nosuch' here"), "{}", last_error());
    assert_eq!((gigae_options_free(o), gigae_options_free(o)), (0, BAD_HANDLE));
    assert_eq!(gigae_options_port(o, 7), BAD_HANDLE);
}

/// Options for several interfaces as one, or the code.
fn trunk(names: &[&CStr], count: usize) -> Result<*mut OptionsHandle, c_int> {
    let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let mut options = ptr::without_provenance_mut(1);
    // SAFETY: as many names as there are, or a number that is refused.
    match unsafe { gigae_options_trunk(names.as_ptr(), count, &mut options) } {
        0 => Ok(options),
        code => {
            assert!(options.is_null());
            Err(code)
        }
    }
}

#[test]
fn several_interfaces_are_named_and_those_that_cannot_be_one_refused() {
    assert_eq!((trunk(&[], 0), trunk(&[], 9)), (Err(INVALID), Err(INVALID)));
    let mut options = null_mut();
    // SAFETY: NULL is what is tried.
    let code = unsafe { gigae_options_trunk(null(), 2, &mut options) };
    assert_eq!((code, options), (INVALID, null_mut()));
    // SAFETY: NULL as one of two names is what is tried.
    let code = unsafe { gigae_options_trunk([c"a".as_ptr(), null()].as_ptr(), 2, &mut options) };
    assert_eq!((code, options), (INVALID, null_mut()));
    let open = |options: *mut OptionsHandle| {
        let mut endpoint = null_mut();
        // SAFETY: a pointer to write to.
        let code = unsafe { gigae_open_with(options, &mut endpoint) };
        assert_eq!((endpoint, gigae_options_free(options)), (null_mut(), 0));
        code
    };
    assert_eq!(open(trunk(&[c"nosuch", c"lo"], 2).unwrap()), Code::NoInterface as c_int);
    assert_eq!(open(trunk(&[c"lo", c"lo"], 2).unwrap()), INVALID);
    assert!(last_error().contains("named twice"), "{}", last_error());
    let udp = trunk(&[c"lo", c"nosuch"], 2).unwrap();
    assert_eq!((gigae_options_udp(udp, 4791), open(udp)), (0, INVALID));
}

/// Its interfaces, as many as there is room for, and what was answered.
fn paths(endpoint: Handle, room: usize) -> (Vec<Path>, c_int) {
    let mut paths = vec![Path::default(); room];
    // NULL where there is no room.
    let to = if room == 0 { null_mut() } else { paths.as_mut_ptr() };
    // SAFETY: there is room for as many as is said.
    let count = unsafe { gigae_paths(endpoint, to, room) };
    (paths, count)
}

#[test]
fn every_interface_of_an_endpoint_has_its_counts() {
    let net = Network::new(1, Faults::default());
    let open = |seed| {
        let options = Options::trunk(["one", "two"]).open_simulated(&net, seed).unwrap();
        let state = Box::new(OpenEndpoint::new(options));
        ptr::without_provenance_mut::<EndpointHandle>(ENDPOINTS.insert(state).unwrap())
    };
    let (a, b) = (open(1), open(2));
    let (to_b, to_a) = (peer(a, &mac(b)), peer(b, &mac(a)));
    let pair = EndpointPair { net, a, b, to_b, to_a };
    for _ in 0..4 {
        (0..50).for_each(|n| assert_eq!(send(pair.a, pair.to_b, &[n; 1000]), 0));
        pair.pass();
        (0..50).for_each(|_| assert_eq!(drop_message(&mut receive(pair.b).unwrap()), 0));
    }
    let (both, count) = paths(pair.a, 3);
    assert_eq!((count, both[2]), (2, Path::default()), "what is not there is left alone");
    assert!(both[..2].iter().all(|path| path.frames_sent > 20), "{both:?}");
    assert_eq!(both.iter().map(|path| path.deaths + path.frames_lost).sum::<u64>(), 0);
    assert!(both[..2].iter().all(|path| path.interface[0] != 0 && path.interface[15] == 0));
    assert_eq!((paths(pair.a, 1).1, paths(pair.a, 0).1), (2, 2));
    // SAFETY: NULL is what is tried.
    assert_eq!(unsafe { gigae_paths(pair.a, null_mut(), 1) }, INVALID);
    pair.close();
}

/// A cluster file in its own directory, loaded.
fn load(text: &str) -> (tempfile::TempDir, Result<*mut ClusterHandle, c_int>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cluster.toml");
    std::fs::write(&path, text).unwrap();
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let mut cluster = ptr::dangling_mut();
    // SAFETY: text with a NUL, and a pointer to write to.
    let loaded = match unsafe { gigae_cluster_load(path.as_ptr(), &mut cluster) } {
        0 => Ok(cluster),
        code => {
            assert!(cluster.is_null(), "there is nothing to free");
            Err(code)
        }
    };
    (directory, loaded)
}

const CLUSTER: c_int = Code::Cluster as c_int;

/// The loopback's address makes every host the second node.
const TWO_NODES: &str = "port = 7\n[[node]]\nname = \"n1\"\nnic = [{ mac = \"02:00:00:00:00:01\" }]\n\
     [[node]]\nname = \"n2\"\nnic = [{ ip = \"127.0.0.1\" }]\n";

#[test]
fn a_cluster_is_read_and_asked() {
    let (_directory, cluster) = load(TWO_NODES);
    let cluster = cluster.unwrap();
    let (mut count, mut own, mut number) = (0, 9, 9);
    // SAFETY: numbers to write to, text with a NUL, and buffers of their stated sizes.
    unsafe {
        assert_eq!((gigae_cluster_count(cluster, &mut count), count), (0, 2));
        assert_eq!((gigae_cluster_self(cluster, &mut own), own), (0, 1));
        let name = c"n1".as_ptr();
        assert_eq!((gigae_cluster_number(cluster, name, &mut number), number), (0, 0));
        let address = text(|to, size| gigae_cluster_address(cluster, 0, to, size));
        assert_eq!(address, "02:00:00:00:00:01/7");
        assert_eq!(text(|to, size| gigae_cluster_name(cluster, 1, to, size)), "n2");
        let mut options = null_mut();
        assert_eq!(gigae_cluster_options(cluster, &mut options), 0);
        assert_eq!(gigae_cluster_free(cluster), 0);
        assert_eq!(gigae_options_port(options, 8), 0, "they outlive the cluster");
        assert_eq!(gigae_options_free(options), 0);
    }
}

#[test]
fn what_is_wrong_with_a_cluster_is_reported() {
    let refused = load("[[node]]\nname = \"n1\"\nnic = []\n").1;
    assert_eq!(refused, Err(CLUSTER));
    assert!(last_error().contains("cluster.toml:3: node 'n1' has no NIC"), "{}", last_error());
    let (_directory, cluster) = load(TWO_NODES);
    let cluster = cluster.unwrap();
    let mut number = 5;
    // SAFETY: as above; NULL is answered.
    unsafe {
        assert_eq!(gigae_cluster_number(cluster, c"n9".as_ptr(), &mut number), CLUSTER);
        assert!(last_error().ends_with("no node 'n9'; choose one of: n1, n2"), "{}", last_error());
        assert_eq!(number, 5, "nothing is changed");
        assert_eq!(gigae_cluster_number(cluster, null(), &mut number), INVALID);
        assert_eq!(gigae_cluster_number(cluster, c"\xff".as_ptr(), &mut number), INVALID);
        assert_eq!(gigae_cluster_number(cluster, c"n1".as_ptr(), null_mut()), INVALID);
        assert_eq!(gigae_cluster_count(cluster, null_mut()), INVALID);
        assert_eq!(gigae_cluster_self(cluster, null_mut()), INVALID);
        assert_eq!(gigae_cluster_name(cluster, 2, null_mut(), 0), INVALID);
        assert_eq!(gigae_cluster_address(cluster, 2, null_mut(), 0), CLUSTER);
        assert_eq!(gigae_cluster_address(cluster, 1, null_mut(), 0), CLUSTER, "it has no mac");
        assert_eq!(gigae_cluster_options(cluster, null_mut()), INVALID);
        assert_eq!(gigae_cluster_load(c"/nonexistent".as_ptr(), null_mut()), INVALID);
        assert_eq!(gigae_cluster_free(cluster), 0);
        assert_eq!(gigae_cluster_free(cluster), BAD_HANDLE);
        assert_eq!(gigae_cluster_count(cluster, &mut number), BAD_HANDLE);
        assert_eq!(gigae_cluster_free(null_mut()), INVALID);
        assert_eq!(gigae_options_free(cluster.cast()), BAD_HANDLE, "of another kind");
    }
}
