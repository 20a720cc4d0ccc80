//! Progress of long computations, and how they are ended early.

use crate::Error;

/// Who waits for a computation. Called from time to time, from any thread.
pub trait Watch: Sync {
    /// `done` of `total` units of `stage` are done; a `total` of 0 is unknown.
    fn progress(&self, stage: &str, done: u64, total: u64);

    /// Whether to give up. What runs ends soon after with [`Error::Stopped`].
    fn stopped(&self) -> bool;

    /// An error if it is time to give up.
    fn go_on(&self) -> Result<(), Error> {
        if self.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Nobody waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _stage: &str, _done: u64, _total: u64) {}

    fn stopped(&self) -> bool {
        false
    }
}
