//! Arguments of `invite` and `enroll`.

use crate::quantity::{parse_time, time};
use clap::Args;
use oncewire_net::target::Target;
use std::path::PathBuf;
use std::time::Duration;

/// Default of [`InviteArgs::valid`]: a day.
const VALID: Duration = Duration::from_secs(86_400);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire invite /var/lib/oncewire/invitations --key b.key --name branch-7
  oncewire invite invitations --key b.key --name branch-8 --valid 1h \\
    --allow intranet.example:443 --expires 2027-12-31
  oncewire serve --key b.key --authorized-peers peers --invitations invitations

The token, one line, goes to standard output. Whoever has it before the branch does can join in its place: send it by a way \
that nobody else can read. It holds the public key of the hub, so nothing else has to be exchanged.")]
pub(crate) struct InviteArgs {
    /// Directory of invitations, the one of `serve --invitations`; made if there is none
    pub(crate) directory: PathBuf,
    /// Secret key of the hub, the one of `serve --key`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Name of the branch, one word, as log lines and `status` will show it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Destination that this branch may reach, host:ports, instead of those of `serve --allow`;
    /// repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Last day on which the branch is accepted, YYYY-MM-DD, by UTC
    #[arg(long, value_name = "DATE")]
    pub(crate) expires: Option<String>,
    /// How long the token is good
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(VALID))]
    pub(crate) valid: Duration,
    /// Print one JSON document instead of the line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire enroll hub.example:7077 --key branch.key --token \"$(cat token)\"

The hub must listen on TCP and run with --invitations. A token is good for one key; the same key may come again.")]
pub(crate) struct EnrollArgs {
    /// Where the hub listens, host:port
    pub(crate) server: Target,
    /// Secret key of this end; made if there is none
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The token; - reads it from standard input, so that no list of processes shows it
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: String,
    /// Print one JSON document instead of how to connect
    #[arg(long)]
    pub(crate) json: bool,
}
