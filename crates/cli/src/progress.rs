//! Progress on standard error, if that is a terminal.

use crate::failure::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar with bytes, rate and remaining time, or a counter if the total is unknown. Hidden unless
/// standard error is a terminal.
pub(crate) fn bar(total: Option<u64>) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = match total {
        Some(_) => {
            "{wide_bar} {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left{msg}"
        }
        None => "{spinner} {decimal_bytes}  {decimal_bytes_per_sec}{msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_draw_target(target());
    bar
}

/// A bar with steps and remaining time. The caller sets its length.
pub(crate) fn steps() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len}  {eta} left") {
        bar.set_style(style);
    }
    bar.set_draw_target(target());
    bar
}

fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

/// Writes a line about finished work if standard error is a terminal.
pub(crate) fn note(text: &str) {
    if std::io::stderr().is_terminal() {
        say(text);
    }
}
