#![no_main]

#[global_allocator]
static METER: gigae_hostile::Meter = gigae_hostile::Meter;

libfuzzer_sys::fuzz_target!(|input: &[u8]| gigae_hostile::files(input));
