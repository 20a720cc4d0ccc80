//! Numbers with their units, as people read them: three significant digits, decimal prefixes.

use crate::{Cell, Unit};
use std::time::Duration;

/// Stands for a number that was not measured or is not defined.
pub const MISSING: &str = "–";

/// A cell of a column of that unit.
pub fn cell(cell: &Cell, unit: Unit) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => match unit {
            Unit::Count | Unit::Number | Unit::Text => count_of(*count),
            _ => number(*count as f64, unit),
        },
        Cell::Number(value) => number(*value, unit),
        Cell::None => MISSING.into(),
    }
}

/// A number of that unit, with about three significant digits. [`MISSING`] if it is infinite or
/// NaN.
pub fn number(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return MISSING.into();
    }
    // The sum of no numbers is -0.
    let value = value + 0.0;
    match unit {
        Unit::Text | Unit::Number => plain(value),
        Unit::Count if value.fract() == 0.0 && value.abs() < 1e15 => {
            signed(value, |value| count_of(value as u64))
        }
        Unit::Count => plain(value),
        Unit::Bytes => signed(value, |value| scaled(value, "B")),
        Unit::Share => share(value),
        Unit::Seconds => signed(value, seconds),
        Unit::BitsPerSecond => signed(value, |value| scaled(value, "bit/s")),
    }
}

/// A share of one in percent. Never rounded to 0 % or 100 %. Shares below -1, such as the savings
/// of a few bytes with the fixed cost of a session, are `< −100 %`.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    let size = percent.abs();
    if size != 0.0 && size < 0.01 {
        return if percent < 0.0 { "> −0.01 %" } else { "< 0.01 %" }.into();
    }
    if percent < -100.0 {
        return "< −100 %".into();
    }
    if (99.0..100.0).contains(&percent) {
        return format!("{:.2} %", (percent * 100.0).floor() / 100.0);
    }
    let digits = if size != 0.0 && size < 0.995 { 2 } else { 1 };
    minus(format!("{percent:.digits$} %"))
}

/// A range of shares: `22 to 58 %`.
pub fn range(low: f64, high: f64) -> String {
    let whole = |share: f64| minus(format!("{:.0}", share * 100.0));
    if low.abs() < 0.1 || high >= 0.99 {
        format!("{} to {}", share(low), share(high))
    } else {
        format!("{} to {} %", whole(low), whole(high))
    }
}

/// `part` of `whole` in percent. [`MISSING`] if there is no whole.
pub fn part(part: u64, whole: u64) -> String {
    if whole == 0 { MISSING.into() } else { share(part as f64 / whole as f64) }
}

/// Bytes with a decimal prefix: `999 B`, `15.7 MB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, "B")
}

/// Bytes per second. [`MISSING`] if no time passed.
pub fn rate(bytes: u64, time: Duration) -> String {
    if time.is_zero() { MISSING.into() } else { scaled(bytes as f64 / time.as_secs_f64(), "B/s") }
}

/// Sizes of memory and caches, which are set in powers of 1,024: `256 MiB`, `1.5 KiB`.
pub fn binary(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < units.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() >= 0.05);
    format!("{value:.digits$} {}", units[unit])
}

/// Savings in percent: 1 - bytes on the wire / bytes without elimination. [`MISSING`] without
/// bytes.
pub fn savings(wire: u64, whole: u64) -> String {
    if whole == 0 { MISSING.into() } else { share(1.0 - wire as f64 / whole as f64) }
}

/// A difference of two shares: `0.70 points`.
pub fn points(share_of_one: f64) -> String {
    share(share_of_one).replace('%', "points")
}

/// A count with its noun, in the plural where it is not 1: `1 packet`, `2 packets`, `2 bodies`.
pub fn counted(count: u64, noun: &str) -> String {
    let count_and = format!("{} {noun}", count_of(count));
    match noun.strip_suffix('y') {
        _ if count == 1 => count_and,
        Some(stem) => format!("{} {stem}ies", count_of(count)),
        None => format!("{count_and}s"),
    }
}

/// Digits in groups of three: `1,234,567`.
pub fn count_of(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The size of a cache: `64 MiB` if it is a multiple of 2^20 bytes, otherwise decimal.
pub fn cache(bytes: u64) -> String {
    if bytes > 0 && bytes.trailing_zeros() >= 20 {
        binary(bytes)
    } else {
        scaled(bytes as f64, "B").replace(".00 ", " ").replace(".0 ", " ")
    }
}

/// An amount of money, without a currency.
pub fn money(amount: f64) -> String {
    if !amount.is_finite() {
        MISSING.into()
    } else if amount.abs() < 1000.0 {
        minus(format!("{amount:.2}"))
    } else {
        signed(amount.round(), |amount| count_of(amount as u64))
    }
}

fn signed(value: f64, write: impl Fn(f64) -> String) -> String {
    if value < 0.0 { format!("−{}", write(-value)) } else { write(value) }
}

/// Replaces a leading hyphen by a minus sign.
fn minus(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

fn digits(value: f64) -> usize {
    if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    }
}

fn plain(value: f64) -> String {
    signed(value, |value| {
        if value == 0.0 {
            "0".into()
        } else if !(1e-3..1e15).contains(&value) {
            format!("{value:.2e}")
        } else if value >= 999.5 || (value.fract() == 0.0 && value < 1e15) {
            count_of(value.round() as u64)
        } else if value < 0.995 {
            format!("{value:.3}")
        } else {
            format!("{value:.*}", digits(value))
        }
    })
}

fn scaled(mut value: f64, unit: &str) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P", "E"];
    let mut prefix = 0;
    while value >= 999.5 && prefix < prefixes.len() - 1 {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 && value.fract() == 0.0 { 0 } else { digits(value) };
    format!("{value:.digits$} {}{unit}", prefixes[prefix])
}

fn seconds(value: f64) -> String {
    let (scale, unit) = match value {
        0.0 => return "0 s".into(),
        v if v < 0.999_5e-6 => (1e-9, "ns"),
        v if v < 0.999_5e-3 => (1e-6, "µs"),
        v if v < 0.999_5 => (1e-3, "ms"),
        v if v < 120.0 => (1.0, "s"),
        v if v < 7_200.0 => (60.0, "min"),
        v if v < 172_800.0 => (3_600.0, "h"),
        _ => (86_400.0, "d"),
    };
    let value = value / scale;
    let text = format!("{value:.*}", digits(value));
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A time as `2026-01-31 23:59:07 UTC`.
pub fn time(nanoseconds: i64) -> String {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date of the Gregorian calendar: eras of 400 years that begin in March, so that the
    // leap day is the last of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// An error's message without `(os error N)`.
pub fn without_number(error: &impl std::fmt::Display) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" (os error ")
        && let Some(len) = text[at..].find(')')
    {
        text.replace_range(at..=at + len, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_sign() {
        let nothing: f64 = [].iter().sum();
        assert!(nothing.is_sign_negative());
        for (unit, text) in [(Unit::Bytes, "0 B"), (Unit::Number, "0"), (Unit::Share, "0.0 %")] {
            assert_eq!(number(nothing, unit), text);
        }
    }

    #[test]
    fn numbers_by_unit() {
        for (value, unit, expected) in [
            (0.6123, Unit::Share, "61.2 %"),
            (0.0, Unit::Share, "0.0 %"),
            (1.0, Unit::Share, "100.0 %"),
            (0.99999, Unit::Share, "99.99 %"),
            (0.00001, Unit::Share, "< 0.01 %"),
            (0.0042, Unit::Share, "0.42 %"),
            (-0.012, Unit::Share, "−1.2 %"),
            (12.0, Unit::Bytes, "12 B"),
            (123.4, Unit::Bytes, "123 B"),
            (12.34, Unit::Bytes, "12.3 B"),
            (999_700.0, Unit::Bytes, "1.00 MB"),
            (-1500.0, Unit::Bytes, "−1.50 kB"),
            (2.5e6, Unit::BitsPerSecond, "2.50 Mbit/s"),
            (0.01, Unit::Seconds, "10 ms"),
            (300.0, Unit::Seconds, "5 min"),
            (7200.0, Unit::Seconds, "2 h"),
            (200.0 * 86_400.0, Unit::Seconds, "200 d"),
            (0.000_25, Unit::Seconds, "250 µs"),
            (1_234_567.0, Unit::Count, "1,234,567"),
            (0.85, Unit::Number, "0.850"),
            (12.34, Unit::Number, "12.3"),
            (1e-7, Unit::Number, "1.00e-7"),
            (f64::NAN, Unit::Bytes, MISSING),
            (f64::INFINITY, Unit::Seconds, MISSING),
        ] {
            assert_eq!(number(value, unit), expected, "{value} {unit:?}");
        }
        assert_eq!(cell(&Cell::Count(1_500_000), Unit::Bytes), "1.50 MB");
        assert_eq!(cell(&Cell::Count(u64::MAX), Unit::Count), "18,446,744,073,709,551,615");
        assert_eq!(cell(&Cell::None, Unit::Count), MISSING);
        assert_eq!(range(0.2204, 0.581), "22 to 58 %");
        assert_eq!(range(0.004, 0.058), "0.40 % to 5.8 %");
        assert_eq!(part(1, 0), MISSING);
        assert_eq!(cache(64 << 20), "64 MiB");
        assert_eq!(cache(250_000_000), "250 MB");
        assert_eq!(cache(64_000_000), "64 MB");
        assert_eq!(cache(1_500_000), "1.50 MB");
        assert_eq!(money(1234.5), "1,235");
        assert_eq!(money(0.5), "0.50");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.00 kB");
        assert_eq!(bytes(15_680_159), "15.7 MB");
        assert_eq!(bytes(999_700), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
        assert_eq!(binary(256 << 20), "256 MiB");
        assert_eq!(binary(1536), "1.5 KiB");
        assert_eq!(rate(1_500_000, Duration::from_secs(1)), "1.50 MB/s");
        assert_eq!(rate(1, Duration::ZERO), MISSING);
        assert_eq!(savings(1, 100_000), "99.99 %");
        assert_eq!(savings(50, 100), "50.0 %");
        assert_eq!(savings(101, 100), "−1.0 %");
        assert_eq!(savings(0, 0), MISSING);
        assert_eq!(savings(500, 100), "< −100 %");
        assert_eq!(points(0.007), "0.70 points");
        assert_eq!(counted(1, "packet"), "1 packet");
        assert_eq!(counted(2000, "body"), "2,000 bodies");
    }

    #[test]
    fn dates() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(time(1_767_225_599_999_999_999), "2025-12-31 23:59:59 UTC");
        assert_eq!(time(-1), "1969-12-31 23:59:59 UTC");
    }
}
