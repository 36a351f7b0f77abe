//! Several clients of one broker, in a separate process, because the test counts the descriptors of
//! the process.
#![allow(missing_docs)]

use gigae_hostile::Meter;
use gigae_hostile::search::{Random, kept};

#[global_allocator]
static METER: Meter = Meter;

/// Kept inputs and short ones, and then thousands of messages in a row. As many of them, times what
/// the environment variable `TIMES` says.
#[test]
fn clients_of_a_broker_get_no_more_than_their_limits() {
    let (kept, mut random) = (kept("clients"), Random::new(0x2545_f491_4f6c_dd1d));
    kept.iter().for_each(|input| gigae_hostile::clients_alone(&input.bytes));
    let times = std::env::var("TIMES").map_or(1, |times| times.parse().expect("a number"));
    for _ in 0..200 * times {
        gigae_hostile::clients_alone(&random.input(&kept));
    }
    for _ in 0..3 * times {
        gigae_hostile::clients_alone(&random.bytes(30_000));
    }
}
