//! How numbers look, in every table, figure, sentence and view.

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

/// Digits in groups of three.
pub fn grouped(number: u64, between: &str) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(between)
}

/// A share in whole percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// An amount of bytes, in powers of ten.
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

/// MiB with a decimal.
pub fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}

/// What a link is shaped to, from bits per second.
pub fn rate(bits: Option<f64>) -> String {
    bits.map_or("not shaped".into(), |bits| format!("{} Mbit/s", bits / 1e6))
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
    }
}
