//! Fingerprints of tokens.

use crate::deflate::Token;

/// Tokens under one fingerprint. Their distances do not count: an insertion changes those.
pub(in crate::inside) const WINDOW: usize = 8;
/// One window in this many gets a fingerprint, as its content decides.
const PERIOD_BITS: u32 = 4;

/// Fingerprints of windows of tokens, one by one.
#[derive(Default)]
pub(in crate::inside) struct Rolling {
    hash: u64,
    seen: usize,
}

impl Rolling {
    /// Adds a token. Returns a fingerprint if the window that ends with it is chosen.
    #[inline(always)]
    pub(in crate::inside) fn push(&mut self, token: Token, key: u64) -> Option<u64> {
        let mixed = (u64::from(token.shape()) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Each token leaves the hash after eight more.
        self.hash = (self.hash << 8).wrapping_add(mixed ^ mixed >> 32);
        self.seen += 1;
        (self.hash >> (64 - PERIOD_BITS) == 0 && self.seen >= WINDOW).then(|| {
            let keyed = (self.hash ^ key).wrapping_mul(0xd6e8_feb8_6659_fd93);
            keyed ^ keyed >> 32
        })
    }
}
