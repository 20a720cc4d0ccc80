//! Arguments of every verb that runs until it is stopped: what it logs, and how it is watched.

use super::admin::AdminAddress;
use super::values::{choice, groups, some_text};
use crate::price::Price;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;

/// How a process is watched over HTTP, and what it records.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct WatchArgs {
    /// Answer over HTTP on [address:]port: a page for browsers at /, /metrics for Prometheus, /status
    /// as JSON. A port alone is on loopback
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    #[serde(deserialize_with = "some_text")]
    pub(crate) admin: Option<AdminAddress>,
    /// File with the token that requests to --admin must show, as a bearer token or a password.
    /// Required if the address is not on loopback
    #[arg(long, value_name = "FILE", help_heading = "Process")]
    pub(crate) admin_token: Option<PathBuf>,
    /// Price of traffic that the page of --admin shows savings in, such as 0.09/GB
    #[arg(long, value_name = "PRICE", help_heading = "Process")]
    #[serde(deserialize_with = "some_text")]
    pub(crate) admin_price: Option<Price>,
    /// File to record what is carried in, for `oncewire report`: an hour by seconds and a month by
    /// minutes
    #[arg(long, value_name = "FILE", help_heading = "Process")]
    pub(crate) history: Option<PathBuf>,
}

/// How a node or a controller is watched over HTTP.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct AdminArgs {
    /// Answer over HTTP on [address:]port: a page for browsers at /, /metrics for Prometheus, /status
    /// as JSON. A port alone is on loopback
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    #[serde(deserialize_with = "some_text")]
    pub(crate) admin: Option<AdminAddress>,
    /// File with the token that requests to --admin must show, as a bearer token or a password.
    /// Required if the address is not on loopback
    #[arg(long, value_name = "FILE", help_heading = "Process")]
    pub(crate) admin_token: Option<PathBuf>,
}

/// What a process logs.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct LogArgs {
    /// Least severe messages to log, on standard error
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        ignore_case = true,
        help_heading = "Process"
    )]
    #[serde(deserialize_with = "choice")]
    pub(crate) log: LogLevel,
    /// Log one JSON object per line
    #[arg(long, help_heading = "Process")]
    pub(crate) log_json: bool,
}

groups!(WatchArgs, AdminArgs, LogArgs);

/// The names and numbers of [`LevelFilter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    #[value(hide = true, alias = "0")]
    Off,
    #[value(alias = "1")]
    Error,
    #[value(alias = "2")]
    Warn,
    #[value(alias = "3")]
    Info,
    #[value(alias = "4")]
    Debug,
    #[value(alias = "5")]
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}
