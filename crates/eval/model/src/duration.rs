//! Durations as people write them: `90s`, `10m`, `12h`, `30d`; and how what was measured looks.

use crate::number::short;
use std::time::Duration;

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// Longest duration, in days: ten years.
const LONGEST: u64 = 3650;

/// Reads a duration of a second to ten years.
pub fn parse(text: &str) -> Result<Duration, String> {
    let refuse = || format!("'{text}' is not a duration; write for example 90s, 10m, 12h or 30d");
    let unit = text.chars().next_back().ok_or_else(refuse)?;
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refuse)?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| refuse())?;
    let all = number.checked_mul(*seconds).filter(|all| *all <= LONGEST * 86_400);
    match all.ok_or_else(refuse)? {
        0 => Err(format!("'{text}' is zero; give one second or more")),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

/// Writes a number of seconds with its two largest units.
pub fn say(seconds: f64) -> String {
    let mut left = seconds.max(0.0).round() as u64;
    let mut parts = Vec::new();
    for (name, unit) in UNITS {
        if (left >= unit || unit == 1 && parts.is_empty()) && parts.len() < 2 {
            parts.push(format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    parts.join(" ")
}

/// How long something took, in whole seconds: `184 s`.
pub fn seconds(seconds: f64) -> String {
    format!("{seconds:.0} s")
}

/// A moment or a pause, in tenths of a second: `2.5 s`.
pub fn tenths(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

/// What the processor itself takes: nanoseconds with three significant digits.
pub fn nanoseconds(nanoseconds: f64) -> String {
    format!("{} ns", short(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_seconds_minutes_hours_and_days() {
        let seconds = |text| parse(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds("12h"), Ok(43_200));
        assert_eq!(seconds("30d"), Ok(2_592_000));
        for wrong in
            ["", "10", "m", "-1s", "1.5h", "0s", "5w", "99999999999999999999d", "4000d", "1µ"]
        {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_said_with_two_units() {
        assert_eq!(say(0.2), "0s");
        assert_eq!(say(600.0), "10m");
        assert_eq!(say(93_784.0), "1d 2h");
        assert_eq!(say(61.0), "1m 1s");
    }

    #[test]
    fn what_was_measured_has_the_digits_of_its_unit() {
        let texts = [seconds(183.6), tenths(2.46), nanoseconds(24.96)];
        assert_eq!(texts, ["184 s", "2.5 s", "25.0 ns"]);
    }
}
