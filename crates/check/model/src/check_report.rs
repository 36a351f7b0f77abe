//! What a run of the checker has found, and a line about it.

use crate::coverage::CoverageGoal;
use crate::rule::Rule;
use std::fmt;
use std::time::Duration;

/// What a run has found.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Of the form.
    pub name: String,
    /// States that steps led to, and different ones among them.
    pub states: usize,
    /// See `states`.
    pub unique: usize,
    /// States from which the faults ended.
    pub healed: u64,
    /// Steps of the longest path to a state that was looked at.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// All states were looked at.
    pub exhausted: bool,
    /// What occurred, and what did not that should have.
    pub seen: Vec<CoverageGoal>,
    /// See `seen`.
    pub missed: Vec<CoverageGoal>,
    /// The rules that were broken, each with the steps that lead there.
    pub broken: Vec<(Rule, Vec<String>)>,
}

impl CheckReport {
    /// Whether all states were looked at, no rule was broken, and what the form is for was reached.
    pub fn is_sound(&self) -> bool {
        self.exhausted && self.broken.is_empty() && self.missed.is_empty()
    }

    /// The steps that break a rule.
    pub fn broke(&self, rule: Rule) -> Option<&[String]> {
        self.broken.iter().find(|(broken, _)| *broken == rule).map(|(_, steps)| &steps[..])
    }
}

impl CheckReport {
    /// The heading above the lines.
    pub const HEAD: &str = "form                                     \
        states    unique    healed depth seconds  verdict";
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, unique, healed, depth, .. } = self;
        let seconds = self.time.as_secs_f64();
        let verdict = match (self.broken.first(), self.exhausted) {
            (Some(_), _) => "BROKEN",
            (None, false) => "not all states",
            (None, true) if self.missed.is_empty() => "holds",
            (None, true) => "holds, but does not reach what it is for",
        };
        write!(
            f,
            "{name:37} {states:>10}{unique:>10}{healed:>10}{depth:>6}{seconds:>8.1}  {verdict}"
        )?;
        if !self.missed.is_empty() {
            write!(f, ": {:?}", self.missed)?;
        }
        for (rule, steps) in &self.broken {
            write!(f, "\n  not so: {rule}")?;
            for (i, step) in steps.iter().enumerate() {
                write!(f, "\n  {:>4} {step}", i + 1)?;
            }
        }
        Ok(())
    }
}
