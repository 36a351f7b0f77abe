//! `gigae mount` between nodes of a virtual network: programs use the files of another node.
#![allow(missing_docs)]

mod changing;
mod common;
mod ends;
mod looking;
mod reading;
#[path = "../sharing/mod.rs"]
mod sharing;
mod writing;

use gigae_fabric::{testing, tests};

fn main() {
    testing::run(tests![
        reading::a_tree_is_seen_as_it_is,
        reading::a_part_of_a_share_is_mounted_in_udp_datagrams,
        reading::a_large_directory_is_listed_whole,
        reading::nothing_can_be_written,
        reading::a_file_that_was_closed_is_seen_by_the_next_program_that_opens_it,
        reading::a_file_that_becomes_shorter_has_no_zeros_at_its_end,
        reading::a_file_that_was_replaced_is_never_read_as_the_former_one,
        reading::symlinks_lead_to_files_of_this_host_and_devices_nowhere,
        reading::several_programs_read_at_the_same_time,
        reading::other_users_see_nothing_unless_they_may,
        writing::what_is_written_is_at_the_node_when_the_file_is_closed,
        writing::names_and_attributes_are_changed,
        writing::a_tree_is_copied_into_a_mount_and_removed,
        writing::a_share_that_is_read_only_stays_so,
        writing::writing_goes_on_when_the_server_is_started_again,
        writing::what_was_written_and_closed_is_seen_by_the_next_that_opens_it,
        writing::a_name_that_another_has_made_is_seen_after_a_moment,
        writing::a_file_that_is_removed_while_it_is_open_is_used_until_it_is_closed,
        writing::what_is_written_when_the_command_ends_is_at_the_node,
        writing::several_programs_write_at_the_same_time,
        writing::a_full_disk_is_an_error_of_the_program_that_writes,
        changing::a_directory_is_at_once_as_it_is_after_each_own_change,
        changing::a_directory_that_is_gone_is_not_as_it_was_for_programs_that_have_it_open,
        changing::programs_that_make_names_at_the_same_time_see_the_directory_as_it_is,
        changing::a_change_is_one_question,
        looking::many_looks_at_names_need_few_frames,
        looking::own_changes_are_seen_at_once_and_those_of_others_after_a_second,
        looking::a_file_that_the_kernel_knows_is_asked_for,
        ends::a_server_that_is_killed_and_started_again_is_read_on,
        ends::a_server_that_is_gone_is_an_error_and_no_hang,
        ends::a_network_that_is_cut_is_an_error_and_used_again,
        ends::every_way_to_end_leaves_no_mount_and_no_process,
        ends::every_mistake_is_one_line_that_says_what_to_do,
    ]);
}
