//! Another program in another language opens what this crate sealed.

use data_encoding::HEXLOWER;
use gigae_seal::{FrameKey, Level, Suite};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::Command;

fn main() {
    let there = Command::new("python3").args(["-c", "import cryptography"]).output();
    let is_there = there.is_ok_and(|output| output.status.success());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    let trial = Trial::ignorable_test("python_opens_what_was_sealed_here", move || {
        if is_there {
            [Suite::Aes128Gcm, Suite::ChaCha20Poly1305].into_iter().for_each(opens);
            return Ok(Completion::Completed);
        }
        let reason = "python3 with cryptography is missing";
        if in_ci { Err(Failed::from(reason)) } else { Ok(Completion::ignored_with(reason)) }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn opens(suite: Suite) {
    let key: [u8; 32] = std::array::from_fn(|n| n as u8);
    let counter = 3u64 << 56 | 77;
    let mut frame: Vec<u8> = (0..=255).collect();
    let plain = frame.clone();
    let tag = FrameKey::new(suite, Level::Encrypt, &key).seal(counter, &mut frame, 32);
    let (header, body) = frame.split_at(32);
    let parts = [&key[..], &counter.to_be_bytes(), header, body, &tag].map(|p| HEXLOWER.encode(p));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent.py");
    let output = Command::new("python3").arg(script).arg(format!("{suite:?}")).args(parts).output();
    let output = output.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let opened = String::from_utf8(output.stdout).unwrap();
    assert_eq!(opened.trim(), HEXLOWER.encode(&plain[32..]), "{suite:?}");
}
