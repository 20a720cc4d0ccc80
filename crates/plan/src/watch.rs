//! Progress and cancellation of long computations.

use crate::Error;

/// Observes a computation and can cancel it. Called from time to time, from any thread.
pub trait Watch: Sync {
    /// `done` of `total` units of `what` are done; a `total` of 0 means unknown.
    fn progress(&self, what: &str, done: u64, total: u64);

    /// Whether to cancel. The computation then ends soon with [`Error::Stopped`].
    fn stopped(&self) -> bool;

    /// A stage begins, and the one before it has ended. The planner has no clock; an observer that
    /// has one can time stages.
    fn stage(&self, _stage: Stage) {}

    /// Returns [`Error::Stopped`] if the computation is cancelled.
    fn proceed(&self) -> Result<(), Error> {
        if self.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// A stage of [`crate::run`] or [`crate::emulate::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Reading and transforming the topology.
    Topology,
    /// Finding paths and building the instance.
    Paths,
    /// Choosing links for partial deployment.
    Placement,
    /// Building and solving the program.
    Solve,
    /// Checking the solution with code that shares nothing with the solver.
    Check,
    /// Computing the schemes it is compared with.
    Compare,
    /// Letting links and nodes fail.
    Failures,
    /// A plan for each ingress, and the schemes beside it.
    EachIngress,
    /// Writing manifests.
    Manifests,
    /// Finding the length and the volume of captures.
    Captures,
    /// Measuring volumes and redundancy.
    Measure,
    /// Carrying packets with a plan that may be taken.
    Choose,
    /// Carrying packets with one scheme.
    Emulate,
    /// Summing up.
    Summary,
}

/// Observes nothing and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _what: &str, _done: u64, _total: u64) {}

    fn stopped(&self) -> bool {
        false
    }
}
