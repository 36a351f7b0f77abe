//! PMI-1, the text protocol of MPICH's `mpiexec`: a line for each request and each answer, of words
//! `name=value`. The first word is `cmd`.
//!
//! ```text
//! cmd=init pmi_version=1 pmi_subversion=1  ->  cmd=response_to_init ... rc=0
//! cmd=get_my_kvsname                       ->  cmd=my_kvsname kvsname=NAME
//! cmd=put kvsname=NAME key=K value=V       ->  cmd=put_result rc=0
//! cmd=barrier_in                           ->  cmd=barrier_out
//! cmd=get kvsname=NAME key=K               ->  cmd=get_result rc=0 value=V
//! cmd=finalize                             ->  cmd=finalize_ack
//! ```

use super::contract::{KEY, Launcher, LauncherError, shortened};
use super::stream::byte;
use std::io::{Read, Write};

/// Longer lines are no answers.
const MOST_LINE: usize = 8192;

/// A process of MPICH's `mpiexec`.
#[derive(Debug)]
pub struct Pmi1<S> {
    stream: S,
    rank: u32,
    size: u32,
    space: String,
}

impl<S: Read + Write> Pmi1<S> {
    /// Greets the launcher.
    pub fn begin(stream: S, rank: u32, size: u32) -> Result<Self, LauncherError> {
        let mut this = Self { stream, rank, size, space: String::new() };
        this.ask("init", "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let answer = this.ask("get_my_kvsname", "cmd=get_my_kvsname", "my_kvsname")?;
        let name = word(&answer, "kvsname").map(str::to_owned);
        this.space = name.ok_or_else(|| wrong("get_my_kvsname", &answer))?;
        Ok(this)
    }

    /// Sends a line; the answer, which must be this command and have no other `rc` than 0.
    fn ask(
        &mut self,
        request: &'static str,
        line: &str,
        expected: &str,
    ) -> Result<String, LauncherError> {
        self.stream.write_all(format!("{line}\n").as_bytes())?;
        let mut bytes = Vec::new();
        loop {
            match byte(&mut self.stream)? {
                b'\n' => break,
                _ if bytes.len() == MOST_LINE => break,
                byte => bytes.push(byte),
            }
        }
        let answer = String::from_utf8_lossy(&bytes).into_owned();
        let holds = word(&answer, "cmd") == Some(expected)
            && word(&answer, "rc").is_none_or(|code| code == "0");
        if holds { Ok(answer) } else { Err(wrong(request, &answer)) }
    }
}

fn wrong(request: &'static str, answer: &str) -> LauncherError {
    LauncherError::Answer { protocol: "PMI-1", request, answer: shortened(answer) }
}

/// The value of a word.
fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

impl<S: Read + Write> Launcher for Pmi1<S> {
    fn protocol(&self) -> &'static str {
        "PMI-1"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn put(&mut self, value: &str) -> Result<(), LauncherError> {
        let line = format!("cmd=put kvsname={} key={KEY}-{} value={value}", self.space, self.rank);
        self.ask("put", &line, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result<(), LauncherError> {
        self.ask("barrier_in", "cmd=barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, rank: u32) -> Result<String, LauncherError> {
        let line = format!("cmd=get kvsname={} key={KEY}-{rank}", self.space);
        let answer = self.ask("get", &line, "get_result")?;
        word(&answer, "value").map(str::to_owned).ok_or_else(|| wrong("get", &answer))
    }

    fn finish(&mut self) -> Result<(), LauncherError> {
        self.ask("finalize", "cmd=finalize", "finalize_ack").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Script;
    use super::*;

    #[test]
    fn a_rank_says_its_value_and_reads_another_ones() {
        let script = Script::new(&[
            (
                "cmd=init pmi_version=1 pmi_subversion=1\n",
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
            ),
            ("cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1_0\n"),
            (
                "cmd=put kvsname=kvs_1_0 key=gigae-cluster-1 value=abc=\n",
                "cmd=put_result rc=0 msg=success\n",
            ),
            ("cmd=barrier_in\n", "cmd=barrier_out rc=0\n"),
            (
                "cmd=get kvsname=kvs_1_0 key=gigae-cluster-0\n",
                "cmd=get_result rc=0 msg=success value=xy=z\n",
            ),
            ("cmd=finalize\n", "cmd=finalize_ack rc=0\n"),
        ]);
        let mut pmi = Pmi1::begin(script, 1, 2).unwrap();
        assert_eq!((pmi.rank(), pmi.size()), (1, 2));
        pmi.put("abc=").unwrap();
        pmi.fence().unwrap();
        assert_eq!(pmi.get(0).unwrap(), "xy=z");
        pmi.finish().unwrap();
        pmi.stream.done();
    }

    #[test]
    fn what_is_no_answer_is_an_error_that_quotes_it() {
        let greeting = "cmd=init pmi_version=1 pmi_subversion=1\n";
        for answer in ["cmd=response_to_init rc=-1\n", "hello\n", "\n"] {
            let script = Script::new(&[(greeting, answer)]);
            let error = Pmi1::begin(script, 0, 1).unwrap_err().to_string();
            assert!(error.contains(&format!("'{}' to init", answer.trim())), "{error}");
        }
        let long = "x".repeat(3 * MOST_LINE);
        let error = Pmi1::begin(Script::new(&[(greeting, &long)]), 0, 1).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
        // The launcher is gone.
        let error = Pmi1::begin(Script::new(&[(greeting, "")]), 0, 1).unwrap_err();
        assert!(matches!(error, LauncherError::Io(_)), "{error}");
    }
}
