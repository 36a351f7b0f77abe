//! Every state of small networks keeps every rule. The long form is `make model`.

use gigae_model::{CheckReport, Form, check, forms};

/// No form here has nearly as many.
const MOST: usize = 1_000_000;

fn all_hold(forms: Vec<Form>) {
    println!("{}", CheckReport::HEAD);
    let outcomes: Vec<_> = forms.iter().map(|form| check(form, MOST, 1)).collect();
    outcomes.iter().for_each(|outcome| println!("{outcome}"));
    let unsound: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_sound()).collect();
    assert!(unsound.is_empty(), "{}", unsound[0]);
}

#[test]
fn a_session_comes_up_whatever_is_lost_late_or_doubled() {
    all_hold(forms::beginnings());
}

#[test]
fn windows_and_credit_neither_lose_nor_double_nor_stop_for_good() {
    all_hold(forms::windows());
}

#[test]
fn nothing_of_a_former_life_is_accepted() {
    all_hold(forms::lives());
}

#[test]
fn a_path_that_is_cut_costs_no_message() {
    all_hold(forms::paths());
}
