//! ZLIB by the size of the blocks that it compresses, beside caches at the hosts (EndRE section 9.3,
//! Figure 11 and the bytes of Table 6).

use crate::algorithm::Deflate;
use crate::batch::Packet;
use std::collections::{HashMap, VecDeque};

/// Bytes of a block; 0 is a packet. The paper's Table 6 has packets and 32 KB.
pub(super) const SIZES: [usize; 6] = [0, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10];

/// Content of a flow that is divided into blocks, in bytes.
const WHOLE: usize = 64 << 10;

/// Most flows whose content waits. Beyond it, the one that waits longest is measured as it is.
const MAX_FLOWS: usize = 128;

/// After that many bytes, half as many are measured.
const BUDGET: u64 = 4 << 20;

/// Content of a flow, with the lengths of its packets.
#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    packets: Vec<u32>,
}

/// Compresses the payload of flows in blocks.
pub(super) struct Blocks {
    open: HashMap<u64, Content>,
    /// The open flows, the one that waits longest first.
    order: VecDeque<u64>,
    zlib: Deflate,
    /// One flow's content in 2^level is measured.
    level: u32,
    ready: u64,
    measured: u64,
    found: ByBlock,
}

/// What ZLIB saves by the size of the blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByBlock {
    /// Payload in bytes, as far as it was measured.
    pub payload: u64,
    /// Of it, the bytes that ZLIB saves with each size of a block.
    pub saved: [u64; SIZES.len()],
}

impl Blocks {
    pub(super) fn new() -> Blocks {
        Blocks {
            open: HashMap::new(),
            order: VecDeque::new(),
            zlib: Deflate::new(6, true),
            level: 0,
            ready: 0,
            measured: 0,
            found: ByBlock::default(),
        }
    }

    /// Takes the next packet with payload.
    pub(super) fn packet(&mut self, packet: &Packet, payload: &[u8]) {
        let content = self.open.entry(packet.flow_hash).or_insert_with(|| {
            self.order.push_back(packet.flow_hash);
            Content::default()
        });
        content.bytes.extend_from_slice(payload);
        content.packets.push(payload.len() as u32);
        if content.bytes.len() >= WHOLE {
            let content = std::mem::take(content);
            self.measure(&content);
        }
        if self.open.len() > MAX_FLOWS
            && let Some(content) = self.order.pop_front().and_then(|flow| self.open.remove(&flow))
        {
            self.measure(&content);
        }
    }

    fn measure(&mut self, content: &Content) {
        let len = content.bytes.len() as u64;
        self.ready += 1;
        if len == 0 || self.ready & ((1 << self.level) - 1) != 0 {
            return;
        }
        for (saved, size) in self.found.saved.iter_mut().zip(SIZES) {
            let left: u64 = match size {
                0 => {
                    let mut at = 0;
                    let packets = content.packets.iter().map(|&len| {
                        at += len as usize;
                        self.zlib.len(&content.bytes[at - len as usize..at])
                    });
                    packets.sum()
                }
                _ => content.bytes.chunks(size).map(|block| self.zlib.len(block)).sum(),
            };
            *saved += (len - left) << self.level;
        }
        self.found.payload += len << self.level;
        self.measured += len;
        if self.measured >= BUDGET {
            self.measured = 0;
            self.level += 1;
        }
    }

    /// Memory in bytes, at most.
    pub(super) fn memory(&self) -> u64 {
        let open = self.open.values();
        open.map(|of| (of.bytes.capacity() + 4 * of.packets.capacity()) as u64).sum::<u64>()
            + self.zlib.memory()
    }

    pub(super) fn compute(mut self) -> ByBlock {
        for flow in std::mem::take(&mut self.order) {
            if let Some(content) = self.open.remove(&flow) {
                self.measure(&content);
            }
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise};

    #[test]
    fn larger_blocks_save_more_of_what_repeats_within_them() {
        let mut blocks = Blocks::new();
        // Each packet repeats the one before: a packet alone does not shrink.
        for nth in 0..100u64 {
            let payload = noise(nth / 50, 1000);
            for client in ["10.0.1.1:5000", "10.0.1.2:5000"] {
                let made = Made::tcp("10.0.0.1:80", client).payload(&payload);
                blocks.packet(&made.packet, &payload);
            }
        }
        let found = blocks.compute();
        assert_eq!((found.payload, found.saved[0]), (200_000, 0));
        assert!(found.saved.is_sorted(), "{found:?}");
        assert!(found.saved[5] > 150_000 && found.saved[1] < 20_000, "{found:?}");
    }

    #[test]
    fn many_flows_and_much_content_are_measured_in_part() {
        let mut blocks = Blocks::new();
        let payload = b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n".repeat(30);
        let whole = 9_000 * payload.len() as u64;
        for nth in 0..9_000u64 {
            let client = format!("10.0.1.1:{}", 1000 + nth % 300);
            let made = Made::tcp("10.0.0.1:80", &client).payload(&payload);
            blocks.packet(&made.packet, &payload);
        }
        assert!(blocks.open.len() <= MAX_FLOWS && blocks.level > 0);
        let found = blocks.compute();
        let off = found.payload as f64 / whole as f64 - 1.0;
        assert!(off.abs() < 0.1, "{} of {whole}", found.payload);
    }
}
