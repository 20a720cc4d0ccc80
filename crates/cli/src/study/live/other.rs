//! Systems without live capture.

use super::Captured;
use crate::failure::{Failure, Outcome};
use oncewire_packet::Record;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) fn capture(
    name: &str,
    _: Option<Duration>,
    _: &AtomicBool,
    _: impl FnMut(&Record<'_>) -> Outcome,
) -> Outcome<Captured> {
    Err(Failure::failed(format!(
        "cannot capture from {name}: only Linux is supported; pipe `tcpdump -i {name} -s 0 -w -` into `oncewire study -`"
    )))
}
