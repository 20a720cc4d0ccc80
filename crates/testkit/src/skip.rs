//! Tests that cannot run here say so.
//!
//! A line `skipped: NAME: REASON` on standard error, which CI collects and counts. With
//! `ONCEWIRE_REQUIRE_ALL=1` in the environment the test fails instead, so that a machine with all
//! programs, data and root can prove that nothing was skipped.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Reports that a test, or a part of it, does not run here, and continues: `skipped!("there is no
/// IPv6")`.
///
/// # Panics
/// If `ONCEWIRE_REQUIRE_ALL` is 1.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)*) => {
        $crate::skip::report(format_args!($($reason)*))
    };
}

/// Ends the test, which counts as passed, after [`skipped!`].
///
/// # Panics
/// If `ONCEWIRE_REQUIRE_ALL` is 1.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::skipped!($($reason)*);
        return Default::default();
    }};
}

/// The path of an installed program; otherwise ends the test with [`skip!`]: `let nginx =
/// need_tool!("nginx");`.
#[macro_export]
macro_rules! need_tool {
    ($name:expr) => {
        match $crate::servers::tool($name) {
            Some(path) => path,
            None => $crate::skip!("{} is not installed", $name),
        }
    };
}

/// The function behind [`skipped!`]. The name is that of the thread, which the test harness names
/// after the test.
///
/// # Panics
/// If `ONCEWIRE_REQUIRE_ALL` is 1.
pub fn report(reason: Arguments<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // Not `eprintln!`, whose output the test harness captures. In one write, so that lines of other
    // tests do not mix with it. It does not matter if nobody reads standard error.
    let _ = io::stderr().write_all(format!("skipped: {name}: {reason}\n").as_bytes());
    let required = std::env::var_os("ONCEWIRE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "{name} was skipped, and ONCEWIRE_REQUIRE_ALL is 1: {reason}");
}
