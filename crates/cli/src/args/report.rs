//! Arguments of `report`.

use crate::price::Price;
use crate::quantity::parse_time;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire report
  oncewire report --since 30d --price 0.09/GB --report month.html
  oncewire report --history /var/lib/oncewire-serve/history --json

`serve`, `connect` and `link` record with --history FILE, an hour by seconds and 31 days by minutes. The file can be read while a \
process records, by its owner and root; or copy it to another machine. A price may have a currency: '$90/TB', '0.08 EUR/GB'.")]
pub(crate) struct ReportArgs {
    /// History file [default: that of the running process]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// --status socket of the process whose history file is meant [default: as for `status`]
    #[arg(long, value_name = "PATH", conflicts_with = "history")]
    pub(crate) socket: Option<PathBuf>,
    /// How far to go back, such as 30d, 12h or 90m
    #[arg(long, value_name = "TIME", value_parser = parse_since, default_value = "31d")]
    pub(crate) since: Duration,
    /// Price of traffic, such as 0.09/GB, to show what was saved in money
    #[arg(long, value_name = "PRICE")]
    pub(crate) price: Option<Price>,
    /// Write the report as an HTML file with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_since(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and a unit such as 30d, 12h, 90m or 60s".to_string();
    let since = match text.strip_suffix('d') {
        Some(days) => {
            let days: u64 = days.parse().map_err(|_| wrong())?;
            Duration::from_millis(days.checked_mul(DAY_MS).ok_or_else(wrong)?)
        }
        None => parse_time(text).map_err(|_| wrong())?,
    };
    if since < Duration::from_secs(1) { Err(wrong()) } else { Ok(since) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_have_days() {
        assert_eq!(parse_since("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_since("90m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "d", "0d", "-1d", "1.5d", "999ms", "99999999999999999999d", "1 week"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }
}
