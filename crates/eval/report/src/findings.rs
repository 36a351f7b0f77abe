//! Findings: what follows from the results, in sentences.
//!
//! A rule looks at the results of any plan, and where it finds what it needs, it says what follows:
//! a function of the figures alone, so that the same results always lead to the same sentences. It
//! does not say more than they do: where two figures' intervals overlap, they do not differ.
//!
//! To add one: write the rule in a file here and name it in [`RULES`].

mod access;
mod cores;
mod files;
mod incast;
mod links;
mod load;
mod machine;
mod metadata;
mod mounts;
mod programs;
mod streams;
mod text;
mod trips;
mod tuning;

pub use machine::{PathStage, ladder};
pub use streams::bandwidth_delay;
pub use trips::{Fit, Growth, fits};
pub use tuning::{Recommended, commands, recommended};

use gigae_eval_model::plan::{Plan, PlanError, QuotePlan};
use gigae_eval_model::results::Results;

/// A rule and the question that it answers.
pub struct Rule {
    /// Its name, by which a plan sets a paper's sentence beside it.
    pub name: &'static str,
    /// Its sentences; none where the results do not have what it needs.
    find: fn(&Results) -> Vec<String>,
}

/// All rules, in the order of the findings in the report.
pub const RULES: &[Rule] = &[
    Rule { name: "quickest", find: trips::quickest },
    Rule { name: "asleep", find: trips::asleep },
    Rule { name: "switch", find: links::switch },
    Rule { name: "link-rate", find: links::link_rate },
    Rule { name: "tcp-share", find: trips::tcp_share },
    Rule { name: "echo-by-size", find: trips::echo_by_size },
    Rule { name: "most", find: streams::most },
    Rule { name: "coalescing", find: streams::coalescing },
    Rule { name: "buffer", find: streams::buffer },
    Rule { name: "nodelay", find: streams::nodelay },
    Rule { name: "cpus", find: streams::cpus },
    Rule { name: "slower-cpu", find: tuning::slower_cpu },
    Rule { name: "tuning", find: tuning::tuning },
    Rule { name: "ceiling", find: machine::ceiling },
    Rule { name: "programs", find: programs::programs },
    Rule { name: "narrowest", find: machine::narrowest },
    Rule { name: "slot", find: machine::slot },
    Rule { name: "load", find: load::load },
    Rule { name: "incast", find: incast::incast },
    Rule { name: "shares", find: crate::shares::findings },
    Rule { name: "cores", find: cores::cores },
    Rule { name: "processors", find: cores::rates },
    Rule { name: "beside", find: files::beside },
    Rule { name: "files", find: files::files },
    Rule { name: "clients", find: files::clients },
    Rule { name: "protection", find: files::protection },
    Rule { name: "login", find: files::login },
    Rule { name: "memory", find: files::memory },
    Rule { name: "access", find: access::access },
    Rule { name: "ways", find: access::ways },
    Rule { name: "direct", find: access::direct },
    Rule { name: "fsync", find: access::fsync },
    Rule { name: "metadata", find: metadata::metadata },
    Rule { name: "delay", find: metadata::delay },
    Rule { name: "mounts", find: mounts::mounts },
    Rule { name: "mounts-direct", find: mounts::direct },
    Rule { name: "mounts-gigae", find: mounts::own },
    Rule { name: "mounts-clients", find: mounts::clients },
    Rule { name: "bufferbloat", find: load::bufferbloat },
];

/// Refuses a plan that sets a paper's sentence beside a finding which does not exist. The error is
/// one line; `name` is what the user calls the plan.
pub fn check(plan: &Plan, name: &str) -> Result<(), PlanError> {
    let unknown = |said: &&QuotePlan| !RULES.iter().any(|rule| rule.name == said.finding);
    match plan.said.iter().find(unknown) {
        Some(said) => Err(PlanError::Malformed {
            plan: name.to_owned(),
            reason: format!(
                "said '{}': unknown finding '{}'; choose one of: {}",
                said.source,
                said.finding,
                RULES.iter().map(|rule| rule.name).collect::<Vec<_>>().join(", ")
            ),
        }),
        None => Ok(()),
    }
}

/// What follows, and what papers said to the same question.
pub struct Finding<'a> {
    /// The rule that found it.
    pub rule: &'static str,
    /// The sentences, most often one for each link.
    pub sentences: Vec<String>,
    /// What the plan's papers said.
    pub said: Vec<&'a QuotePlan>,
}

/// All findings of a run.
pub fn of(results: &Results) -> Vec<Finding<'_>> {
    let finding = |rule: &'static Rule| Finding {
        rule: rule.name,
        sentences: (rule.find)(results),
        said: results.plan.said.iter().filter(|said| said.finding == rule.name).collect(),
    };
    RULES.iter().map(finding).filter(|finding| !finding.sentences.is_empty()).collect()
}

#[cfg(test)]
mod testing {
    //! Results of made-up cells.

    use super::text::{bytes, mark_doubtful};
    use super::*;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::plan::{Condition, SHIPPED, Wait};
    use gigae_eval_model::results::Series;

    /// The committed results' conditions, with these links and no cells.
    pub(super) fn results(links: &[&str]) -> Results {
        let text = include_str!("../../model/fixtures/results.json");
        let mut results = Results::parse(text).expect("the fixture");
        let model = results.environment.link[0].clone();
        results.environment.link.clear();
        for &name in links {
            let mut link = model.clone();
            link.name = name.to_owned();
            results.environment.link.push(link);
        }
        results.plan.tcp.clear();
        results.series.truncate(1);
        results
    }

    /// A cell on the first link, spinning; its interval is 1 % wide on either side.
    pub(super) fn cell(
        results: &Results,
        experiment: Experiment,
        transport: &str,
        size: usize,
        median: f64,
    ) -> Series {
        Series {
            experiment,
            transport: transport.into(),
            variant: None,
            condition: Condition::default(),
            link: results.environment.link[0].name.clone(),
            wait: Wait::Spin,
            size,
            median,
            ci95: [median * 0.99, median * 1.01],
            limit: None,
            doubts: Vec::new(),
            ..results.series[0].clone()
        }
    }

    #[test]
    fn numbers_have_their_commas() {
        assert_eq!(
            [4, 512, 1472, 65_536, 1 << 20].map(bytes).join(" "),
            "4 B 512 B 1,472 B 65,536 B 1,048,576 B"
        );
    }

    #[test]
    fn results_without_what_a_rule_needs_lead_to_no_finding() {
        let mut empty = results(&["cable"]);
        empty.series.clear();
        for rule in RULES {
            assert_eq!((rule.find)(&empty), Vec::<String>::new(), "{}", rule.name);
        }
    }

    #[test]
    fn a_sentence_of_doubtful_figures_is_marked() {
        let all = results(&["cable"]);
        let mut trip = cell(&all, Experiment::Rtt, "tcp", 8, 5.0);
        trip.doubts = vec!["overhead: said of all".into()];
        assert_eq!(mark_doubtful("It is so.".into(), &[&trip]), "It is so.");
        trip.doubts.push("wide-interval: repeat".into());
        assert_eq!(mark_doubtful("It is so.".into(), &[&trip]), "It is so. !");
    }

    #[test]
    fn plans_that_name_no_finding_are_refused_and_the_shipped_ones_are_not() {
        for (name, _) in SHIPPED {
            check(&Plan::load(name).unwrap(), name).unwrap();
        }
        let plans = SHIPPED.iter().map(|(name, _)| Plan::load(name).unwrap());
        let mut plan = plans.into_iter().find(|plan| !plan.said.is_empty()).unwrap();
        plan.said[0].finding = "nonsense".to_owned();
        let error = check(&plan, "mine").unwrap_err().to_string();
        assert!(error.contains("unknown finding 'nonsense'"), "{error}");
    }

    #[test]
    fn rules_have_different_names() {
        let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
