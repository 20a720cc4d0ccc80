//! The tunnel as users run it: two processes, `oncewire serve` and `oncewire connect`, between real
//! programs.
//!
//! A test whose programs are not installed reports `skipped:` with the reason; `.ci/packages` lists
//! all programs.

#[path = "../../../report/tests/support/browser.rs"]
#[allow(dead_code, unreachable_pub)]
mod browser;
mod configuration;
mod enrollment;
mod history;
mod https;
mod https_clients;
mod https_failures;
mod https_programs;
mod https_streams;
mod https_support;
#[cfg(target_os = "linux")]
mod hubs;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod link_protocols;
#[cfg(target_os = "linux")]
mod link_sites;
#[cfg(target_os = "linux")]
mod link_soak;
mod logging;
mod monitoring;
#[cfg(target_os = "linux")]
mod nodes;
mod page;
mod process;
mod programs;
mod proxy_users;
mod repeats;
#[cfg(target_os = "linux")]
mod restarts;
#[cfg(target_os = "linux")]
mod service;
mod silence;
mod soak;
mod store;
mod support;
mod versions;
