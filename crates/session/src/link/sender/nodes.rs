//! Records between nodes of a network.

use super::super::nodes::{NODE_BITS, NodeKind};
use super::super::record_error::varint_len;
use super::super::records;
use super::{Dropped, LEAST_ROOM, Sender};

impl Sender {
    /// Adds a record between nodes, whose body has these parts. Returns the counter of its datagram.
    ///
    /// # Errors
    /// [`Dropped::TooLarge`]; nothing was added.
    ///
    /// # Panics
    /// If `bits` has others than the two low bits.
    pub fn enqueue_node(
        &mut self,
        kind: NodeKind,
        bits: u8,
        parts: &[&[u8]],
    ) -> Result<u64, Dropped> {
        assert!(bits & !NODE_BITS == 0, "bits {bits:#04x}");
        let body: usize = parts.iter().map(|part| part.len()).sum();
        let whole = 1 + varint_len(body) + body;
        if 1 + body > self.room {
            return Err(Dropped::TooLarge);
        }
        if self.open.is_some() && (whole > self.left() || self.open_ecn != self.ecn) {
            self.close();
        }
        self.start(self.ecn);
        let counter = self.next_counter();
        let last = whole + LEAST_ROOM > self.left();
        records::write_node_head(kind, bits, (!last).then_some(body), &mut self.batch.bytes);
        parts.iter().for_each(|part| self.batch.bytes.extend_from_slice(part));
        self.pushed(last);
        self.stats.packets += 1;
        self.stats.inner_bytes += body as u64;
        Ok(counter)
    }
}
