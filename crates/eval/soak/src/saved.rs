//! A `soak.json` of either kind, read from a directory.

use crate::services::state::{self as services, ServiceSoak};
use crate::state::{FILE, SoakState, SoakVerdict};
use serde::Deserialize;
use std::path::Path;

/// A soak that was written.
#[derive(Debug)]
pub enum SavedSoak {
    /// Of messages.
    Messages(Box<SoakState>),
    /// Of file services.
    Services(Box<ServiceSoak>),
}

/// All that the kinds have in common.
#[derive(Deserialize)]
struct Named {
    schema: String,
}

impl SavedSoak {
    /// Reads a `soak.json`, or the one in a directory.
    pub fn read(place: &Path) -> Result<Self, String> {
        let file = if place.is_dir() { place.join(FILE) } else { place.to_owned() };
        let text = std::fs::read_to_string(&file).map_err(|error| {
            format!("cannot read '{}': {error}; name the directory of a soak", file.display())
        })?;
        Self::parse(&text)
            .map_err(|error| format!("'{}' is not a soak.json: {error}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let named: Named = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match named.schema == services::SCHEMA {
            true => ServiceSoak::parse(text).map(Box::new).map(Self::Services),
            false => SoakState::parse(text).map(Box::new).map(Self::Messages),
        }
    }

    /// Whether it can go on.
    pub fn can_go_on(&self) -> bool {
        let verdict = match self {
            Self::Messages(state) => state.verdict,
            Self::Services(state) => state.verdict,
        };
        matches!(verdict, SoakVerdict::Running | SoakVerdict::Interrupted)
    }

    /// Whether all of it is on a virtual network of this machine.
    pub fn is_on_fabric(&self) -> bool {
        match self {
            Self::Messages(state) => state.settings.peers.is_empty(),
            Self::Services(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_says_of_which_kind_a_soak_is() {
        let services = crate::services::state::tests::state().to_json();
        let read = SavedSoak::parse(&services).unwrap();
        assert!(matches!(&read, SavedSoak::Services(state) if state.to_json() == services));
        assert!(read.can_go_on() && read.is_on_fabric());
        let messages = include_str!("../../model/fixtures/soak.json");
        assert!(matches!(SavedSoak::parse(messages), Ok(SavedSoak::Messages(_))));
        for wrong in ["{}", "[]", "", r#"{"schema": "gigae.soak.9"}"#] {
            assert!(SavedSoak::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_missing_file_says_what_to_name() {
        let error = SavedSoak::read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("name the directory of a soak"), "{error}");
    }
}
