//! `gigae completions` and `gigae man`: what a shell and `man` must know of the command, made from
//! its own definition, so that neither can fall behind it.

use crate::outcome::{complain, finish, say};
use clap::{Args, Command, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the completions of this command for a shell.
///
/// `make install` puts them where the shells look. By hand, for example: gigae completions bash >
/// ~/.local/share/bash-completion/completions/gigae
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write the manual pages of all commands.
///
/// `make install` puts them where `man` looks. By hand: gigae man DIR, then man -l DIR/gigae.1
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Directory to write to; it must exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Completions of `command`.
pub fn completions(mut command: Command, args: &CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, "gigae", &mut text);
    finish(say(&public(&text)))
}

/// Without the options that only the command itself says, which are hidden from people but not from
/// shells: a word of a line in bash's, a line in the others'.
fn public(text: &[u8]) -> String {
    const HIDDEN: [&str; 2] = ["fabric-child", "unmount-later"];
    let mut text = String::from_utf8_lossy(text).into_owned();
    for hidden in HIDDEN {
        text = text.replace(&format!("--{hidden} "), "");
    }
    let is_public = |line: &&str| !HIDDEN.iter().any(|hidden| line.contains(hidden));
    text.split_inclusive('\n').filter(is_public).collect()
}

/// Manual pages of `command` and of those below it.
pub fn man(command: Command, args: &ManArgs) -> ExitCode {
    match clap_mangen::generate_to(command, &args.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!(
            "cannot write manual pages into '{}': {error}; name a directory that exists and is writable",
            args.directory.display()
        )),
    }
}
