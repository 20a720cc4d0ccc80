//! Arguments of `ca`, and those of `serve` and `connect` about HTTPS.

use super::values::{groups, texts};
use clap::Args;
use oncewire_net::https::{NamedCertificate, Pin, Service};
use oncewire_net::target::Host;
use serde::Deserialize;
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

/// Options of `connect` about HTTPS.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct TerminateArgs {
    /// HTTPS services to open, NAME[:PORT], so that repeats in them are found; *.NAME is every name
    /// below. Separated by commas; repeatable. Needs --ca. All else passes untouched
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "HTTPS")]
    #[serde(deserialize_with = "texts")]
    pub(crate) terminate: Vec<Service>,
    /// Private key of the CA that applications trust for that, made by `oncewire ca`
    #[arg(long, value_name = "FILE", help_heading = "HTTPS")]
    pub(crate) ca: Option<PathBuf>,
    /// Its certificate [default: the file of --ca, with .crt in the place of .key]
    #[arg(long, value_name = "FILE", help_heading = "HTTPS")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// A service to open with its own certificate, NAME[:PORT]=CERTIFICATE:KEY, two files in PEM;
    /// repeatable
    #[arg(long, value_name = "SERVICE", help_heading = "HTTPS")]
    #[serde(deserialize_with = "texts")]
    pub(crate) https: Vec<NamedCertificate<Service>>,
}

/// Options of `serve` about HTTPS.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct OriginArgs {
    /// CAs that verify the origins of HTTPS services that peers open, in PEM [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "HTTPS")]
    pub(crate) origin_ca: Option<PathBuf>,
    /// A key that such an origin must have, NAME=sha256/BASE64 (RFC 7469); repeatable
    #[arg(long, value_name = "PIN", help_heading = "HTTPS")]
    #[serde(deserialize_with = "texts")]
    pub(crate) origin_pin: Vec<Pin>,
    /// A certificate for such an origin that asks for one, NAME=CERTIFICATE:KEY; repeatable. Every
    /// peer that may reach the origin uses it
    #[arg(long, value_name = "CERTIFICATE", help_heading = "HTTPS")]
    #[serde(deserialize_with = "texts")]
    pub(crate) origin_cert: Vec<NamedCertificate<Host>>,
}

groups!(TerminateArgs, OriginArgs);
