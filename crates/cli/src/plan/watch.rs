//! Whoever waits for a plan: a line of progress where a person watches, and Ctrl-C.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oncewire_plan::Watch;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shows progress on standard error if that is a terminal; the first signal ends the computation, the second the program.
pub(super) struct Waiting {
    line: ProgressBar,
    enough: Arc<AtomicBool>,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        let enough = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&enough);
        // It fails only where there is a handler already: then that one decides.
        let _ = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                output::end(130);
            }
        });
        let line = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
            line.set_style(style);
        }
        let watched = std::io::stderr().is_terminal();
        line.set_draw_target(if watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        if watched {
            line.enable_steady_tick(Duration::from_millis(200));
        }
        Waiting { line, enough }
    }

    /// Whether the user has had enough.
    pub(super) fn enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Writes something that is not progress.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        self.line.suspend(write);
    }

    /// Says what is done now.
    pub(super) fn say(&self, what: &str) {
        self.line.set_message(what.to_owned());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

impl Watch for Waiting {
    fn progress(&self, stage: &str, done: u64, total: u64) {
        self.line.set_message(if total == 0 { format!("{stage}: {done}") } else { format!("{stage}: {done} of {total}") });
    }

    fn stopped(&self) -> bool {
        self.enough()
    }
}
