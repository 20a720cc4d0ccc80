//! Numbers in prose, as `oncewire-report` writes them in tables, and counts with their noun.

use oncewire_report::Unit;
use oncewire_report::format::number;
pub(crate) use oncewire_report::format::{bytes, cache, share as percent};

/// A time in seconds: `20 ms`, `1.5 s`, `5 min`, `2 h`.
pub(crate) fn seconds(seconds: f64) -> String {
    number(seconds, Unit::Seconds)
}

/// A difference of two shares: `0.7 points`.
pub(crate) fn points(share: f64) -> String {
    percent(share).replace('%', "points")
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
    fn counts_have_their_noun() {
        assert_eq!(count(1, "packet"), "1 packet");
        assert_eq!(count(2, "body"), "2 bodies");
        assert_eq!(points(0.007), "0.70 points");
    }
}
