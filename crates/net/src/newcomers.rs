//! Connections that have not yet said who they are or what they want.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// Their tasks, the oldest first. When there are too many, the oldest makes room, so that those who say nothing cannot keep others out.
pub(crate) struct Newcomers {
    most: usize,
    tasks: Mutex<VecDeque<AbortHandle>>,
}

impl Newcomers {
    /// At most so many at once.
    pub(crate) fn new(most: usize) -> Newcomers {
        Newcomers { most, tasks: Mutex::default() }
    }

    /// Runs the task of one more; returns whether the oldest had to go. The task ends when it is known what the connection wants.
    pub(crate) fn begin(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= self.most {
            tasks.retain(|task| !task.is_finished());
        }
        let oldest = if tasks.len() >= self.most { tasks.pop_front() } else { None };
        if let Some(oldest) = &oldest {
            oldest.abort();
        }
        tasks.push_back(tokio::spawn(task).abort_handle());
        oldest.is_some()
    }
}

/// Keeps a line out of the log that strangers or applications could fill it with: one is logged, and those that follow soon are counted.
pub(crate) struct Seldom(Mutex<(Option<Instant>, u64)>);

/// Time between two such lines.
const PAUSE: Duration = Duration::from_secs(10);

impl Seldom {
    pub(crate) const fn new() -> Seldom {
        Seldom(Mutex::new((None, 0)))
    }

    /// If the line is to be logged, how many were left out since the one before.
    pub(crate) fn turn(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| last.elapsed() < PAUSE) {
            *left_out += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(left_out))
    }
}
