//! What a guest says: lines over a terminal, of which those that begin with a mark are replies.
//!
//! ```text
//! @ready                   the guest takes scripts
//! @ aGVsbG8K               a piece of a script's output, in base64
//! @done 3 0                script 3 has ended with status 0, and this was all of its output
//! ```
//!
//! The kernel may write to the same terminal. Its lines have no mark and are left out.

use data_encoding::BASE64;

/// The mark of a line of ours.
pub(crate) const MARK: char = '@';

/// A line that is longer than this is none of ours.
const LONGEST: usize = 4096;

/// What is kept of a script's output; the rest is left out.
const MOST_SAID: usize = 4 << 20;

/// What a guest has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It takes scripts.
    Ready,
    /// A script has ended.
    Done {
        /// Its number.
        number: u32,
        /// Its exit status.
        status: u8,
        /// Its output.
        said: Vec<u8>,
    },
}

/// Puts bytes together to replies.
#[derive(Debug, Default)]
pub(crate) struct ReplyReader {
    line: Vec<u8>,
    said: Vec<u8>,
}

impl ReplyReader {
    /// Takes bytes; the replies that they complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Reply> {
        let mut replies = Vec::new();
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                replies.extend(self.line(&String::from_utf8_lossy(&line)));
            } else if self.line.len() < LONGEST {
                self.line.push(byte);
            }
        }
        replies
    }

    fn line(&mut self, line: &str) -> Option<Reply> {
        let line = line.trim_end().strip_prefix(MARK)?;
        if line == "ready" {
            return Some(Reply::Ready);
        }
        if let Some(piece) = line.strip_prefix(' ') {
            let piece = BASE64.decode(piece.as_bytes()).unwrap_or_default();
            if self.said.len() + piece.len() <= MOST_SAID {
                self.said.extend(piece);
            }
            return None;
        }
        let (number, status) = line.strip_prefix("done ")?.split_once(' ')?;
        let (number, status) = (number.parse().ok()?, status.parse().ok()?);
        Some(Reply::Done { number, status, said: std::mem::take(&mut self.said) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(number: u32, status: u8, said: &str) -> Reply {
        Reply::Done { number, status, said: said.as_bytes().to_vec() }
    }

    #[test]
    fn output_is_put_together_and_what_the_kernel_says_is_left_out() {
        let mut reader = ReplyReader::default();
        let text = "boot\r\n@ready\r\n@ aGVsbG8K\r\n[1.0] a message\r\n@ d29ybGQK\r\n@done 3 7\r\n";
        assert_eq!(reader.take(text.as_bytes()), [Reply::Ready, done(3, 7, "hello\nworld\n")]);
        // However the bytes come, and a script without output.
        let all: Vec<Reply> = b"@ aGVsbG8K\n@done 4 0\n@done 5 0\n"
            .chunks(1)
            .flat_map(|it| reader.take(it))
            .collect();
        assert_eq!(all, [done(4, 0, "hello\n"), done(5, 0, "")]);
    }

    #[test]
    fn what_makes_no_sense_is_no_reply_and_fills_no_memory() {
        let mut reader = ReplyReader::default();
        for text in ["@done\n", "@done x 0\n", "@done 1 300\n", "@\n", "done 1 0\n", "@ !\n"] {
            assert_eq!(reader.take(text.as_bytes()), [], "{text}");
        }
        reader.take(&vec![b'x'; 10 * LONGEST]);
        assert!(reader.line.len() <= LONGEST);
        let piece = format!("@ {}\n", BASE64.encode(&[7; 900]));
        for _ in 0..MOST_SAID / 900 + 10 {
            reader.take(piece.as_bytes());
        }
        assert!(reader.said.len() <= MOST_SAID);
    }
}
