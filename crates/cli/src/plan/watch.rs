//! Progress on a terminal, Ctrl-C, and how long each stage took.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oncewire_plan::{Stage, Watch};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shows progress on standard error if that is a terminal. The first signal cancels the
/// computation, the second ends the program.
pub(crate) struct Progress {
    line: ProgressBar,
    cancelled: Arc<AtomicBool>,
    /// Each stage and when it began.
    stages: Mutex<Vec<(Stage, Instant)>>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let cancelled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancelled);
        // It fails only if a handler is installed already; that one then decides.
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
        line.set_draw_target(if watched {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        if watched {
            line.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { line, cancelled, stages: Mutex::default() }
    }

    /// Writes something other than progress.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        self.line.suspend(write);
    }

    /// Seconds of each stage that has ended, in order.
    pub(crate) fn seconds(&self) -> Vec<(Stage, f64)> {
        let stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        stages.windows(2).map(|pair| (pair[0].0, (pair[1].1 - pair[0].1).as_secs_f64())).collect()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

impl Watch for Progress {
    fn progress(&self, what: &str, done: u64, total: u64) {
        self.line.set_message(if total == 0 {
            format!("{what}: {done}")
        } else {
            format!("{what}: {done} of {total}")
        });
    }

    fn stopped(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn stage(&self, stage: Stage) {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push((stage, Instant::now()));
        let what = match stage {
            Stage::Topology => "reading the topology",
            Stage::Paths => "finding paths",
            Stage::Placement => "choosing links",
            Stage::Solve => "solving the program",
            Stage::Check => "checking the solution",
            Stage::Failures => "letting links and nodes fail",
            Stage::Manifests => "making manifests",
            Stage::Captures => "looking through the captures",
            Stage::Measure => "measuring volumes and redundancy",
            Stage::Choose => "trying plans",
            Stage::Summary => "summing up",
            _ => return,
        };
        self.line.set_message(what);
    }
}

/// What reports call the time of a stage.
pub(super) fn stage_name(stage: Stage) -> Option<&'static str> {
    Some(match stage {
        Stage::Topology => "reading the topology",
        Stage::Paths => "paths and traffic",
        Stage::Placement => "choosing links",
        Stage::Solve => "building and solving the program",
        Stage::Check => "checking it without the solver's code",
        Stage::Compare => "the schemes it is compared with",
        Stage::Failures => "single failures",
        Stage::EachIngress => "a plan for each ingress, and the schemes beside it",
        Stage::Manifests => "manifests",
        _ => return None,
    })
}
