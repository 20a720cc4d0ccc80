//! The body of a record of a packet on its path: `docs/NETWORK.md`, section 2.

use super::setup::PlanId;
use oncewire_codec::varint;
use oncewire_packet::fields::{Headers, TCP, UDP};
use oncewire_plan::engine::{Fields, Format, Header, Identity, MAX_PAYLOAD, Shim, ShimError};

/// Bit of a path record: a shim follows the number of the path.
pub(crate) const HAS_SHIM: u8 = 0b01;
/// Most bytes that a record of a packet that is not encoded has beside the packet: head, number of the
/// path, shim, length of the headers.
pub(crate) const OVERHEAD: usize = 1 + 5 + 1 + 2;

/// A record that no node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// The number of the path, or the length of the headers.
    #[error("a number that is truncated or out of range")]
    Number,
    /// The headers are not those of an IP packet, or not as long as the record says.
    #[error("headers that are not those of an IP packet")]
    Headers,
    /// The shim.
    #[error(transparent)]
    Shim(#[from] ShimError),
}

/// Bits of a back record that is a rejection.
pub(crate) const REJECTION: u8 = 0;

/// The same of a node that has restarted.
pub(crate) const RESTARTED: u8 = 1;

/// The same of a node that has more to do than it can.
pub(crate) const OVERLOADED: u8 = 3;

/// Bits of a path record that is no packet: a notice of a plan.
pub(crate) const NOTICE: u8 = 0b10;

/// Bits of a back record that answers a notice.
pub(crate) const ANSWER: u8 = 2;

/// What an ingress says of a plan on one of its paths, and what the last node there answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// May packets be cached as this plan says? The answer: all nodes on the path have it.
    Ready,
    /// Whatever comes after this refers to nothing that only the plan before has. The answer: all
    /// nodes on the path know.
    Released,
}

/// A notice, or the answer to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) what: What,
    pub(crate) plan: PlanId,
}

impl Notice {
    /// Reads what follows the number of the path.
    pub(crate) fn read(body: &[u8]) -> Result<Notice, PathError> {
        let (&what, mut rest) = body.split_first().ok_or(PathError::Number)?;
        let what = match what {
            0 => What::Ready,
            1 => What::Released,
            _ => return Err(PathError::Number),
        };
        let version = varint::take(&mut rest).map_err(|_| PathError::Number)?;
        let digest = <[u8; 8]>::try_from(rest).map_err(|_| PathError::Number)?;
        Ok(Notice { what, plan: PlanId { version, digest: u64::from_le_bytes(digest) } })
    }

    /// The record's body.
    pub(crate) fn write(&self, path: u32) -> Vec<u8> {
        let mut body = Vec::with_capacity(24);
        varint::put(&mut body, path.into());
        body.push(self.what as u8);
        varint::put(&mut body, self.plan.version);
        body.extend_from_slice(&self.plan.digest.to_le_bytes());
        body
    }
}

/// Reads what follows the number of the path: which node of the topology has restarted.
pub(crate) fn read_restarted(mut body: &[u8]) -> Result<usize, PathError> {
    let node = varint::take(&mut body).map_err(|_| PathError::Number)?;
    let node = usize::try_from(node).map_err(|_| PathError::Number)?;
    if body.is_empty() { Ok(node) } else { Err(PathError::Number) }
}

/// The body of such a record.
pub(crate) fn write_restarted(path: u32, node: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(10);
    varint::put(&mut body, path.into());
    varint::put(&mut body, node as u64);
    body
}

/// Reads what follows the number of the path: which node of the topology is overloaded, and which share
/// of its operations it can do, 0 to 1.
pub(crate) fn read_overloaded(mut body: &[u8]) -> Result<(usize, f64), PathError> {
    let node = varint::take(&mut body).map_err(|_| PathError::Number)?;
    let node = usize::try_from(node).map_err(|_| PathError::Number)?;
    let &[share] = body else { return Err(PathError::Number) };
    Ok((node, f64::from(share) / 256.0))
}

/// The body of such a record.
pub(crate) fn write_overloaded(path: u32, node: usize, share: f64) -> Vec<u8> {
    let mut body = Vec::with_capacity(11);
    varint::put(&mut body, path.into());
    varint::put(&mut body, node as u64);
    body.push((share * 256.0).clamp(0.0, 255.0) as u8);
    body
}

/// Why a node could not deliver a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The last node of its path does not have what it refers to.
    Undecodable,
    /// Its bytes do not have the checksum of its shim.
    Damaged,
}

/// A packet that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) identity: Identity,
    pub(crate) reason: Reason,
}

impl Rejected {
    /// Reads what follows the number of the path.
    pub(crate) fn read(body: &[u8]) -> Result<Rejected, PathError> {
        let Some((identity, &[reason])) = body.split_first_chunk::<8>() else {
            return Err(PathError::Number);
        };
        let reason = match reason {
            0 => Reason::Undecodable,
            1 => Reason::Damaged,
            _ => return Err(PathError::Number),
        };
        Ok(Rejected { identity: Identity(u64::from_le_bytes(*identity)), reason })
    }

    /// The record's body.
    pub(crate) fn write(&self, path: u32) -> Vec<u8> {
        let mut body = Vec::with_capacity(14);
        varint::put(&mut body, path.into());
        body.extend_from_slice(&self.identity.0.to_le_bytes());
        body.push(self.reason as u8);
        body
    }
}

/// A packet on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathPacket<'a> {
    /// The shim as it came; empty if there is none.
    pub(crate) shim: &'a [u8],
    /// IP and transport headers.
    pub(crate) header: &'a [u8],
    /// What is left of the payload.
    pub(crate) literals: &'a [u8],
    /// Bytes of the payload for which the shim has matches.
    pub(crate) encoded: u32,
}

/// Reads the number of the path, which a node needs to know who is next.
pub(crate) fn take_path(body: &mut &[u8]) -> Result<u32, PathError> {
    let path = varint::take(body).map_err(|_| PathError::Number)?;
    u32::try_from(path).map_err(|_| PathError::Number)
}

impl<'a> PathPacket<'a> {
    /// Reads what follows the number of the path.
    pub(crate) fn read(
        format: &Format,
        path: u32,
        bits: u8,
        mut body: &'a [u8],
    ) -> Result<PathPacket<'a>, PathError> {
        let mut after = body;
        let mut encoded = 0;
        if bits & HAS_SHIM != 0 {
            let shim = Shim::take_head(format, path, &mut after)?;
            encoded = shim.matches.iter().map(|spec| spec.length).sum();
        }
        let shim = &body[..body.len() - after.len()];
        body = after;
        let len = varint::take(&mut body).map_err(|_| PathError::Number)?;
        let len = usize::try_from(len).map_err(|_| PathError::Number)?;
        let (header, literals) = body.split_at_checked(len).ok_or(PathError::Number)?;
        if len + literals.len() > MAX_PAYLOAD {
            return Err(PathError::Number);
        }
        Ok(PathPacket { shim, header, literals, encoded })
    }

    /// Appends the record's body, and returns its bits.
    pub(crate) fn write(&self, path: u32, out: &mut Vec<u8>) -> u8 {
        varint::put(out, path.into());
        out.extend_from_slice(self.shim);
        varint::put(out, self.header.len() as u64);
        out.extend_from_slice(self.header);
        out.extend_from_slice(self.literals);
        if self.shim.is_empty() { 0 } else { HAS_SHIM }
    }
}

/// The fields of a packet's headers that no router changes. `header` is all of them.
pub(crate) fn fields_of(header: &[u8]) -> Result<Header, PathError> {
    let headers = Headers::parse(header).map_err(|_| PathError::Headers)?;
    if headers.total() != header.len() {
        return Err(PathError::Headers);
    }
    Ok(invariant(header, &headers))
}

/// The same of a packet whose headers are known.
pub(crate) fn invariant(packet: &[u8], headers: &Headers) -> Header {
    let two = |at: usize| packet[at..].first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
    let four = |at: usize| packet[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let at = headers.network;
    Header {
        source: headers.source,
        destination: headers.destination,
        source_port: headers.transport.map_or(0, |ports| ports.source),
        destination_port: headers.transport.map_or(0, |ports| ports.destination),
        protocol: headers.protocol,
        identification: (!headers.is_v6()).then(|| two(4)),
        transport: match (headers.transport, headers.protocol) {
            (Some(_), TCP) => Fields::Tcp {
                sequence: four(at + 4),
                acknowledgment: four(at + 8),
                checksum: two(at + 16),
            },
            (Some(_), UDP) => Fields::Udp { length: two(at + 4), checksum: two(at + 6) },
            _ => Fields::None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_plan::engine::Spec;
    use proptest::prelude::*;

    fn format() -> Format {
        Format { path_ids: false, ..Format::default() }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(path: u32, cache: Option<bool>, header in proptest::collection::vec(any::<u8>(), 0..200), literals in proptest::collection::vec(any::<u8>(), 0..99)) {
            let spec = Spec { path: 3, name: 77, at: 0, offset: 5, length: 40 };
            for matches in [vec![], vec![spec]] {
                let mut shim = Vec::new();
                let check = if matches.is_empty() { 0 } else { 9 };
                let matches_len = matches.iter().map(|spec: &Spec| spec.length).sum();
                Shim { path, cache, check, matches }.write(&format(), &mut shim);
                let encoded = matches_len;
                let packet = PathPacket { shim: &shim, header: &header, literals: &literals, encoded };
                let mut body = Vec::new();
                let bits = packet.write(path, &mut body);
                prop_assert!(body.len() < OVERHEAD + shim.len().max(1) + header.len() + literals.len());
                let mut rest = &body[..];
                prop_assert_eq!(take_path(&mut rest), Ok(path));
                prop_assert_eq!(PathPacket::read(&format(), path, bits, rest), Ok(packet));
            }
        }

        #[test]
        fn any_bytes_are_a_packet_or_an_error(bits in 0u8..4, body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = &body[..];
            if let Ok(path) = take_path(&mut rest)
                && let Ok(packet) = PathPacket::read(&format(), path, bits, rest)
            {
                let mut again = Vec::new();
                packet.write(path, &mut again);
                prop_assert_eq!(&again, &body, "one form of each record");
                let _ = fields_of(packet.header);
            }
        }
    }

    #[test]
    fn rejections_round_trip() {
        let rejected =
            Rejected { identity: Identity(0x0807_0605_0403_0201), reason: Reason::Damaged };
        let body = rejected.write(300);
        assert_eq!(body, [0xac, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1], "as docs/NETWORK.md has it");
        let mut rest = &body[..];
        assert_eq!((take_path(&mut rest), Rejected::read(rest)), (Ok(300), Ok(rejected)));
        for wrong in [&body[2..10], &[&body[2..], &[0]].concat(), &[0, 0, 0, 0, 0, 0, 0, 0, 2]] {
            assert_eq!(Rejected::read(wrong), Err(PathError::Number), "{wrong:?}");
        }
    }

    #[test]
    fn overloads_round_trip() {
        let body = write_overloaded(300, 2, 0.625);
        assert_eq!(body, [0xac, 2, 2, 0xa0], "as docs/NETWORK.md has it");
        assert_eq!(read_overloaded(&body[2..]), Ok((2, 0.625)));
        for wrong in [&body[2..3], &[2, 1, 0], &[]] {
            assert_eq!(read_overloaded(wrong), Err(PathError::Number), "{wrong:?}");
        }
    }

    #[test]
    fn notices_round_trip() {
        let plan = PlanId { version: 5, digest: 0x0807_0605_0403_0201 };
        let notice = Notice { what: What::Released, plan };
        let body = notice.write(300);
        assert_eq!(body, [0xac, 2, 1, 5, 1, 2, 3, 4, 5, 6, 7, 8], "as docs/NETWORK.md has it");
        assert_eq!(Notice::read(&body[2..]), Ok(notice));
        for wrong in [&body[2..11], &[&body[2..], &[0]].concat(), &[2], &[]] {
            assert_eq!(Notice::read(wrong), Err(PathError::Number), "{wrong:?}");
        }
    }

    /// The packet of `docs/NETWORK.md`, section 2.
    #[test]
    fn the_example_of_the_document() {
        let header: Vec<u8> = [
            &[0x45, 0, 0, 0x24, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 4, 0, 1][..],
            &[0, 9, 0, 10, 0, 16, 0xab, 0xcd],
        ]
        .concat();
        let shim = Shim { path: 300, cache: Some(true), check: 0, matches: Vec::new() };
        let mut bytes = Vec::new();
        shim.write(&format(), &mut bytes);
        let literals = b"oncewire";
        let packet = PathPacket { shim: &bytes, header: &header, literals, encoded: 0 };
        let mut body = Vec::new();
        assert_eq!(packet.write(300, &mut body), HAS_SHIM);
        let hex: Vec<String> = body.iter().map(|byte| format!("{byte:02x}")).collect();
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/NETWORK.md");
        let document = std::fs::read_to_string(document).unwrap();
        let document: String = document.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(document.contains(&hex.join(" ")), "{}", hex.join(" "));
        let fields = fields_of(&header).unwrap();
        assert_eq!((fields.source_port, fields.identification), (9, Some(0x1234)));
        assert_eq!(fields.transport, Fields::Udp { length: 16, checksum: 0xabcd });
        assert_eq!(fields_of(&header[..27]), Err(PathError::Headers), "cut");
        assert_eq!(fields_of(&[&header[..], &[0]].concat()), Err(PathError::Headers), "longer");
    }
}
