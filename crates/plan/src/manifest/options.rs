//! How a solution becomes a plan.

use crate::error::Unfit;

/// How a solution becomes a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The plan's version: its number in the sequence of a network's plans.
    pub version: u64,
    /// Bucket size over d x v, at least 1 (default): room for traffic above the planned volume, as
    /// far as the device's and the ingress's memory reach.
    pub headroom: f64,
    /// Smallest share of a path's packets that a range may have (default 2^-20). Less is not worth
    /// an entry and is left uncovered.
    pub smallest: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { version: 1, headroom: 1.0, smallest: 1.0 / (1 << 20) as f64 }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), Unfit> {
        let (headroom, smallest) = (self.headroom, self.smallest);
        if !(headroom >= 1.0 && headroom.is_finite()) {
            return Err(Unfit::Option { what: "headroom", value: headroom, range: "1 or more" });
        }
        if !(0.0..=1.0).contains(&smallest) {
            let range = "from 0 to 1";
            return Err(Unfit::Option { what: "smallest share", value: smallest, range });
        }
        Ok(())
    }
}
