//! PMI-2, as Slurm's `srun --mpi=pmi2` speaks it.
//!
//! A line as of [PMI-1](super::pmi1) chooses the version. Then each message is its length in six
//! decimal digits, and so many bytes: fields `name=value`, each with a semicolon at its end. A
//! semicolon in a value is written twice. The first field is `cmd`.
//!
//! ```text
//! cmd=fullinit;pmijobid=J;pmirank=R;threaded=FALSE;  ->  cmd=fullinit-response;rc=0;rank=R;size=N;
//! cmd=kvs-put;key=K;value=V;                         ->  cmd=kvs-put-response;rc=0;
//! cmd=kvs-fence;                                     ->  cmd=kvs-fence-response;rc=0;
//! cmd=kvs-get;jobid=J;srcid=-1;key=K;   ->  cmd=kvs-get-response;rc=0;found=TRUE;value=V;
//! cmd=finalize;                                      ->  cmd=finalize-response;rc=0;
//! ```

use super::contract::{KEY, Launcher, LauncherError, shortened};
use super::stream::byte;
use std::io::{Read, Write};

/// Digits of a length.
const LENGTH: usize = 6;

/// Longer messages are no answers.
const MOST_MESSAGE: usize = 64 << 10;

/// Longest line of the greeting.
const MOST_LINE: usize = 1024;

/// A process of `srun --mpi=pmi2`.
#[derive(Debug)]
pub struct Pmi2<S> {
    stream: S,
    job: String,
    rank: u32,
    size: u32,
}

impl<S: Read + Write> Pmi2<S> {
    /// Greets the launcher.
    pub fn begin(mut stream: S, job: &str, rank: u32) -> Result<Self, LauncherError> {
        stream.write_all(b"cmd=init pmi_version=2 pmi_subversion=0\n")?;
        let mut line = Vec::new();
        loop {
            match byte(&mut stream)? {
                b'\n' => break,
                _ if line.len() == MOST_LINE => break,
                byte => line.push(byte),
            }
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.first() != Some(&"cmd=response_to_init")
            || !words.contains(&"pmi_version=2")
            || !words.contains(&"rc=0")
        {
            return Err(wrong("init", &line));
        }
        let mut this = Self { stream, job: job.to_owned(), rank, size: 0 };
        let fields = [("pmijobid", job), ("pmirank", &rank.to_string()), ("threaded", "FALSE")];
        let answer = this.ask("fullinit", &fields)?;
        let number = |name| field(&answer, name).and_then(|value| value.parse().ok());
        (this.rank, this.size) = number("rank")
            .zip(number("size"))
            .ok_or_else(|| wrong("fullinit", &encode("fullinit-response", &[])))?;
        Ok(this)
    }

    /// Sends a command; the fields of its answer, whose `rc` must be 0.
    fn ask(
        &mut self,
        command: &'static str,
        fields: &[(&str, &str)],
    ) -> Result<Vec<(String, String)>, LauncherError> {
        let body = encode(command, fields);
        self.stream.write_all(format!("{:6}{body}", body.len()).as_bytes())?;
        let mut length = [0; LENGTH];
        self.stream.read_exact(&mut length)?;
        let length = String::from_utf8_lossy(&length).into_owned();
        let bytes = length.trim().parse().ok().filter(|bytes| *bytes <= MOST_MESSAGE);
        let mut body = vec![0; bytes.ok_or_else(|| wrong(command, &length))?];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let fields = decode(&body);
        let expected = format!("{command}-response");
        if field(&fields, "cmd") != Some(&expected) || field(&fields, "rc") != Some("0") {
            return Err(wrong(command, &body));
        }
        Ok(fields)
    }
}

fn wrong(request: &'static str, answer: &str) -> LauncherError {
    LauncherError::Answer { protocol: "PMI-2", request, answer: shortened(answer) }
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn encode(command: &str, fields: &[(&str, &str)]) -> String {
    let mut body = format!("cmd={command};");
    for (name, value) in fields {
        body.push_str(&format!("{name}={};", value.replace(';', ";;")));
    }
    body
}

/// The fields of a message. What has no `=` is left out.
fn decode(body: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut text = String::new();
    let mut rest = body.chars().peekable();
    while let Some(c) = rest.next() {
        if c != ';' {
            text.push(c);
        } else if rest.next_if_eq(&';').is_some() {
            text.push(';');
        } else {
            let whole = std::mem::take(&mut text);
            fields.extend(whole.split_once('=').map(|(name, value)| (name.into(), value.into())));
        }
    }
    fields.extend(text.split_once('=').map(|(name, value)| (name.into(), value.into())));
    fields
}

impl<S: Read + Write> Launcher for Pmi2<S> {
    fn protocol(&self) -> &'static str {
        "PMI-2"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn put(&mut self, value: &str) -> Result<(), LauncherError> {
        let key = format!("{KEY}-{}", self.rank);
        self.ask("kvs-put", &[("key", &key), ("value", value)]).map(drop)
    }

    fn fence(&mut self) -> Result<(), LauncherError> {
        self.ask("kvs-fence", &[]).map(drop)
    }

    fn get(&mut self, rank: u32) -> Result<String, LauncherError> {
        let (job, key) = (self.job.clone(), format!("{KEY}-{rank}"));
        let fields = [("jobid", &job[..]), ("srcid", "-1"), ("key", &key)];
        let answer = self.ask("kvs-get", &fields)?;
        match (field(&answer, "found"), field(&answer, "value")) {
            (Some("TRUE"), Some(value)) => Ok(value.to_owned()),
            _ => Err(wrong("kvs-get", "it has nothing under this key")),
        }
    }

    fn finish(&mut self) -> Result<(), LauncherError> {
        self.ask("finalize", &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Script;
    use super::*;

    const GREETING: (&str, &str) = (
        "cmd=init pmi_version=2 pmi_subversion=0\n",
        "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n",
    );
    const INIT: &str = "cmd=fullinit;pmijobid=3.0;pmirank=1;threaded=FALSE;";

    fn framed(body: &str) -> String {
        format!("{:6}{body}", body.len())
    }

    #[test]
    fn a_rank_says_its_value_and_reads_another_ones() {
        let script = Script::new(&[
            GREETING,
            (
                "    51cmd=fullinit;pmijobid=3.0;pmirank=1;threaded=FALSE;",
                &framed("cmd=fullinit-response;rc=0;pmi-version=2.0;rank=1;size=4;appnum=-1;"),
            ),
            (
                &framed("cmd=kvs-put;key=gigae-cluster-1;value=a;;b=c;"),
                &framed("cmd=kvs-put-response;rc=0;"),
            ),
            (&framed("cmd=kvs-fence;"), &framed("cmd=kvs-fence-response;rc=0;")),
            (
                &framed("cmd=kvs-get;jobid=3.0;srcid=-1;key=gigae-cluster-0;"),
                &framed("cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y=;"),
            ),
            (
                &framed("cmd=kvs-get;jobid=3.0;srcid=-1;key=gigae-cluster-2;"),
                &framed("cmd=kvs-get-response;rc=0;found=FALSE;"),
            ),
            (&framed("cmd=finalize;"), &framed("cmd=finalize-response;rc=0;")),
        ]);
        let mut pmi = Pmi2::begin(script, "3.0", 1).unwrap();
        assert_eq!((pmi.rank(), pmi.size()), (1, 4));
        pmi.put("a;b=c").unwrap();
        pmi.fence().unwrap();
        assert_eq!(pmi.get(0).unwrap(), "x;y=");
        assert!(pmi.get(2).unwrap_err().to_string().contains("nothing under this key"));
        pmi.finish().unwrap();
        pmi.stream.done();
    }

    #[test]
    fn what_is_no_answer_is_an_error_that_quotes_it() {
        let other = (GREETING.0, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
        let error = Pmi2::begin(Script::new(&[other]), "3.0", 1).unwrap_err().to_string();
        assert!(error.contains("pmi_version=1") && error.contains("PMI-2"), "{error}");
        for (answer, said) in [
            ("999999cmd=x;", "'999999'"),
            ("abcdef", "'abcdef'"),
            (&framed("cmd=x;rc=0;.."), "'cmd=x;rc=0;..'"),
            (&framed("cmd=fullinit-response;rc=14;errmsg=invalid;"), "invalid"),
        ] {
            let script = Script::new(&[GREETING, (&framed(INIT), answer)]);
            let error = Pmi2::begin(script, "3.0", 1).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        // The launcher is gone in the middle of an answer.
        let script = Script::new(&[GREETING, (&framed(INIT), "    73cmd=full")]);
        assert!(matches!(Pmi2::begin(script, "3.0", 1), Err(LauncherError::Io(_))));
    }
}
