//! A table as text in cells, and how numbers and names look in it.

use gigae_eval_model::results::{Results, Series};

/// Heading of a last column whose cells are sentences about where a value is from.
pub const FROM: &str = "from";

/// Heading of a last column whose cells are sentences about what a row means.
pub const MEANS: &str = "means";

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// A sentence on how to read it; may be empty.
    pub note: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The rows; each as long as the header.
    pub rows: Vec<Vec<String>>,
}

/// Something that is known, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub value: String,
}

impl NamedValue {
    /// This value by this name.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The TCP setting that represents TCP in comparisons: the papers' (no delay), in nothing else
/// unusual.
pub fn reference_tcp(results: &Results) -> Option<String> {
    let settings = &results.plan.tcp;
    let plain = settings.iter().filter(|(_, options)| options.is_plain());
    let papers = plain.clone().find(|(_, options)| options.nodelay && options.buffer.is_some());
    papers.or_else(|| plain.clone().next()).map(|(name, _)| name.clone())
}

/// JSON data as a line of text.
pub fn plain(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => "not known".into(),
        Value::Bool(on) => if *on { "on" } else { "off" }.into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let pairs = map.iter().filter(|(_, value)| !value.is_null());
            pairs
                .map(|(name, value)| format!("{name} {}", plain(value)))
                .collect::<Vec<_>>()
                .join(", ")
        }
        other => other.to_string(),
    }
}

/// Labels of transports in the order in which they first appear.
pub fn labels<'a>(series: impl Iterator<Item = &'a Series>) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for one in series {
        if !labels.contains(&one.label()) {
            labels.push(one.label());
        }
    }
    labels
}

/// Words as they stand in a header or a row.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
