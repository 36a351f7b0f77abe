//! Doubts: what may be wrong with a figure or a run, and what to do about it.
//!
//! In results a doubt is a text: its code, a colon, and a sentence whose last part is the advice.
//! It is parsed where results are read. Texts and codes that nothing here knows stay as they are.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! codes {
    ($($name:ident = $text:literal, $about:literal;)*) => {
        /// What is doubted. Codes have the order of their texts.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum Code {
            $(#[doc = $about] $name,)*
            /// One that this version does not know.
            Other(String),
        }

        impl Code {
            /// Its text.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<String> for Code {
            fn from(text: String) -> Self {
                match &text[..] {
                    $($text => Self::$name,)*
                    _ => Self::Other(text),
                }
            }
        }
    };
}

codes! {
    Busy = "busy", "The machine was not idle before the run.";
    CongestionControl = "congestion-control", "TCP ran with another congestion control.";
    Copied = "copied", "The kernel copied what was to be sent without a copy.";
    CpusMoved = "cpus-moved", "A hypervisor moved the CPUs of both ends apart or together.";
    DebugBuild = "debug-build", "The evaluator is a debug build.";
    Delay = "delay", "The virtual switch dropped frames, or did not keep its delay.";
    Disk = "disk", "The server's disk, or that there was none, decided the figure.";
    Failed = "failed", "Repetitions failed.";
    FewRepetitions = "few-repetitions", "The interval covers less than 95 %.";
    FewRuns = "few-runs", "Too few runs to know what two runs of the same thing differ by.";
    FewSamples = "few-samples", "Too few samples for the 99.9th percentile.";
    Governor = "governor", "The CPU frequency changes.";
    InCommon = "in-common", "Half of all figures moved together.";
    Interference = "interference", "Other threads took time of a measured CPU.";
    Limited = "limited", "The server's owner limits the rate.";
    LiveView = "live-view", "The live view shared a CPU with an end.";
    Loss = "loss", "Messages did not arrive.";
    Mixed = "mixed", "The runs of a side were made under different conditions.";
    OneAfterTheOther = "one-after-the-other", "All runs of one side were made first.";
    OneCpu = "one-cpu", "Both ends shared one CPU.";
    Overhead = "overhead", "Measuring itself is more than a hundredth of the figure.";
    Speed = "speed", "The processors ran at another speed.";
    Steal = "steal", "A hypervisor withheld a measured CPU.";
    Timer = "timer", "What reading the clock costs; only in older results.";
    Unsettled = "unsettled", "The figure moved within a repetition.";
    Untested = "untested", "Too few repetitions to compare.";
    WideInterval = "wide-interval", "The interval is wider than the plan asks.";
}

impl PartialOrd for Code {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Code {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.to_string()
    }
}

/// A doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Doubt {
    /// What is doubted; `None` in a text without a code.
    pub code: Option<Code>,
    /// What was seen, and after the first semicolon what to do.
    text: String,
}

/// A [`Doubt`](crate::doubt::Doubt) by the name of its code and a text as for `format!`.
#[macro_export]
macro_rules! doubt {
    ($code:ident, $($text:tt)+) => {
        $crate::doubt::Doubt::new($crate::doubt::Code::$code, format!($($text)+))
    };
}

impl Doubt {
    /// A doubt: `text` says what was seen and, after a semicolon, what to do.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code: Some(code), text: text.into() }
    }

    /// What was seen; empty where the text has advice only.
    pub fn detail(&self) -> &str {
        self.text.split_once(';').map_or("", |(detail, _)| detail).trim()
    }

    /// What to do.
    pub fn advice(&self) -> &str {
        self.text.split_once(';').map_or(&self.text[..], |(_, advice)| advice).trim()
    }
}

impl From<&str> for Doubt {
    fn from(text: &str) -> Self {
        match text.split_once(": ") {
            Some((code, text)) => Self::new(code.to_owned().into(), text),
            None => Self { code: None, text: text.to_owned() },
        }
    }
}

impl From<String> for Doubt {
    fn from(text: String) -> Self {
        Self::from(&text[..])
    }
}

impl From<Doubt> for String {
    fn from(doubt: Doubt) -> Self {
        doubt.to_string()
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_read_and_written_as_the_same_text() {
        let known = Doubt::from("steal: a hypervisor withheld 3 %; repeat");
        assert_eq!(known.code, Some(Code::Steal));
        assert_eq!((known.detail(), known.advice()), ("a hypervisor withheld 3 %", "repeat"));
        for text in ["steal: a; b", "new: a; b; c", "a: b: c", "no code", "no:space", ": x", ""] {
            assert_eq!(Doubt::from(text).to_string(), text);
            let json = serde_json::to_string(text).unwrap();
            let doubt: Doubt = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&doubt).unwrap(), json);
        }
    }

    #[test]
    fn codes_stand_in_the_order_of_their_texts() {
        let mut codes = ["new", "steal", "loss"].map(|text| Code::from(text.to_owned()));
        codes.sort();
        assert_eq!(codes, [Code::Loss, Code::Other("new".into()), Code::Steal]);
    }
}
