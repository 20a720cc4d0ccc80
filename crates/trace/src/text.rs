//! Numbers in prose: shares, bytes, times and counts.

/// A share in percent: `12.3 %`; with two decimals below 0.1 %.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 0.1 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Bytes with a decimal unit: `250 MB`, `1.5 kB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if value.fract() == 0.0 || value >= 99.5 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// A time in seconds: `20 ms`, `1.5 s`, `5 min`, `2 h`.
pub(crate) fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 2.0 * 86400.0 => (s / 86400.0, "days"),
        s if s >= 7200.0 || s == 3600.0 => (s / 3600.0, "h"),
        s if s >= 3600.0 || (s >= 60.0 && s % 60.0 == 0.0) => (s / 60.0, "min"),
        s if s >= 1.0 || s == 0.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let value = format!("{value:.1}");
    format!("{} {unit}", value.strip_suffix(".0").unwrap_or(&value))
}

/// A count with its noun: `1 packet`, `2 packets`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {}", plural(noun)) }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(percent(0.0004), "0.04 %");
        assert_eq!(bytes(250_000_000), "250 MB");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(999_999_999_999_999), "1000.0 TB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(seconds(0.02), "20 ms");
        assert_eq!(seconds(1800.0), "30 min");
        assert_eq!(seconds(5400.0), "90 min");
        assert_eq!(count(1, "packet"), "1 packet");
        assert_eq!(count(2, "body"), "2 bodies");
    }
}
