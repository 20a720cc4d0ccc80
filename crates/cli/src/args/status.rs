//! Arguments of `status` and `top`.

use crate::quantity::parse_time;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire status
  oncewire status --json | jq '.[].sessions[].here.flows'

Figures of the other end come from its last report. It reports at most once a second, and only when something has changed: \
on an idle tunnel, an old report is still accurate.")]
pub(crate) struct StatusArgs {
    /// The process's --status socket [default: those in $XDG_RUNTIME_DIR and of the systemd units
    /// in docs/examples]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print the whole state as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire top
  oncewire top --socket /run/oncewire-serve/status.sock --interval 5s

Keys: arrows select a peer, Enter shows its counters, s sorts by the next column, / filters by name or key, p pauses, Tab \
shows the next process, q quits. Rates are those of the last interval. For programs there is `oncewire status --json`.")]
pub(crate) struct TopArgs {
    /// The process's --status socket [default: those in $XDG_RUNTIME_DIR and of the systemd units
    /// in docs/examples]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Time between two looks, 100ms to 1h
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "1s")]
    pub(crate) interval: Duration,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_time(text)?;
    let fits = (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval);
    if fits { Ok(interval) } else { Err("use 100ms to 1h".into()) }
}
