//! The reports of results as real runs have them, and a look at the page in a real browser.

mod browser;
mod figures;
mod fixtures;
mod page;
mod papers;
mod versions;

use gigae_fabric::tests;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::path::Path;

fn main() {
    let arguments = Arguments::from_args();
    let plain: &[(&str, fn())] = tests![
        versions::the_fixtures_fit_their_schemas,
        versions::results_of_every_version_are_read_as_those_of_this_one,
        versions::the_fixture_is_of_the_plan_beside_it,
        versions::results_read_back_are_what_was_written,
        versions::another_schema_is_refused,
        page::the_page_is_one_small_file_that_needs_no_network,
        page::the_page_is_a_pure_function_of_the_results,
        page::hostile_text_in_the_results_stays_text,
        papers::the_papers_ratios_stand_beside_ours,
        papers::messages_are_compared_with_the_raw_link_that_they_went_by,
        papers::what_follows_and_what_papers_printed_stand_in_every_report,
        papers::a_papers_figure_finds_the_nearest_cell,
        papers::nics_of_the_papers_stand_beside_those_of_the_run,
        figures::sweeps_over_rate_and_buffer_are_drawn_with_the_bandwidth_delay_product,
        papers::the_same_figures_lead_to_the_same_sentences,
        papers::printed_figures_stand_in_the_charts_too,
        page::every_chart_has_its_numbers_and_commands,
        page::colours_contrast_with_what_is_behind_them,
        page::every_doubt_is_shown,
        figures::every_figure_is_shown_with_its_verdict_in_every_report,
        figures::a_figure_that_is_missing_says_why,
        figures::several_runs_show_median_and_range,
        papers::the_papers_tables_stand_beside_rows_and_memory,
        figures::loss_idle_and_small_messages_have_their_figures,
        figures::a_line_that_ends_before_others_says_what_its_transport_carries,
        figures::datagrams_per_call_stand_in_every_report_where_they_were_counted,
        versions::results_from_before_figures_can_still_be_read,
        page::the_terminal_needs_no_more_than_a_hundred_columns
    ];
    let mut trials: Vec<Trial> = plain
        .iter()
        .map(|&(name, test)| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        })
        .collect();
    type Look = fn(&Path);
    let looks: &[(&str, Look)] = &[
        (
            "a_browser_shows_figures_and_legends_without_an_error",
            browser::a_browser_shows_figures_and_legends_without_an_error,
        ),
        ("nothing_sticks_out_on_a_phone", browser::nothing_sticks_out_on_a_phone),
        (
            "a_browser_can_draw_the_page_light_and_dark",
            browser::a_browser_can_draw_the_page_light_and_dark,
        ),
    ];
    for &(name, test) in looks {
        trials.push(Trial::ignorable_test(name, move || match browser::chromium() {
            Some(browser) => {
                test(&browser);
                Ok(Completion::Completed)
            }
            None if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) => {
                Err(Failed::from("no chromium; install it or set CHROMIUM"))
            }
            None => Ok(Completion::ignored_with("no chromium; install it or set CHROMIUM")),
        }));
    }
    libtest_mimic::run(&arguments, trials).exit()
}
