//! Arguments of `ca`, and those of `serve` and `connect` about HTTPS.

use clap::Args;
use oncewire_net::https::Service;
use std::path::PathBuf;

/// Default of [`CaArgs::days`]: five years.
const CA_DAYS: u32 = 1826;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire ca ca.key ca.crt --only '*.pypi.example,registry.example'
  oncewire connect site-b:7077 --key a.key --peer \"$(cat b.pub)\" --proxy 1080 \\
    --terminate '*.pypi.example,registry.example' --ca ca.key

Machines that trust the certificate let `connect` open their connections to these names, and to no others: it has name \
constraints (RFC 5280). The key stays where `connect` runs.")]
pub(crate) struct CaArgs {
    /// File for the private key; an existing one is never overwritten
    pub(crate) key: PathBuf,
    /// File for the certificate; an existing one is never overwritten
    pub(crate) certificate: PathBuf,
    /// Names that it may issue certificates for, with all names below them; *.NAME is as NAME here.
    /// Separated by commas; repeatable
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<Service>,
    /// Make a CA for all names. Whoever gets its key can impersonate any site to those who trust it
    #[arg(long, conflicts_with = "only")]
    pub(crate) unconstrained: bool,
    /// Days that it is valid
    #[arg(long, value_name = "N", default_value_t = CA_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: u32,
    /// Its name, as certificate lists show it [default: Oncewire CA and a number]
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Print one JSON document instead of how to install it
    #[arg(long)]
    pub(crate) json: bool,
}
