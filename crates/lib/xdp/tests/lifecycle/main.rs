//! How AF_XDP links begin and end: what is chosen, what is refused, what is left behind.

#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod frames;
mod interface;
mod opening;
mod parts;
mod privileges;
mod program;

use common::{over_ipv4, route};
use frames::*;
use gigae_fabric::{Fabric, testing};
use gigae_link::conformance::{CHANNEL, OTHER_CHANNEL, PairOptions, frame, only, send};
use gigae_link::{Arena, ChannelSet, LentMemory, Link, LinkError, Mode, OpenError};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_wire::{Envelope, Route};
use gigae_xdp::{BusyPoll, XdpConfig, XdpLink};
use interface::*;
use opening::*;
use parts::*;
use privileges::*;
use program::*;
use rustix::thread::CapabilitySet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Set for a child that opens a link, says so and waits to be killed.
const CHILD: &str = "GIGAE_XDP_TEST_CHILD";

/// Far more than anything bounded here takes, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

fn main() {
    if let Some(interface) = std::env::var_os(CHILD) {
        let config = XdpConfig::new(interface.to_str().unwrap(), options().filter);
        let _link = XdpLink::open(config).unwrap();
        println!("open");
        std::thread::sleep(BOUND);
        return;
    }
    testing::run(&[
        ("a_veth_gets_generic_mode_and_the_reason_is_reported", veth_gets_generic as fn()),
        ("a_bridge_falls_back_to_generic_mode", a_bridge_falls_back_to_generic_mode),
        ("a_mode_that_is_asked_for_is_not_replaced", a_mode_that_is_asked_for_is_not_replaced),
        ("jumbo_frames_are_carried_in_several_buffers", jumbo_frames_are_carried),
        ("one_buffer_is_used_as_far_as_the_driver_goes", one_buffer_as_far_as_the_driver_goes),
        ("frames_can_be_limited_to_one_buffer", frames_can_be_limited_to_one_buffer),
        ("frames_of_any_mtu_are_limited_to_a_few_chunks", frames_of_any_mtu_are_limited),
        ("long_frames_pass_between_packet_and_xdp_links", long_frames_pass_between_backends),
        ("what_the_peers_mtu_forbids_vanishes_and_nothing_else", peers_of_a_lesser_mtu),
        ("a_frame_longer_than_its_reader_expected_is_dropped", frames_after_a_raised_mtu),
        ("opening_reads_nothing_of_the_kernels_own_types", opening_reads_nothing),
        ("each_page_of_frame_memory_is_made_once", each_page_is_made_once),
        ("frames_pass_while_a_fork_of_the_process_is_there", a_fork_changes_nothing),
        ("a_mode_that_was_refused_is_not_tried_again_for_an_hour", refusals_are_noted),
        ("the_program_goes_when_the_link_is_dropped", the_program_goes_when_the_link_is_dropped),
        ("the_program_goes_although_a_fork_has_a_copy", a_copy_does_not_keep_the_program),
        ("the_program_goes_when_the_process_is_killed", the_program_goes_with_the_process),
        ("a_program_that_is_taken_away_is_reported", a_program_that_is_taken_away),
        (
            "a_link_beside_one_whose_program_was_taken_away_has_its_own",
            a_link_beside_a_detached_one,
        ),
        ("a_program_that_is_replaced_is_reported", a_program_that_is_replaced),
        ("a_link_can_be_opened_again_at_once", a_link_can_be_opened_again_at_once),
        ("a_foreign_program_is_refused_and_left_alone", a_foreign_program_is_left_alone),
        ("a_second_link_on_an_interface_is_refused", a_second_link_on_an_interface_is_refused),
        ("what_cannot_be_opened_is_refused_in_one_line", what_cannot_be_opened_is_refused),
        ("missing_capabilities_are_named", missing_capabilities_are_named),
        ("the_capabilities_that_are_documented_are_enough", documented_capabilities_are_enough),
        ("a_link_is_assembled_of_its_parts_without_privileges", parts_are_assembled),
        ("who_has_the_parts_of_a_link_can_make_nothing_else_of_them", parts_cannot_be_changed),
        ("frames_that_come_while_a_link_is_made_shift_no_chunk", a_flood_shifts_no_chunk),
        ("frames_that_a_child_gets_back_of_itself_shift_no_chunk", own_frames_shift_no_chunk),
        ("memory_that_its_owner_has_not_filled_is_refused", memory_that_is_not_there_is_refused),
        ("an_unbound_socket_would_be_bound_anywhere", an_unbound_socket_would_be_bound_anywhere),
        ("an_interface_that_goes_down_is_reported_and_comes_back", going_down_is_reported),
        ("an_interface_that_is_deleted_is_reported", deletion_is_reported),
        ("frames_of_another_channel_reach_a_packet_link", other_channels_reach_a_packet_link),
        ("datagrams_of_another_channel_reach_the_kernel", other_datagrams_reach_the_kernel),
        ("frames_leave_without_the_wakeup_flag_too", frames_leave_without_the_wakeup_flag),
        ("a_priority_tag_in_the_bytes_of_a_frame_is_seen", a_tag_in_the_bytes_is_seen),
        ("as_many_frames_are_ready_as_are_asked_for", as_many_frames_are_ready),
        ("what_is_recycled_is_ready_before_a_sleep", recycled_frames_are_ready),
        ("busy_polling_drives_the_driver_when_the_ring_is_empty", busy_polling_drives),
    ]);
}

fn options() -> PairOptions {
    PairOptions::new(Envelope::DEFAULT)
}

fn config(interface: &str) -> XdpConfig {
    // Without what other tests saw.
    XdpConfig { notes: None, ..XdpConfig::new(interface, options().filter) }
}

/// Opens a link on node 1.
fn open(fabric: &Fabric, config: XdpConfig) -> Result<XdpLink, OpenError> {
    let _inside = fabric.node(1).enter().unwrap();
    XdpLink::open(config)
}

/// Runs `ip` in node 1; what it printed.
fn ip(fabric: &Fabric, arguments: &str) -> String {
    let mut command = fabric.node(1).command("ip").unwrap();
    let output = command.args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn has_program(fabric: &Fabric) -> bool {
    ip(fabric, "link show dev eth0").contains("prog/xdp")
}

/// The kernel's number of the program that node 1's interface has.
fn program(fabric: &Fabric) -> u32 {
    let text = ip(fabric, "link show dev eth0");
    let after = text.split("prog/xdp id ").nth(1).expect("there is a program");
    after.split(' ').next().unwrap().parse().unwrap()
}
