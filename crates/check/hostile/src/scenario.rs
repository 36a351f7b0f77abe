//! The course of every target with honest nodes: they start, hostile steps follow, and their
//! traffic must still work.

use crate::frames::HONEST;
use crate::meter::within;
use crate::script::Script;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Honest nodes and a hostile one.
pub(crate) trait Scenario: Sized {
    /// Bytes that all of it may hold at any moment.
    const MEMORY: usize;

    /// Steps that one input may ask for.
    const MOST_STEPS: usize;

    /// The honest nodes as the script wants them, with their session up. Their numbers come from
    /// `secret`, which depends on every byte of the input: an input that states one has others
    /// then, and nothing that a search learns of one input holds for the next.
    fn new(script: &mut Script<'_>, secret: u128) -> Self;

    /// The script's next step, with its number.
    fn act(&mut self, number: usize, script: &mut Script<'_>);

    /// The hostile node is silent from here on.
    ///
    /// # Panics
    /// If the honest nodes' traffic did not arrive.
    fn finish(self);
}

/// Runs an input.
///
/// # Panics
/// If something does not hold.
pub(crate) fn play<S: Scenario>(input: &[u8]) {
    within(S::MEMORY, || {
        let mut script = Script::new(input);
        let mut scenario = S::new(&mut script, secret_of(input));
        let mut number = 0;
        while number < S::MOST_STEPS && !script.is_over() {
            scenario.act(number, &mut script);
            number += 1;
        }
        scenario.finish();
    });
}

fn secret_of(input: &[u8]) -> u128 {
    let half = |n: u8| {
        let mut hasher = DefaultHasher::new();
        (n, input).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// A message between honest ends: its number, and bytes that follow from it.
pub(crate) fn body(number: u32, from: usize, len: usize) -> Vec<u8> {
    let mut body = HONEST.to_vec();
    body.extend(number.to_be_bytes());
    body.push(from as u8);
    body.extend((0..len).map(|i| (number as usize * 7 + i) as u8));
    body
}
