//! Texts that the evaluator reads: results and plans. An input is either the text itself, or what
//! to change in one that is valid, since few random texts get past a parser.

use crate::meter::within;
use crate::script::Script;
use gigae_eval_model::plan::{Plan, SHIPPED};
use gigae_eval_model::results::Results;
use gigae_eval_report::{asked, html, markdown, ratios};
use serde_json::{Number, Value};
use std::sync::OnceLock;

/// A page some times as long as that of a long run, and what it is made from.
const MEMORY: usize = 64 << 20;

/// Changes that one input may ask for.
const MOST_CHANGES: usize = 64;

/// Results of a real run, of which some parts are changed. Few cells, so that an input takes little
/// time.
const SAMPLE: &str = include_str!("../../../eval/model/fixtures/results.json");

/// What does harm in a page, a table or a terminal, if it gets there as it is.
const TEXTS: [&str; 8] = [
    "",
    "<script>x</script>",
    "\"><img onerror=x>",
    "a|b\n| c |",
    "\u{1b}[2J",
    "]]>&amp;",
    "gigae",
    "\u{202e}\u{1f600}",
];

const NUMBERS: [f64; 10] =
    [0.0, -1.0, 1.0, 0.5, 1e-300, 1e300, -1e300, 4294967296.0, 1.8e19, f64::MIN_POSITIVE];

/// The results reader, and the reports that are made of what it lets through.
///
/// # Panics
/// If reading or reporting does, needs too much memory, does not read back what it writes, or puts
/// a text into a page in which a browser would find an element.
pub fn results(input: &[u8]) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        let text = match script.byte() % 4 {
            0 => String::from_utf8_lossy(script.rest()).into_owned(),
            _ => changed(sample(), &mut script).to_string(),
        };
        let Ok(results) = Results::parse(&text) else { return };
        let again = Results::parse(&results.to_json()).expect("what was written is read");
        assert_eq!(again.to_json(), results.to_json());
        report(&results);
    });
}

fn sample() -> Value {
    static PARSED: OnceLock<Value> = OnceLock::new();
    PARSED.get_or_init(|| serde_json::from_str(SAMPLE).expect("it is valid")).clone()
}

fn report(results: &Results) {
    let page = html::page(results);
    for (element, own) in [("<script", 1), ("<img", 0)] {
        assert_eq!(page.matches(element).count(), own, "the page has {element}");
    }
    let _ = markdown::page(results);
    let _ = (asked::table(results, true), asked::remarks(results), asked::settings(results));
    let _ = (asked::conditions(results), ratios::row_table(results, true));
    let _ = (ratios::memory_table(results), ratios::idle_table(results));
    let _ = (ratios::loss_table(results), ratios::cpu_table(results));
}

/// The plan reader.
///
/// # Panics
/// If it does, or lets a plan through whose cells cannot be listed.
pub fn plan(input: &[u8]) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        let text = match script.byte() {
            way if way % 4 == 0 => String::from_utf8_lossy(script.rest()).into_owned(),
            way => {
                let (_, shipped) = SHIPPED[usize::from(way) % SHIPPED.len()];
                let shipped: Value = toml::from_str(shipped).expect("it is valid");
                let Ok(text) = toml::to_string(&changed(shipped, &mut script)) else { return };
                text
            }
        };
        let Ok(plan) = Plan::parse("hostile", &text) else { return };
        let _ = gigae_eval_session::tune::check(&plan, "hostile");
        let _ = gigae_eval_report::findings::check(&plan, "hostile");
        let most = plan.cells(None, 1500).len() + plan.memory_cells().len();
        for (name, link) in &plan.link {
            let cells = plan.cells(Some(name), link.mtu as usize).len();
            assert!(cells <= 1_000_000 && most <= 1_000_000, "{cells} cells");
        }
        for figure in &plan.figure {
            let _ = figure.targets();
        }
    });
}

/// A document with some of its parts changed.
fn changed(mut value: Value, script: &mut Script<'_>) -> Value {
    for _ in 0..MOST_CHANGES {
        if script.is_over() {
            break;
        }
        let mut at = usize::from(script.u16()) % count(&value);
        if let Some(part) = part(&mut value, &mut at) {
            change(part, script);
        }
    }
    value
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(count).sum(),
        Value::Object(all) => all.values().map(count).sum(),
        _ => 0,
    }
}

/// The part with this number, counted from the outside in.
fn part<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(all) => all.iter_mut().find_map(|one| part(one, at)),
        Value::Object(all) => all.values_mut().find_map(|one| part(one, at)),
        _ => None,
    }
}

fn change(value: &mut Value, script: &mut Script<'_>) {
    let way = script.byte();
    match value {
        Value::Array(all) if way < 200 => match way % 4 {
            0 => all.clear(),
            1 => {
                let one = all.first().cloned();
                all.extend(one);
            }
            2 => drop(all.pop()),
            _ => all.reverse(),
        },
        Value::Object(all) if way < 200 => {
            let key = all.keys().nth(usize::from(script.byte()) % all.len().max(1)).cloned();
            if let Some((_, taken)) = key.and_then(|key| all.remove_entry(&key)) {
                let name = script.pick(&TEXTS);
                if way.is_multiple_of(2) {
                    all.insert(name.to_owned(), taken);
                }
            }
        }
        Value::String(text) if way < 200 => {
            *text = match way % 3 {
                0 => String::from_utf8_lossy(script.take(usize::from(way / 8))).into_owned(),
                1 => format!("{text}{}", script.pick(&TEXTS)),
                _ => script.pick(&TEXTS).to_owned(),
            };
        }
        Value::Number(number) if way < 200 => {
            *number = match way % 4 {
                0 => script.u64().into(),
                1 => script.u16().into(),
                2 => script.byte().into(),
                _ => Number::from_f64(script.pick(&NUMBERS)).unwrap_or(0.into()),
            };
        }
        Value::Bool(truth) if way < 200 => *truth ^= true,
        other => {
            *other = match way % 4 {
                0 => Value::Null,
                1 => Value::String(script.pick(&TEXTS).to_owned()),
                2 => Number::from_f64(script.pick(&NUMBERS)).map_or(Value::Null, Value::Number),
                _ => Value::Bool(way % 8 > 3),
            };
        }
    }
}
