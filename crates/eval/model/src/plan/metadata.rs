//! `[[metadata]]`: whose operations on names are measured.

use crate::metadata::MetadataCell;
use crate::service;
use serde::{Deserialize, Serialize};

/// Fewest and most files: a listing has all of them.
const FILES: [u32; 2] = [1, 20_000];

/// Operations on the names of small files: create, stat, list, rename and delete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataPlan {
    /// The name of the service.
    pub service: String,
    /// Names of links of this plan.
    pub links: Vec<String>,
    /// How many files are in the directory; each is a separate cell.
    pub files: Vec<u32>,
    /// Repetitions of each cell; absent: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
}

impl MetadataPlan {
    /// Its cells.
    pub(super) fn cells(&self) -> impl Iterator<Item = MetadataCell> {
        let service = &self.service;
        self.files.iter().map(|&files| MetadataCell { service: service.clone(), files })
    }

    /// The error is one line. `is_loopback` says of a link's name whether that is a loopback;
    /// nothing if there is no such link.
    pub(super) fn check(&self, is_loopback: impl Fn(&str) -> Option<bool>) -> Result<(), String> {
        if !service::by_name(&self.service).is_some_and(|spec| spec.names) {
            let known = service::SERVICES.iter().filter(|spec| spec.names);
            let known: Vec<&str> = known.map(|spec| spec.name).collect();
            return Err(format!("no such service, known: {}", known.join(", ")));
        }
        if let Some(name) = self.links.iter().find(|name| is_loopback(name).is_none()) {
            return Err(format!("unknown link '{name}'"));
        }
        if self.links.iter().any(|name| is_loopback(name) == Some(true)) {
            return Err("a loopback has no second node for the server".into());
        }
        if self.links.is_empty() || self.files.is_empty() {
            return Err("no list may be empty".into());
        }
        let [least, most] = FILES;
        if !self.files.iter().all(|files| (least..=most).contains(files)) {
            return Err(format!("files must be from {least} to {most}"));
        }
        if self.repetitions.is_some_and(|times| !(1..=1000).contains(&times)) {
            return Err("repetitions must be from 1 to 1000".into());
        }
        Ok(())
    }
}
