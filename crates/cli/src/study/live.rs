//! Live capture from a network interface.

#[cfg(target_os = "linux")]
#[path = "live/linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "live/other.rs"]
mod system;

pub(super) use system::capture;

/// The result of a live capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    /// Packets captured.
    pub(super) packets: u64,
    /// Packets dropped because they arrived too fast, as far as the kernel reports them.
    pub(super) lost: u64,
    /// The interface went down or disappeared, which ended the capture.
    pub(super) went_down: bool,
}
