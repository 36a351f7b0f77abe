//! Endpoints on real interfaces, over every backend and both envelopes, in network namespaces that
//! each test makes and removes. Needs root.
#![allow(missing_docs)]

mod bulk;
mod discovery;
mod neighbours;
#[path = "../numbered/mod.rs"]
mod numbered;
mod obstacles;
mod operations;
mod priority;
mod programs;
mod sockets;

use bulk::*;
use discovery::*;
use gigae::{
    Address, Backend, Cluster, Endpoint, Envelope, MeasuredBackends, Mode, OpenError, Options,
    PeerError, Progress, Reason, Sharing, Wait,
};
use gigae_fabric::{Fabric, FabricConfig, Node, testing};
use neighbours::*;
use numbered::body;
use obstacles::*;
use operations::*;
use priority::*;
use programs::*;
use sockets::*;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

const UDP: Envelope = Envelope::Udp { port: 4791 };

fn on(node: &Node, options: Options) -> Result<Endpoint, OpenError> {
    let _inside = node.enter().unwrap();
    options.open()
}

fn options(backend: Backend) -> Options {
    Options::new("eth0").backend(backend).wait(Wait::Sleep)
}

/// The same numbered messages of all sizes both ways at once; every byte is checked.
fn exchange(fabric: &Fabric, options: &Options, by_ip: bool, count: u32) {
    let address = |n: u16| match by_ip {
        true => Address::from(IpAddr::from(fabric.node(n).ipv4)),
        false => Address::from(gigae::MacAddr(fabric.node(n).mac)),
    };
    std::thread::scope(|scope| {
        for (me, other) in [(1, 2), (2, 1)] {
            let endpoint = on(&fabric.node(me), options.clone()).unwrap();
            let other = address(other);
            scope.spawn(move || converse(&endpoint, other, count));
        }
    });
}

fn converse(endpoint: &Endpoint, other: Address, count: u32) {
    let peer = endpoint.peer(other).unwrap();
    let max = endpoint.max_message();
    let (mut sent, mut got) = (0, 0);
    while got < count || sent < count {
        // A batch, then what has come: neither end waits for the other to finish.
        let end = count.min(sent + 16);
        while sent < end {
            match endpoint.try_send(peer, &body(sent, max)) {
                Ok(()) => sent += 1,
                Err(gigae::TrySendError::WouldBlock(())) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let patience = if sent < count { Duration::ZERO } else { PATIENCE };
        while got < count {
            let Some(message) = endpoint.recv_timeout(patience).unwrap() else { break };
            assert_eq!(message[..], body(got, max), "message {got}");
            got += 1;
        }
        assert!(sent < count || got == count, "{got} of {count} messages came in time");
    }
    endpoint.drain(PATIENCE).unwrap();
}

fn over(backend: Backend, by_ip: bool) {
    let fabric = testing::fabric("over", |_| ());
    let options = options(backend);
    exchange(&fabric, &if by_ip { options.envelope(UDP) } else { options }, by_ip, 5_000);
}

fn messages_pass_over_xdp_generic() {
    over(Backend::XdpMode(Mode::XdpGeneric), false);
}

fn messages_pass_over_xdp_native() {
    over(Backend::XdpMode(Mode::XdpNative), false);
}

fn messages_pass_over_packet_sockets() {
    over(Backend::Packet, false);
}

/// For as long as others arrive as a link has frames, and more.
fn a_message_that_the_program_keeps_stops_no_others() {
    let fabric = testing::fabric("keep", |_| ());
    for backend in [Backend::Packet, Backend::Udp] {
        let node = fabric.node(2);
        let (options, address) = match backend {
            Backend::Udp => (options(backend).envelope(UDP), IpAddr::from(node.ipv4).into()),
            _ => (options(backend), Address::from(gigae::MacAddr(node.mac))),
        };
        let [a, b] = pair(&fabric, &options);
        let to_b = a.peer(address).unwrap();
        let mut kept = None;
        let receive = || b.recv_timeout(PATIENCE).unwrap().expect("a message comes");
        for n in 0..10_000_u32 {
            a.send(to_b, &n.to_le_bytes()).unwrap();
            a.flush().unwrap();
            let message = receive();
            assert_eq!(message[..], n.to_le_bytes(), "{backend:?}");
            kept.get_or_insert(message);
        }
        assert_eq!(kept.unwrap()[..], [0; 4], "{backend:?}");
    }
}

/// A message is no longer than what one buffer of the link holds.
fn messages_pass_on_a_jumbo_network() {
    let fabric = testing::fabric("jumbo", |config| config.mtu = 9000);
    for (backend, most) in [
        (Backend::XdpMode(Mode::XdpGeneric), 3840 - 14 - 32),
        (Backend::XdpMode(Mode::XdpNative), 3840 - 14 - 32),
        (Backend::Packet, 9000 - 32),
    ] {
        let endpoint = on(&fabric.node(1), options(backend)).unwrap();
        assert_eq!(endpoint.max_message(), most, "{:?}", endpoint.link());
        drop(endpoint);
        exchange(&fabric, &options(backend), false, 2_000);
    }
}

fn messages_pass_in_the_udp_envelope_over_xdp() {
    over(Backend::Xdp, true);
}

fn messages_pass_in_the_udp_envelope_over_packet_sockets() {
    over(Backend::Packet, true);
}

fn messages_pass_in_the_udp_envelope_over_ipv6() {
    let fabric = testing::fabric("ipv6", |_| ());
    let options = options(Backend::Xdp).envelope(UDP);
    let a = on(&fabric.node(1), options.clone()).unwrap();
    let b = on(&fabric.node(2), options).unwrap();
    let to_b = a.peer(IpAddr::from(fabric.node(2).ipv6)).unwrap();
    // The second end does not know the first: it answers the sender of the question.
    let answering = std::thread::spawn(move || {
        let question = b.recv_timeout(PATIENCE).unwrap().expect("the question came");
        b.send(question.from(), &question).unwrap();
        drop(question);
        b.drain(PATIENCE).unwrap();
    });
    a.send(to_b, b"question").unwrap();
    assert_eq!(&a.recv_timeout(PATIENCE).unwrap().expect("the answer came")[..], b"question");
    a.prepare_to_wait().unwrap();
    answering.join().unwrap();
}

fn the_two_backends_understand_each_other() {
    let fabric = testing::fabric("mixed", |_| ());
    let a = on(&fabric.node(1), options(Backend::Packet)).unwrap();
    let b = on(&fabric.node(2), options(Backend::Xdp)).unwrap();
    let (ma, mb) = (a.link().mac, b.link().mac);
    std::thread::scope(|scope| {
        scope.spawn(move || converse(&a, mb.into(), 1000));
        scope.spawn(move || converse(&b, ma.into(), 1000));
    });
}

fn a_link_that_loses_doubles_and_corrupts_frames_loses_no_message() {
    let fabric = testing::fabric("wild", |config: &mut FabricConfig| {
        config.loss = 0.02;
        config.duplicate = 0.01;
        config.corrupt = 0.01;
        config.seed = 7;
    });
    exchange(&fabric, &options(Backend::Xdp), false, 3_000);
    exchange(&fabric, &options(Backend::Xdp).go_back_n(), false, 1_000);
    let counters = fabric.impairment_counters().unwrap();
    assert!(counters.iter().all(|c| c.dropped > 0 && c.duplicated > 0 && c.corrupted > 0));
}

fn a_gigabit_link_with_a_small_buffer_carries_all() {
    let fabric = testing::fabric("shaped", |config: &mut FabricConfig| {
        config.rate = Some(gigae_fabric::Rate::GIGABIT);
        config.buffer = 128 * 1024;
    });
    exchange(&fabric, &options(Backend::Xdp), false, 10_000);
}

/// They load an XDP program, or lose frames.
const OF_ROOT: &[&str] = &[
    "a_note_of_measured_round_trips_chooses_the_backend_and_is_said",
    "a_sleeping_sender_wakes_up_when_its_window_opens",
    "messages_pass_over_xdp_generic",
    "messages_pass_over_xdp_native",
    "messages_pass_on_a_jumbo_network",
    "short_messages_have_a_tag_over_xdp",
    "messages_pass_in_the_udp_envelope_over_xdp",
    "messages_pass_in_the_udp_envelope_over_ipv6",
    "the_two_backends_understand_each_other",
    "udp_sockets_and_the_other_links_understand_each_other",
    "udp_sockets_lose_no_message_where_the_wire_loses_and_doubles_buffers",
    "long_messages_go_by_the_socket_and_short_ones_by_the_link",
    "where_datagrams_come_one_by_one_each_has_a_number_and_the_link_has_lone_messages",
    "without_a_socket_the_link_carries_everything",
    "a_socket_that_stops_to_work_costs_no_message",
    "long_messages_survive_a_wire_that_loses_doubles_and_corrupts",
    "an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too",
    "operations_pass_over_xdp_generic_at_every_mtu",
    "operations_pass_over_xdp_native_at_every_mtu",
    "operations_pass_in_the_udp_envelope_on_a_jumbo_network",
    "operations_fill_jumbo_frames",
    "a_switch_that_swallows_long_frames_is_found_out",
    "operations_pass_through_loss_duplication_and_corruption",
    "a_link_that_loses_doubles_and_corrupts_frames_loses_no_message",
    "a_gigabit_link_with_a_small_buffer_carries_all",
    "all_three_waiting_styles_end_a_conversation",
    "a_tcp_connection_on_the_same_interface_goes_on",
    "a_peer_that_is_not_there_is_reported_with_its_message",
    "nodes_are_discovered_and_named_over_xdp",
    "nodes_are_discovered_and_named_in_the_udp_envelope",
    "epoll_wakes_up_for_a_message",
    "a_message_that_is_refused_while_the_interface_is_down_is_not_sent",
    "what_was_posted_while_the_interface_was_down_goes_when_it_is_up",
];

fn main() {
    testing::for_users_except(OF_ROOT).run(&[
        ("the_first_program_says_hello", the_first_program_says_hello as fn()),
        (
            "a_sleeping_sender_wakes_up_when_its_window_opens",
            a_sleeping_sender_wakes_up_when_its_window_opens,
        ),
        ("messages_pass_over_xdp_generic", messages_pass_over_xdp_generic),
        ("messages_pass_over_xdp_native", messages_pass_over_xdp_native),
        ("messages_pass_over_packet_sockets", messages_pass_over_packet_sockets),
        (
            "a_message_that_the_program_keeps_stops_no_others",
            a_message_that_the_program_keeps_stops_no_others,
        ),
        ("messages_pass_on_a_jumbo_network", messages_pass_on_a_jumbo_network),
        (
            "short_messages_have_a_tag_over_packet_sockets",
            short_messages_have_a_tag_over_packet_sockets,
        ),
        ("short_messages_have_a_tag_over_xdp", short_messages_have_a_tag_over_xdp),
        ("a_link_over_a_udp_socket_has_no_tags", a_link_over_a_udp_socket_has_no_tags),
        ("a_priority_that_there_is_not_is_refused", a_priority_that_there_is_not_is_refused),
        ("messages_pass_in_the_udp_envelope_over_xdp", messages_pass_in_the_udp_envelope_over_xdp),
        (
            "messages_pass_in_the_udp_envelope_over_packet_sockets",
            messages_pass_in_the_udp_envelope_over_packet_sockets,
        ),
        (
            "messages_pass_in_the_udp_envelope_over_ipv6",
            messages_pass_in_the_udp_envelope_over_ipv6,
        ),
        ("the_two_backends_understand_each_other", the_two_backends_understand_each_other),
        (
            "messages_and_operations_pass_over_udp_sockets_at_every_mtu",
            messages_and_operations_pass_over_udp_sockets_at_every_mtu,
        ),
        (
            "udp_sockets_and_the_other_links_understand_each_other",
            udp_sockets_and_the_other_links_understand_each_other,
        ),
        (
            "udp_sockets_lose_no_message_where_the_wire_loses_and_doubles_buffers",
            udp_sockets_lose_no_message_where_the_wire_loses_and_doubles_buffers,
        ),
        (
            "long_messages_go_by_the_socket_and_short_ones_by_the_link",
            long_messages_go_by_the_socket_and_short_ones_by_the_link,
        ),
        (
            "where_datagrams_come_one_by_one_each_has_a_number_and_the_link_has_lone_messages",
            where_datagrams_come_one_by_one_each_has_a_number_and_the_link_has_lone_messages,
        ),
        (
            "a_child_of_a_nic_has_a_socket_at_the_address_of_the_nic",
            a_child_of_a_nic_has_a_socket_at_the_address_of_the_nic,
        ),
        (
            "endpoints_at_one_ip_address_do_not_get_each_others_long_messages",
            endpoints_at_one_ip_address_do_not_get_each_others_long_messages,
        ),
        ("the_port_of_a_socket_is_its_own", the_port_of_a_socket_is_its_own),
        (
            "beside_a_udp_link_long_messages_go_by_a_socket_of_their_own",
            beside_a_udp_link_long_messages_go_by_a_socket_of_their_own,
        ),
        ("a_long_write_goes_out_behind_answers", a_long_write_goes_out_behind_answers),
        (
            "without_a_socket_the_link_carries_everything",
            without_a_socket_the_link_carries_everything,
        ),
        (
            "a_socket_that_stops_to_work_costs_no_message",
            a_socket_that_stops_to_work_costs_no_message,
        ),
        (
            "a_strangers_datagrams_change_no_long_message",
            a_strangers_datagrams_change_no_long_message,
        ),
        (
            "long_messages_survive_a_wire_that_loses_doubles_and_corrupts",
            long_messages_survive_a_wire_that_loses_doubles_and_corrupts,
        ),
        (
            "an_ordinary_user_opens_an_endpoint_in_the_udp_envelope",
            an_ordinary_user_opens_an_endpoint_in_the_udp_envelope,
        ),
        (
            "a_udp_port_has_one_endpoint_and_the_error_says_so",
            a_udp_port_has_one_endpoint_and_the_error_says_so,
        ),
        ("icmp_ends_no_link_over_a_udp_socket", icmp_ends_no_link_over_a_udp_socket),
        (
            "a_firewall_that_opens_again_costs_no_message",
            a_firewall_that_opens_again_costs_no_message,
        ),
        (
            "a_firewall_on_the_bulk_sockets_port_leaves_long_messages_to_the_link",
            a_firewall_on_the_bulk_sockets_port_leaves_long_messages_to_the_link,
        ),
        (
            "where_the_bulk_socket_stops_to_work_a_udp_link_carries_long_messages_to_any_link",
            where_the_bulk_socket_stops_to_work_a_udp_link_carries_long_messages_to_any_link,
        ),
        (
            "an_mtu_that_shrinks_on_the_way_costs_no_long_message",
            an_mtu_that_shrinks_on_the_way_costs_no_long_message,
        ),
        (
            "a_link_that_carries_less_than_before_costs_no_long_message",
            a_link_that_carries_less_than_before_costs_no_long_message,
        ),
        (
            "nodes_with_ipv6_alone_have_a_socket_for_long_messages",
            nodes_with_ipv6_alone_have_a_socket_for_long_messages,
        ),
        (
            "endpoints_that_share_a_nic_have_udp_ports_of_their_own",
            endpoints_that_share_a_nic_have_udp_ports_of_their_own,
        ),
        (
            "an_endpoint_of_another_namespace_answers_its_neighbour_although_its_program_computes",
            an_endpoint_of_another_namespace_answers_its_neighbour_although_its_program_computes,
        ),
        ("endpoints_over_udp_sockets_find_each_other", endpoints_over_udp_sockets_find_each_other),
        (
            "an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too",
            an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too,
        ),
        (
            "operations_pass_over_xdp_generic_at_every_mtu",
            operations_pass_over_xdp_generic_at_every_mtu,
        ),
        (
            "operations_pass_over_xdp_native_at_every_mtu",
            operations_pass_over_xdp_native_at_every_mtu,
        ),
        (
            "operations_pass_over_packet_sockets_at_every_mtu",
            operations_pass_over_packet_sockets_at_every_mtu,
        ),
        (
            "operations_pass_in_the_udp_envelope_on_a_jumbo_network",
            operations_pass_in_the_udp_envelope_on_a_jumbo_network,
        ),
        (
            "operations_with_oneself_pass_in_the_udp_envelope",
            operations_with_oneself_pass_in_the_udp_envelope,
        ),
        (
            "no_key_of_a_registered_memory_follows_from_another",
            no_key_of_a_registered_memory_follows_from_another,
        ),
        ("operations_fill_jumbo_frames", operations_fill_jumbo_frames),
        (
            "a_switch_that_swallows_long_frames_is_found_out",
            a_switch_that_swallows_long_frames_is_found_out,
        ),
        (
            "operations_pass_through_loss_duplication_and_corruption",
            operations_pass_through_loss_duplication_and_corruption,
        ),
        (
            "a_link_that_loses_doubles_and_corrupts_frames_loses_no_message",
            a_link_that_loses_doubles_and_corrupts_frames_loses_no_message,
        ),
        (
            "a_gigabit_link_with_a_small_buffer_carries_all",
            a_gigabit_link_with_a_small_buffer_carries_all,
        ),
        (
            "all_three_waiting_styles_end_a_conversation",
            all_three_waiting_styles_end_a_conversation,
        ),
        (
            "a_tcp_connection_on_the_same_interface_goes_on",
            a_tcp_connection_on_the_same_interface_goes_on,
        ),
        (
            "two_programs_on_one_interface_use_two_channels",
            two_programs_on_one_interface_use_two_channels,
        ),
        (
            "a_peer_that_is_not_there_is_reported_with_its_message",
            a_peer_that_is_not_there_is_reported_with_its_message,
        ),
        (
            "a_second_endpoint_on_the_same_queue_falls_back_and_says_why",
            a_second_endpoint_on_the_same_queue_falls_back_and_says_why,
        ),
        (
            "a_note_of_measured_round_trips_chooses_the_backend_and_is_said",
            a_note_of_measured_round_trips_chooses_the_backend_and_is_said,
        ),
        (
            "what_cannot_be_opened_says_in_one_line_what_to_do",
            what_cannot_be_opened_says_in_one_line_what_to_do,
        ),
        ("nodes_are_discovered_and_named_over_xdp", nodes_are_discovered_and_named_over_xdp),
        (
            "nodes_are_discovered_and_named_over_packet_sockets",
            nodes_are_discovered_and_named_over_packet_sockets,
        ),
        (
            "nodes_are_discovered_and_named_in_the_udp_envelope",
            nodes_are_discovered_and_named_in_the_udp_envelope,
        ),
        (
            "an_interface_without_a_subnet_cannot_ask_in_the_udp_envelope",
            an_interface_without_a_subnet_cannot_ask_in_the_udp_envelope,
        ),
        (
            "an_earlier_sender_in_a_nodes_name_gets_nothing_that_is_sent_to_the_node",
            an_earlier_sender_in_a_nodes_name_gets_nothing_that_is_sent_to_the_node,
        ),
        (
            "a_node_that_comes_back_with_another_mac_address_is_reachable_again",
            a_node_that_comes_back_with_another_mac_address_is_reachable_again,
        ),
        (
            "a_node_whose_neighbour_entry_changes_in_a_conversation_is_asked_for_again",
            a_node_whose_neighbour_entry_changes_in_a_conversation_is_asked_for_again,
        ),
        ("epoll_wakes_up_for_a_message", epoll_wakes_up_for_a_message),
        (
            "a_message_that_is_refused_while_the_interface_is_down_is_not_sent",
            a_message_that_is_refused_while_the_interface_is_down_is_not_sent,
        ),
        (
            "what_was_posted_while_the_interface_was_down_goes_when_it_is_up",
            what_was_posted_while_the_interface_was_down_goes_when_it_is_up,
        ),
    ]);
}
