//! How every target with honest nodes goes: they are there, hostile things happen, and at the end all must be well.

use crate::frames::HONEST;
use crate::meter::within;
use crate::script::Script;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Honest nodes, and one that means harm.
pub(crate) trait World: Sized {
    /// Bytes that all of it may hold at any moment.
    const MEMORY: usize;

    /// Steps that one input may ask for.
    const MOST_STEPS: usize;

    /// The honest nodes as the script wants them, with their session up. Their numbers come from `secret`, which
    /// depends on every byte of the input: an input that states one has others then, and nothing that a search
    /// learns of one input holds for the next.
    fn new(script: &mut Script<'_>, secret: u128) -> Self;

    /// The script's next step, with its number.
    fn act(&mut self, number: usize, script: &mut Script<'_>);

    /// Nobody is hostile any more.
    ///
    /// # Panics
    /// If what the honest nodes wanted did not come about.
    fn finish(self);
}

/// Carries an input out.
///
/// # Panics
/// If something does not hold.
pub(crate) fn play<W: World>(input: &[u8]) {
    within(W::MEMORY, || {
        let mut script = Script::new(input);
        let mut world = W::new(&mut script, secret_of(input));
        for number in 0..W::MOST_STEPS {
            if script.is_over() {
                break;
            }
            world.act(number, &mut script);
        }
        world.finish();
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
