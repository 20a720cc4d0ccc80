//! What unit tests of the packet link share.

use std::time::Instant;

/// When simulated time begins.
#[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
pub(super) fn start() -> Instant {
    Instant::now()
}
