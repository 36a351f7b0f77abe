//! `gigae key`.

use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use clap::Args;
use gigae_eval_session::control::{KEY_FILE, Key};
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a key for 'gigae serve' and its clients.
///
/// Writes a new random key into a file that only its owner can read. Copy it to the other machines,
/// for example with scp, and keep it secret. Anyone who has it can load the network and read the
/// machines' inventories.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct KeyArgs {
    /// File to write. An existing file is not changed
    #[arg(value_name = "FILE", default_value = KEY_FILE)]
    pub file: PathBuf,
}

/// Runs `gigae key`.
pub fn key(args: &KeyArgs) -> ExitCode {
    finish(Key::create(&args.file).map_err(CommandError::from).and_then(|()| {
        let file = args.file.display();
        say(&format!(
            "a new key is in {file}; copy it to the other machines: scp -p {file} HOST:{KEY_FILE}\n"
        ))
    }))
}
