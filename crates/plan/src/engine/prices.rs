//! Prices of operations: for which matches an ingress asks a device that is short of them.
//!
//! A device near the end of a path saves most with each match, so of several copies that one is
//! used, until it has no operations left; then the packets of its range are not even cached, while
//! devices before it are idle. So an operation has a price, as in the dual of the program, found
//! while packets pass: it rises while the ingress has used more of its operations than the time
//! that has passed of the epoch, and falls otherwise. A match is worth its bytes times links less
//! that.

use crate::DeviceId;

/// Share of an epoch's operations that may be used before their time: for bursts.
const AHEAD: f64 = 0.1;
/// By what part of a mean match's worth a price changes with each match that is looked at.
const GAIN: f64 = 1.0 / 64.0;
/// Weight of a match in that mean.
const RECENT: f64 = 1.0 / 256.0;

/// Part of an epoch's operations that may be used when this part of it has passed.
pub fn due(elapsed: f64) -> f64 {
    (elapsed + AHEAD).min(1.0)
}

/// An ingress's prices, per device.
pub(crate) struct Prices {
    devices: Vec<Price>,
}

#[derive(Clone, Copy, Default)]
struct Price {
    now: f64,
    /// Mean worth of the matches that were looked at.
    mean: f64,
}

impl Prices {
    pub(crate) fn new(devices: usize) -> Self {
        Self { devices: vec![Price::default(); devices] }
    }

    /// What a match that is worth `whole` is worth at the device's price; nothing if not more than
    /// that.
    pub(crate) fn less(&self, device: DeviceId, whole: u64) -> Option<u64> {
        let left = whole as f64 - self.devices[device.index()].now;
        (left > 0.0).then_some(left as u64)
    }

    /// Notes that such a match was looked at, and whether more operations than were due by then had
    /// been used.
    pub(crate) fn note(&mut self, device: DeviceId, whole: u64, ahead: bool) {
        let price = &mut self.devices[device.index()];
        let whole = whole as f64;
        price.mean =
            if price.mean == 0.0 { whole } else { price.mean + RECENT * (whole - price.mean) };
        let step = GAIN * price.mean;
        price.now = if ahead { price.now + step } else { (price.now - step).max(0.0) };
    }
}
