//! Explicit congestion notification in IP headers (RFC 3168), and through a tunnel (RFC 6040).

use crate::checksum::Sum;
use crate::fields::Headers;

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not understand ECN.
    #[default]
    NotEct = 0b00,
    /// It does: ECT(1).
    Ect1 = 0b01,
    /// It does: ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// From the two bits of the field; others are ignored.
    pub fn from_bits(bits: u8) -> Ecn {
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits & 0b11)]
    }

    /// The two bits of the field.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// The field of a packet whose headers were read. [`Ecn::NotEct`] if it is too short to be one.
    pub fn of(packet: &[u8]) -> Ecn {
        match *packet {
            [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
            [_, second, ..] => Ecn::from_bits(second),
            _ => Ecn::NotEct,
        }
    }

    /// Sets the field. `has_checksum` says whether the checksum of an IPv4 header is there and must be
    /// kept right; in the headers of a run it is not ([`offload`](crate::offload)).
    pub fn set(self, packet: &mut [u8], headers: &Headers, has_checksum: bool) {
        if headers.is_v6() {
            packet[1] = packet[1] & 0xcf | self.bits() << 4;
            return;
        }
        let before = [packet[0], packet[1]];
        packet[1] = packet[1] & 0xfc | self.bits();
        if has_checksum {
            let checksum = [packet[10], packet[11]];
            let after = [packet[0], packet[1]];
            packet[10..12].copy_from_slice(&updated(checksum, &before, &after));
        }
    }

    /// The field with which a packet leaves a tunnel, of what it entered with and what the outer
    /// header had: RFC 6040, figure 4. `None`: it must be dropped.
    pub fn decapsulated(self, outer: Ecn) -> Option<Ecn> {
        match (self, outer) {
            // The sender would not understand the mark, and must notice the congestion by a loss.
            (Ecn::NotEct, Ecn::Ce) => None,
            (Ecn::NotEct, _) => Some(Ecn::NotEct),
            (_, Ecn::Ce) | (Ecn::Ce, _) => Some(Ecn::Ce),
            (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
            (inner, _) => Some(inner),
        }
    }
}

/// A checksum after some of the bytes that it covers changed (RFC 1624, equation 3). Both have the
/// same even length, and begin at an even offset.
pub(crate) fn updated(checksum: [u8; 2], before: &[u8], after: &[u8]) -> [u8; 2] {
    let removed = !Sum::default().plus(before).folded();
    let sum =
        Sum::default().plus(&checksum.map(|byte| !byte)).plus(&removed.to_be_bytes()).plus(after);
    sum.checksum().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 6040, figure 4: rows are the arriving inner header, columns the arriving outer header.
    #[test]
    fn the_table_of_rfc_6040() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let table = [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, row) in table {
            for (outer, expected) in [NotEct, Ect0, Ect1, Ce].into_iter().zip(row) {
                assert_eq!(inner.decapsulated(outer), expected, "{inner:?} in {outer:?}");
            }
        }
    }

    fn v4() -> Vec<u8> {
        let mut packet =
            vec![0x45, 0xb8, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
        let checksum = Sum::default().plus(&packet).checksum();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    #[test]
    fn the_field_of_both_versions_is_set_and_nothing_else() {
        let mut v6 = vec![0x6a, 0xb5, 1, 2, 0, 0, 59, 64];
        v6.extend([0xfd; 32]);
        for packet in [v4(), v6] {
            let headers = Headers::parse(&packet).unwrap();
            for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                let mut changed = packet.clone();
                ecn.set(&mut changed, &headers, true);
                assert_eq!(Ecn::of(&changed), ecn);
                if !headers.is_v6() {
                    assert_eq!(Sum::default().plus(&changed).checksum(), 0, "{ecn:?}");
                }
                Ecn::of(&packet).set(&mut changed, &headers, true);
                assert_eq!(changed, packet);
                // Without a checksum, that field is left alone.
                let before = [changed[10], changed[11]];
                ecn.set(&mut changed, &headers, false);
                assert_eq!([changed[10], changed[11]], before);
            }
        }
        assert_eq!(Ecn::of(&[]), Ecn::NotEct);
    }

    proptest! {
        #[test]
        fn an_updated_checksum_is_the_checksum(mut bytes in proptest::collection::vec(any::<u8>(), 20), new in proptest::collection::vec(any::<u8>(), 4), at in 0usize..8) {
            // A sum of nothing but zeros is the one case with two forms; headers never have it.
            bytes[0] |= 1;
            let checksum = Sum::default().plus(&bytes).checksum();
            let start = 2 + at * 2;
            let before = bytes[start..start + 4].to_vec();
            bytes[start..start + 4].copy_from_slice(&new);
            let expected = Sum::default().plus(&bytes).checksum();
            prop_assert_eq!(updated(checksum.to_be_bytes(), &before, &new), expected.to_be_bytes());
        }
    }
}
