//! What a program gives.

/// A figure of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct MountValue {
    /// What was measured, in the words of results.
    pub what: &'static str,
    /// `MB/s` or `/s`.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
    /// The least and the most meanwhile, if the program says so.
    pub range: Option<[f64; 2]>,
    /// The share of the guest's processor in percent, if the program says so.
    pub cpu: Option<f64>,
}
