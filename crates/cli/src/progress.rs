//! Progress on standard error, when that is a terminal.

use crate::failure::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar of bytes, rate and time left; a counter where the total is unknown; nothing where nobody is watching.
pub(crate) fn bar(total: Option<u64>) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = match total {
        Some(_) => "{wide_bar} {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left",
        None => "{spinner} {decimal_bytes}  {decimal_bytes_per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let target = if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    bar.set_draw_target(target);
    bar
}

/// A bar of steps and time left, its length still to be set.
pub(crate) fn steps() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len}  {eta} left") {
        bar.set_style(style);
    }
    bar.set_draw_target(if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    });
    bar
}

/// One line about finished work, for a person who is watching.
pub(crate) fn note(text: &str) {
    if std::io::stderr().is_terminal() {
        say(text);
    }
}
