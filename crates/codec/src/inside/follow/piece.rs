//! A piece of a flow, and its place in the log.

use crate::inside::follow::opened::Spot;

/// Bytes of a flow: the carry, then bytes of a block.
pub(in crate::inside) struct Piece<'a> {
    pub(in crate::inside) data: &'a [u8],
    /// Bytes of the carry.
    pub(in crate::inside) carried: usize,
    /// First byte of the rest in the block.
    pub(in crate::inside) at: usize,
    /// Place of the block in the log.
    pub(in crate::inside) offset: u64,
    /// In the log, the carry lies directly before the rest.
    pub(in crate::inside) is_adjacent: bool,
}

impl Piece<'_> {
    /// Place of a code that is described by bits `from..to` of the data.
    pub(in crate::inside) fn spot(&self, from: u64, to: u64) -> Spot {
        let carried = self.carried as u64 * 8;
        if from < carried && !self.is_adjacent {
            return Spot::Scattered;
        }
        let base = (self.offset + self.at as u64) * 8;
        match (base + from).checked_sub(carried) {
            Some(start) => Spot::Log(start, base + to - carried),
            None => Spot::Scattered,
        }
    }
}
