//! The kernel's messages since the soak began: `/dev/kmsg`, read without waiting
//! (Documentation/ABI/testing/dev-kmsg).

use gigae_eval_model::soak::KernelMessage;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Longest record that the kernel gives, with its dictionary.
const RECORD: usize = 8192;

/// Records looked at for one sample; the rest at the next.
const AT_A_TIME: usize = 1000;

/// Messages kept for one sample.
const MOST_KEPT: usize = 16;

/// The kernel's log from a moment on.
pub struct KernelLog {
    file: io::Result<File>,
    names: Vec<String>,
}

impl KernelLog {
    /// Begins behind the last message. What names one of `names` is ours.
    pub fn open(names: Vec<String>) -> Self {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/kmsg").and_then(|mut file| {
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        });
        Self { file, names }
    }

    /// Why it cannot be read.
    pub fn unreadable(&self) -> Option<String> {
        self.file.as_ref().err().map(|error| format!("/dev/kmsg: {error}"))
    }

    /// The new messages that matter to rules, and how many others are warnings or worse.
    pub fn take(&mut self) -> (Vec<KernelMessage>, u64) {
        let (mut kept, mut others) = (Vec::new(), 0);
        let Ok(file) = &mut self.file else { return (kept, others) };
        let mut record = vec![0; RECORD];
        for _ in 0..AT_A_TIME {
            let len = match file.read(&mut record) {
                Ok(len) => len,
                // Overwritten before they were read: the next call gives the oldest that is left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
                Err(_) => break,
            };
            let text = String::from_utf8_lossy(&record[..len]);
            match parse(&text, &self.names) {
                Some(message) if super::rules::is_grave(&message) && kept.len() < MOST_KEPT => {
                    kept.push(message);
                }
                Some(message) if message.level <= super::rules::WARNING => others += 1,
                _ => {}
            }
        }
        (kept, others)
    }
}

/// `level,sequence,time,flags;text`, then lines of the dictionary. Higher bits of the level are the
/// facility: zero is the kernel itself, others are programs that write into its log.
fn parse(record: &str, names: &[String]) -> Option<KernelMessage> {
    let (prefix, rest) = record.split_once(';')?;
    let level: u32 = prefix.split(',').next()?.parse().ok()?;
    if level >= 8 {
        return None;
    }
    let text = rest.lines().next().unwrap_or_default().to_owned();
    // A name is a word: eth1 is not eth10.
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || "._:-".contains(c)));
    let ours = words.any(|word| {
        let word = word.trim_matches(|c: char| ":.-".contains(c));
        names.iter().any(|name| name == word)
    });
    Some(KernelMessage { level: level as u8, ours, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_ours_if_it_names_the_device_as_a_word() {
        let names = ["eth1".to_owned(), "0000:01:00.0".to_owned()];
        let parsed = |text: &str| parse(text, &names);
        let watchdog =
            "4,1,2,-;NETDEV WATCHDOG: eth1 (igb): transmit queue 0 timed out\n SUBSYSTEM=net";
        let message = parsed(watchdog).unwrap();
        assert_eq!((message.level, message.ours), (4, true));
        assert!(message.text.ends_with("timed out"));
        assert!(parsed("6,1,2,-;igb 0000:01:00.0 eth1: Reset adapter").unwrap().ours);
        assert!(parsed("6,1,2,-;igb 0000:01:00.0: firmware").unwrap().ours);
        assert!(!parsed("4,1,2,-;eth10: odd").unwrap().ours);
        assert_eq!(parsed("12,1,2,-;a program says eth1"), None);
        assert_eq!(parsed("nonsense"), None);
    }
}
