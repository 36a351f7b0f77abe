//! `gigae plans`: the shipped plans, what each measures, how long that takes, and what it repeats.

use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use clap::Args;
use gigae_eval_model::plan::{Plan, PlanError, SHIPPED};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// List the shipped plans, or print one as a start for your own.
///
/// A plan is a TOML file that says what to measure and how. Run one with 'gigae eval --plan NAME'.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct PlansArgs {
    /// Print this plan's text
    pub name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    pub json: bool,
}

/// Runs `gigae plans`.
pub fn plans(args: &PlansArgs) -> ExitCode {
    finish(text(args).map_err(CommandError::from).and_then(|text| say(&text)))
}

fn text(args: &PlansArgs) -> Result<String, PlanError> {
    if let Some(name) = &args.name {
        let shipped = SHIPPED.iter().find(|(shipped, _)| shipped == name);
        let (_, text) = shipped.ok_or_else(|| PlanError::Unknown(name.clone()))?;
        return Ok((*text).to_owned());
    }
    let plans = SHIPPED.iter().map(|(name, _)| Plan::load(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(if args.json { list_as_json(&plans) } else { list(&plans) })
}

fn list(plans: &[Plan]) -> String {
    let mut text = String::new();
    for plan in plans {
        let _ = writeln!(text, "{:10}  {}", plan.name, plan.about);
        if !plan.takes.is_empty() {
            let _ = writeln!(text, "{:10}  takes {} on the virtual network", "", plan.takes);
        }
        if !plan.repeats.is_empty() {
            let _ = writeln!(text, "{:10}  repeats {}", "", plan.repeats);
        }
    }
    text.push_str(
        "\nCarry one out with: gigae eval --plan NAME\nPrint one with: gigae plans NAME\n",
    );
    text
}

fn list_as_json(plans: &[Plan]) -> String {
    let entry = |plan: &Plan| {
        json!({
            "name": plan.name, "about": plan.about, "takes": plan.takes, "repeats": plan.repeats,
        })
    };
    let list: Vec<_> = plans.iter().map(entry).collect();
    format!("{:#}\n", serde_json::Value::from(list))
}
