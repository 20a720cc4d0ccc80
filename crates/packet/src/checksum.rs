//! The Internet checksum (RFC 1071), over any bytes and over the pseudo-headers of IPv4 (RFC 9293
//! section 3.1) and IPv6 (RFC 8200 section 8.1).

use std::net::IpAddr;

/// A ones' complement sum that is not folded yet. Parts of an even length may be added in any order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of a pseudo-header. `len` counts the bytes of the transport header and its payload.
    pub fn of_pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Sum {
        let addresses = |sum: Sum, address| match address {
            IpAddr::V4(address) => sum.plus(&address.octets()),
            IpAddr::V6(address) => sum.plus(&address.octets()),
        };
        let sum = addresses(addresses(Sum::default(), source), destination);
        Sum(sum.0 + u64::from(protocol) + len as u64)
    }

    /// Adds bytes. After a part of an odd length nothing may follow.
    #[must_use]
    pub fn plus(self, bytes: &[u8]) -> Sum {
        let mut sum = self.0;
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            // A sum of 32-bit words folds to the same 16 bits (RFC 1071 section 2, part C).
            sum += u64::from(u32::from_be_bytes(*word));
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Sum(sum + u64::from(u32::from_be_bytes(last)))
    }

    /// The sum in 16 bits, not complemented: what the checksum field of a packet holds whose
    /// checksum the network card completes.
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum: the complement of the sum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 1071 section 3.
        let sum = Sum::default().plus(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn an_ipv4_header() {
        // A header with checksum 0xb861, a common example.
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8,
            0, 0xc7,
        ];
        assert_eq!(Sum::default().plus(&header).checksum(), 0);
    }

    proptest! {
        #[test]
        fn as_defined(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0usize..50) {
            let naive = bytes.chunks(2).fold(0u32, |sum, pair| {
                let word = u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                let sum = sum + word;
                (sum & 0xffff) + (sum >> 16)
            });
            let (first, rest) = bytes.split_at((at * 2).min(bytes.len()));
            prop_assert_eq!(u32::from(Sum::default().plus(first).plus(rest).folded()), naive);
        }
    }
}
