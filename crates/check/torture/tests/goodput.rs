//! What is left of the link under loss, as a snapshot: virtual time makes it exact.
#![allow(missing_docs)]

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/goodput.txt");

#[test]
fn goodput_by_loss_window_and_recovery_mode_is_as_it_was() {
    let table = gigae_torture::goodput::tables();
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(SNAPSHOT, &table).unwrap();
    }
    let snapshot = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    assert!(
        table == snapshot,
        "goodput has changed; if that is meant, renew {SNAPSHOT} by UPDATE_SNAPSHOT=1\n{table}"
    );
}
