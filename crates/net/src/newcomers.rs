//! Connections that have not yet said who they are or what they want.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
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
