//! Packets of an interface, as they come.

#[cfg(target_os = "linux")]
#[path = "live/linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "live/other.rs"]
mod system;

pub(super) use system::capture;

/// What became of a capture that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    /// Packets that were taken.
    pub(super) packets: u64,
    /// Packets that came faster than they were taken, which were dropped, as far as the kernel told.
    pub(super) lost: u64,
    /// The interface went down or away, which ended the capture.
    pub(super) went_down: bool,
}
