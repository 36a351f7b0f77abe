//! How numbers look, in every table, figure, sentence and view. Each kind has one function here,
//! and its rule there: the digits and the unit. All round to the nearest digit shown. Durations are
//! in [`duration`](crate::duration). Files for programs have numbers as they are.

/// Three significant digits, as far as there are decimals.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Three decimals at most, and no zeros at the end.
pub fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A round number of something that there is a lot of: `20k`.
pub fn thousands(value: f64) -> String {
    match value {
        many if many >= 1e6 => format!("{}M", trimmed(many / 1e6)),
        some if some >= 1e3 => format!("{}k", trimmed(some / 1e3)),
        few => trimmed(few),
    }
}

/// A count with three significant digits: `20.0k`.
pub fn many(count: f64) -> String {
    match count {
        count if count >= 1e6 => format!("{}M", short(count / 1e6)),
        count if count >= 1e3 => format!("{}k", short(count / 1e3)),
        count => format!("{count:.0}"),
    }
}

/// A count in millions, with three significant digits and a space: `0.05 M`. So all counts of a
/// column have one unit.
pub fn millions(count: f64) -> String {
    format!("{} M", short(count / 1e6))
}

/// A ratio that may be close to what is asked of it: three decimals below ten, where two say too
/// little, and three significant digits above.
pub fn exact(ratio: f64) -> String {
    if ratio.abs() < 10.0 { format!("{ratio:.3}") } else { short(ratio) }
}

/// How many times as much: `3.13x`.
pub fn times(ratio: f64) -> String {
    format!("{}x", short(ratio))
}

/// Digits in groups of three.
pub fn grouped(number: u64, between: &str) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(between)
}

/// Bytes of a file: round ones in decimal units, as disks are sold: `80 MB`, `1,234 B`.
pub fn file_size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "KB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", grouped(bytes / unit, ",")),
        None => format!("{} B", grouped(bytes, ",")),
    }
}

/// A share in whole percent, as most of them are said: `97 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A share in tenths of a percent: what is used of a limit, which may be nearly all of it, and what
/// should be little: `99.7 %`.
pub fn tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share in hundredths of a percent, of what should be next to nothing: lost messages, stolen
/// time, a view's own CPU: `0.25 %`.
pub fn hundredths(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A share that a user has set, with all its digits: `0.001 %`. Nine decimals are more than users
/// set, and fewer than what multiplying adds.
pub fn set_share(share: f64) -> String {
    format!("{} %", (share * 1e11).round() / 1e9)
}

/// By how much something is more or less, from a share of what it was; in whole percent and with
/// its sign: `+50 %`.
pub fn change(share: f64) -> String {
    format!("{:+.0} %", share * 100.0)
}

/// A change of `percent` percent for a column of them, as far as its digits say something: tenths
/// below a hundred, with its sign and without a unit.
pub fn signed(percent: f64) -> String {
    if percent.abs() >= 99.95 { format!("{percent:+.0}") } else { format!("{percent:+.1}") }
}

/// An amount of bytes, in powers of ten: MB with a decimal, and from a GB on two of them.
pub fn bytes(number: u64) -> String {
    let number = number as f64;
    match number {
        _ if number >= 1e12 => format!("{:.2} TB", number / 1e12),
        _ if number >= 1e9 => format!("{:.2} GB", number / 1e9),
        _ => format!("{:.1} MB", number / 1e6),
    }
}

/// A size in bytes by powers of two, as short as an axis wants it: `64K`.
pub fn size(bytes: f64) -> String {
    const UNITS: [(f64, &str); 2] = [(1_048_576.0, "M"), (1024.0, "K")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// 10^6 bytes, or 10^6 bytes per second, without the unit: three significant digits.
pub fn megabytes(bytes: f64) -> String {
    short(bytes / 1e6)
}

/// Memory of a process: MiB with a decimal, without the unit.
pub fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}

/// Memory of a machine: GiB with three significant digits.
pub fn gib(bytes: u64) -> String {
    format!("{} GiB", short(bytes as f64 / f64::from(1u32 << 30)))
}

/// A rate that was set, from bits per second: Mbit/s with three decimals at most and no zeros at
/// the end.
pub fn mbit(bits: f64) -> String {
    format!("{} Mbit/s", trimmed(bits / 1e6))
}

/// What a link is shaped to, from bits per second.
pub fn rate(bits: Option<f64>) -> String {
    bits.map_or("not shaped".into(), mbit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_short() {
        assert_eq!([5.0, 2000.0, 1.5e6].map(thousands), ["5", "2k", "1.5M"]);
        assert_eq!([5.0, 2000.0, 1.5e6].map(many), ["5", "2.00k", "1.50M"]);
        assert_eq!([4.0, 65_536.0, 4_194_304.0].map(size), ["4", "64K", "4M"]);
        assert_eq!([1_500_000, 2_000_000_000].map(bytes), ["1.5 MB", "2.00 GB"]);
        assert_eq!([7, 1234, 1_000_000].map(|all| grouped(all, ",")), ["7", "1,234", "1,000,000"]);
        assert_eq!([50_000.0, 1.5e6].map(millions), ["0.05 M", "1.50 M"]);
    }

    #[test]
    fn shares_have_the_digits_of_their_kind() {
        assert_eq!([0.004, 0.97, 1.5].map(percent), ["0 %", "97 %", "150 %"]);
        assert_eq!([tenths(0.997), hundredths(0.0025)], ["99.7 %", "0.25 %"]);
        assert_eq!([0.00001, 0.07, 0.25].map(set_share), ["0.001 %", "7 %", "25 %"]);
        assert_eq!([0.5, -0.2].map(change), ["+50 %", "-20 %"]);
        assert_eq!([3.16, -99.94, -99.96].map(signed), ["+3.2", "-99.9", "-100"]);
    }

    #[test]
    fn ratios_amounts_and_rates_have_their_digits_and_units() {
        assert_eq!([0.9996, 12.34].map(exact), ["1.000", "12.3"]);
        assert_eq!([3.13, 12.34].map(times), ["3.13x", "12.3x"]);
        assert_eq!([119e6, 1.5e6].map(megabytes), ["119", "1.50"]);
        assert_eq!([mib(3 << 19), gib(3 << 29)], ["1.5", "1.50 GiB"]);
        assert_eq!([1e9, 1.12e6].map(mbit), ["1000 Mbit/s", "1.12 Mbit/s"]);
        assert_eq!([rate(None), rate(Some(2.5e6))], ["not shaped", "2.5 Mbit/s"]);
    }
}
