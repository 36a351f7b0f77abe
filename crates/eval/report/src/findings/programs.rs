//! Whether our figures agree with those of other programs.

use super::text::{bytes, name};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{change, percent, short};
use gigae_eval_model::program_figure::{AGREE, Agreement, ProgramFigure};
use gigae_eval_model::results::Results;

/// A sentence for all that agree, and one for each that does not, with what the program does
/// otherwise.
pub(super) fn programs(results: &Results) -> Vec<String> {
    let all = &results.programs;
    if all.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for one in all {
        if !names.contains(&one.program.as_str()) {
            names.push(&one.program);
        }
    }
    let agree = all.iter().filter(|one| one.verdict() == Agreement::Agrees).count();
    let mut sentences = vec![format!(
        "Of {} figures beside {}, {agree} agree within {}.",
        all.len(),
        names.join(", "),
        percent(AGREE)
    )];
    sentences.extend(all.iter().filter(|one| one.verdict() != Agreement::Agrees).map(say));
    sentences
}

fn say(one: &ProgramFigure) -> String {
    let what = match one.experiment {
        Experiment::Stream => "streams",
        _ => "round trips",
    };
    let open = match one.verdict() {
        Agreement::Open => format!(", which may still be less than {}", percent(AGREE)),
        _ => String::new(),
    };
    let figure = |value: f64| format!("{} {}", short(value), one.unit);
    format!(
        "{} {what} of {} are {} here and {} by {}, {}{open} ({}, {}): {}.",
        name(&one.transport),
        bytes(one.size),
        figure(one.ours),
        figure(one.theirs),
        one.program,
        change(one.ratio - 1.0),
        one.link,
        one.options,
        one.otherwise
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::results;
    use super::*;

    fn beside(program: &str, ratio: f64, half: f64) -> ProgramFigure {
        ProgramFigure {
            program: program.into(),
            link: "cable".into(),
            experiment: Experiment::Rtt,
            transport: "tcp".into(),
            size: 64,
            options: "nodelay, buffers 131072".into(),
            unit: "us".into(),
            ours: 30.0 * ratio,
            theirs: 30.0,
            ratio,
            ci95: [ratio - half, ratio + half],
            coverage: 0.97,
            pairs: Vec::new(),
            counts: "the mean round trip".into(),
            otherwise: "it stops for tea".into(),
            command: String::new(),
        }
    }

    #[test]
    fn figures_that_agree_are_counted_and_others_named_with_the_reason() {
        let mut all = results(&["cable"]);
        all.programs =
            vec![beside("one", 1.04, 0.5), beside("two", 1.2, 0.01), beside("one", 1.0, 0.01)];
        assert_eq!(
            programs(&all),
            [
                "Of 3 figures beside one, two, 2 agree within 5 %.",
                "TCP round trips of 64 B are 36.0 us here and 30.0 us by two, +20 % (cable, nodelay, buffers 131072): \
                 it stops for tea."
            ]
        );
        all.programs = vec![beside("one", 0.9, 0.1)];
        let said = programs(&all);
        assert!(said[1].contains("-10 %, which may still be less than 5 %"), "{said:?}");
    }
}
