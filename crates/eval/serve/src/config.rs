//! What the owner of a server allows: the limits of each client, who may come, and the file in
//! which that is said.

use gigae_eval_model::duration;
use gigae_eval_session::control::Limits;
use gigae_fabric::Rate;
use serde::Deserialize;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Where it is looked for.
pub const CONFIG: &str = "/etc/gigae/serve.toml";

/// What the owner allows. By default each client with the key may do everything except run other
/// programs, have files served and change settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    /// What each client may do.
    pub limits: Limits,
    /// Whence clients may come; from everywhere if empty.
    pub allow: Vec<AddressRange>,
    /// Whether clients may have other programs run, those of [`gigae_eval_session::programs`].
    pub programs: bool,
    /// Whether clients may change settings of the interface and the kernel for as long as they are
    /// served.
    pub tuning: bool,
    /// Where clients may have files made and served: by the services of `gigae_eval_services`.
    pub files: Option<PathBuf>,
    /// A client that answers nothing for so long is gone.
    pub gone_after: Duration,
}

impl Default for ServeConfig {
    fn default() -> Self {
        let (limits, allow) = (Limits::default(), Vec::new());
        Self {
            limits,
            allow,
            programs: false,
            tuning: false,
            files: None,
            gone_after: gigae_eval_session::control::GONE_AFTER,
        }
    }
}

impl ServeConfig {
    /// Whether a client may come from there.
    pub fn admit(&self, from: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.has(from))
    }
}

/// Addresses that have their first bits in common, like `192.0.2.0/24` or `fd00::/8`; a single one
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Whether an address is of it. IPv4 addresses within IPv6 count as such.
    pub fn has(&self, address: IpAddr) -> bool {
        let number = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let ((ours, one), (theirs, other)) = (number(self.first), number(address));
        let differ = (ours ^ theirs).checked_shr(128 - u32::from(self.bits)).unwrap_or(0);
        one == other && differ == 0
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is not a network; write for example 192.0.2.0/24 or fd00::1");
        let (first, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let all = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > all {
            return Err(wrong());
        }
        Ok(Self { first, bits })
    }
}

impl TryFrom<String> for AddressRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What the file says; all may be absent. The command's options come first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// As `--nic`.
    pub nic: Option<String>,
    /// As `--key`.
    pub key: Option<PathBuf>,
    /// As `--listen`.
    pub listen: Option<String>,
    /// As `--cpu`.
    pub cpu: Option<usize>,
    /// As `--metrics`.
    pub metrics: Option<String>,
    /// As `--one-port`.
    #[serde(default)]
    pub one_port: bool,
    /// As `--allow-programs`.
    #[serde(default)]
    pub allow_programs: bool,
    /// As `--allow-files`.
    pub allow_files: Option<PathBuf>,
    /// As `--allow`.
    #[serde(default)]
    pub allow: Vec<AddressRange>,
    /// As `--allow-tuning`.
    #[serde(default)]
    pub allow_tuning: bool,
    /// As `--max-duration`.
    #[serde(default, deserialize_with = "time")]
    pub max_duration: Option<Duration>,
    /// As `--max-rate`.
    #[serde(default, deserialize_with = "rate")]
    pub max_rate: Option<f64>,
}

fn time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn rate<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(from)?;
    parse_rate(&text).map(Some).map_err(serde::de::Error::custom)
}

/// A rate like `100mbit`, in bytes per second.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: Rate = text.parse().map_err(|error: gigae_fabric::FabricError| error.to_string())?;
    if rate.bits() < 8000 {
        return Err(format!("'{text}' is too low a rate to measure with; give 8kbit or more"));
    }
    Ok(rate.bytes())
}

/// The file could not be used. The text is one line and says where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read '{}': {source}; write one as docs/reference/serve.md says, or name another by --config", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its text is wrong.
    #[error("{}:{what}", .path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        what: String,
    },
}

impl File {
    /// Reads a file; the one at [`CONFIG`] if none is named and that one exists.
    pub fn read(named: Option<&Path>) -> Result<Self, FileError> {
        let path = named.unwrap_or(Path::new(CONFIG));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(source) => Err(FileError::Read { path: path.into(), source }),
        }
    }

    /// The same from its text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            let what = format!("{line}: {}", error.message().replace('\n', " "));
            FileError::Text { path: path.into(), what }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_compared_by_their_first_bits() {
        let has = |network: &str, address: &str| {
            network.parse::<AddressRange>().unwrap().has(address.parse().unwrap())
        };
        assert!(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("192.0.2.0/24", "::ffff:192.0.2.7"));
        assert!(has("fd00::/8", "fdff::1") && !has("fd00::/8", "fe00::1"));
        assert!(has("198.18.0.1", "198.18.0.1") && !has("198.18.0.1", "198.18.0.2"));
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "fd00::1"));
        assert!(has("::/0", "fd00::1") && !has("::/0", "203.0.113.9"));
        for wrong in ["", "host", "192.0.2.0/33", "fd00::/129", "192.0.2.0/", "/8", "1.2.3.4/-1"] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nobody_in_particular_means_everybody() {
        let from = "203.0.113.9".parse().unwrap();
        assert!(ServeConfig::default().admit(from));
        let config =
            ServeConfig { allow: vec!["fd00::/8".parse().unwrap()], ..ServeConfig::default() };
        assert!(!config.admit(from));
    }

    #[test]
    fn the_file_says_what_the_options_say() {
        let text = r#"
            nic = "eth1"
            max_duration = "1h"
            max_rate = "100mbit"
            allow = ["192.0.2.0/24", "fd00::/8"]
            metrics = "127.0.0.1:9488"
            one_port = true
            allow_tuning = true
            allow_files = "/srv/gigae"
        "#;
        let file = File::parse(text, Path::new("x")).unwrap();
        assert_eq!(file.max_duration, Some(Duration::from_secs(3600)));
        assert_eq!((file.max_rate, file.allow.len(), file.one_port), (Some(12.5e6), 2, true));
        assert!(file.allow_tuning);
        assert_eq!(file.allow_files.as_deref(), Some(Path::new("/srv/gigae")));
        assert_eq!(File::parse("", Path::new("x")).unwrap(), File::default());
        for (wrong, line) in [
            ("nic = 5", 1),
            ("\nmax_rate = \"fast\"", 2),
            ("\n\nmax_duration = \"0s\"", 3),
            ("allow = [\"nowhere\"]", 1),
            ("key = \"k\"\nsecret = 1", 2),
        ] {
            let error = File::parse(wrong, Path::new("serve.toml")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("serve.toml:{line}: ")), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}
