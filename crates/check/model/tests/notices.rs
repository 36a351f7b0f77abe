//! The check notices what is wrong: each time the harness does one thing wrong, and never the
//! protocol.

use gigae_model::{Budget, CheckReport, Form, Mutation, Rule, check};

const NONE: Budget =
    Budget { lost: 0, late: 0, copied: 0, early: 0, restarts: 0, cuts: 0, closes: 0 };
const MOST: usize = 300_000;

/// That a mutation breaks one of these rules, and that without it the same form keeps all.
fn breaks(form: Form, mutation: Mutation, rules: &[Rule]) -> CheckReport {
    let honest = check(&form, MOST, 1);
    assert!(honest.exhausted && honest.broken.is_empty(), "{honest}");
    let outcome = check(&form.mutate(mutation), MOST, 1);
    println!("{outcome}");
    let (broken, steps) = outcome.broken.first().expect("nothing was noticed");
    assert!(rules.contains(broken), "{broken}");
    assert!(!steps.is_empty());
    outcome
}

#[test]
fn an_acknowledgement_of_what_did_not_arrive() {
    let outcome = breaks(Form::new("forged", 1), Mutation::ForgedAck, &[Rule::Undelivered]);
    let last = outcome.broken[0].1.last().map(String::as_str);
    assert_eq!(last, Some("Forge(0 to 1)"), "the shortest path ends with the forgery");
}

#[test]
fn a_failure_without_a_reason() {
    breaks(Form::new("forged", 1), Mutation::ForgedReset, &[Rule::Groundless]);
}

#[test]
fn a_lost_go_that_nobody_asks_for() {
    let form = Form::new("mute", 3).up().windows(2, 1, 0).ack_every(1);
    breaks(form.faults(Budget { lost: 1, ..NONE }), Mutation::MuteProbes, &[Rule::Stuck]);
}

#[test]
fn a_frame_that_acknowledges_too_much() {
    breaks(Form::new("ahead", 1), Mutation::AcksAhead, &[Rule::Ahead]);
}

#[test]
fn credit_that_is_taken_back() {
    breaks(Form::new("back", 1), Mutation::TakesCreditBack, &[Rule::Withdrawn]);
}

#[test]
fn an_old_frame_where_epochs_are_not_looked_at() {
    let form = Form::new("blind", 2).faults(Budget { restarts: 1, copied: 1, ..NONE });
    breaks(form, Mutation::BlindToEpochs, &[Rule::OldFrame, Rule::Twice, Rule::Order]);
}

#[test]
fn an_old_frame_where_epochs_come_again() {
    let form = Form::new("same", 1).faults(Budget { restarts: 1, copied: 1, ..NONE });
    breaks(form, Mutation::SameEpochs, &[Rule::OldFrame, Rule::Twice, Rule::Order]);
}

#[test]
fn a_message_that_comes_twice() {
    let form = Form::new("again", 1).faults(Budget { copied: 1, ..NONE });
    breaks(form, Mutation::BlindToNumbers, &[Rule::Twice]);
}

#[test]
fn a_message_that_is_left_out() {
    let form = Form::new("gap", 2).up().faults(Budget { late: 1, ..NONE });
    breaks(form, Mutation::BlindToNumbers, &[Rule::Gap, Rule::Twice]);
}

#[test]
fn a_form_that_is_not_looked_at_to_the_end() {
    let outcome = check(&Form::new("cut", 2), 50, 1);
    assert!(!outcome.exhausted && !outcome.is_sound());
}
