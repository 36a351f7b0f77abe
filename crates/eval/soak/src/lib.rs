//! Soaking: mixed traffic of GigaE messages and TCP for minutes or months, every byte verified, and
//! every deviation reported with its time (000 §3.7 and 001 §3 asked their NICs the same).
//!
//! One end, the server of the papers, has traffic with 1 to 15 others, in both directions at once:
//! plain messages, tagged messages, remote memory, TCP streams, TCP requests. On a virtual network
//! it starts all ends itself; between machines the others are `gigae serve`, over the same control
//! connection.
//!
//! | file | is |
//! |---|---|
//! | `gigae_eval_model::traffic` | sizes, bytes, pauses and bursts as functions of the seed |
//! | [`gigae`], [`tcp`] | the workers of an end |
//! | [`round_state`], [`sample`], [`interface`], [`kernel`] | what they count and find, and what the system says |
//! | [`rules`] | what of that is a deviation |
//! | [`state`], [`watch`] | what is kept on disk; samples become that |
//! | [`environment`], [`round`], [`answer`], [`run`] | where it takes place, a round at either end, all rounds |
//! | [`report`] | what a person sees |
//! | [`services`] | the same for file services: another traffic, state and report |
//! | [`saved`] | what is read again to continue either kind |
//!
//! It goes in rounds of at most an hour. In each, endpoints and connections are opened again, and
//! at its end everything that was sent must have been verified at the other end, to the byte.

pub mod answer;
mod check;
pub mod environment;
pub mod gigae;
pub mod interface;
pub mod kernel;
pub mod report;
pub mod round;
pub mod round_state;
pub mod rules;
pub mod run;
pub mod sample;
pub mod saved;
pub mod services;
pub mod state;
pub mod tcp;
pub mod watch;
