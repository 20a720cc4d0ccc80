//! The hash of a packet's header. From it, ingress and nodes agree on which device caches the
//! packet and on its name.

use std::net::IpAddr;

use siphasher::sip::SipHasher24;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Fields, Header};

use crate::HeaderHash;

/// When the hash covers the transport fields ([`Header::transport`]) besides addresses, ports,
/// protocol and identification. Each node decides from the header alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// Never: the thesis's hash (section 3.2). All packets without identification, or of a flow
    /// with a constant one, have the same name.
    Never,
    /// If the packet has no identification, or 0. Does not help flows with another constant.
    WithoutIdentification,
    /// Always. No node can tell a constant identification from the header of one packet, and
    /// covering more fields costs nothing.
    #[default]
    Always,
}

/// The hash function of a network: the same at all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderHasher {
    /// Secret of the network, so that outsiders cannot craft headers whose hashes collide or fall
    /// on one device.
    pub seed: u64,
    /// Fields that the hash covers.
    pub extension: Extension,
}

/// Hash of a packet's header: SipHash-2-4. XXH3 is faster, but attackers can make its hashes
/// collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub u64);

impl Identity {
    /// Place in the hash space of the manifests' ranges: the upper 32 bits.
    pub fn hash(self) -> HeaderHash {
        HeaderHash((self.0 >> 32) as u32)
    }

    /// Name of the packet among those of its path: the upper `bytes` bytes, 1..=8.
    pub fn name(self, bytes: u8) -> u64 {
        self.0 >> (64 - 8 * u32::from(bytes.clamp(1, 8)))
    }
}

impl HeaderHasher {
    /// The hash of a header.
    ///
    /// Input, in network byte order: 4 or 6; source and destination address, 4 or 16 bytes each;
    /// the ports; the protocol; 1 and the identification, or 0; and, if extended, 1, sequence
    /// number, acknowledgment number and checksum (TCP), 2, length and checksum (UDP), or 0.
    pub fn identity(&self, header: &Header) -> Identity {
        let mut bytes = Bytes { bytes: [0; 64], len: 0 };
        bytes.flow(header);
        match header.identification {
            Some(identification) => {
                bytes.put(&[1]);
                bytes.put(&identification.to_be_bytes());
            }
            None => bytes.put(&[0]),
        }
        let extended = match self.extension {
            Extension::Never => false,
            Extension::WithoutIdentification => {
                header.identification.is_none_or(|identification| identification == 0)
            }
            Extension::Always => true,
        };
        if extended {
            match header.transport {
                Fields::Tcp { sequence, acknowledgment, checksum } => {
                    bytes.put(&[1]);
                    bytes.put(&sequence.to_be_bytes());
                    bytes.put(&acknowledgment.to_be_bytes());
                    bytes.put(&checksum.to_be_bytes());
                }
                Fields::Udp { length, checksum } => {
                    bytes.put(&[2]);
                    bytes.put(&length.to_be_bytes());
                    bytes.put(&checksum.to_be_bytes());
                }
                Fields::None => bytes.put(&[0]),
            }
        }
        Identity(SipHasher24::new_with_keys(self.seed, 0).hash(&bytes.bytes[..bytes.len]))
    }

    /// Hash of the five-tuple and the payload: equal for a packet and its retransmission.
    pub fn copy(&self, header: &Header, payload: &[u8]) -> u64 {
        let mut bytes = Bytes { bytes: [0; 64], len: 0 };
        bytes.flow(header);
        xxh3_64_with_seed(payload, xxh3_64_with_seed(&bytes.bytes[..bytes.len], self.seed))
    }

    /// Checksum of the payload in a shim: the lower 32 bits of its XXH3-64.
    pub fn check(&self, payload: &[u8]) -> u32 {
        xxh3_64_with_seed(payload, self.seed) as u32
    }
}

struct Bytes {
    bytes: [u8; 64],
    len: usize,
}

impl Bytes {
    fn put(&mut self, more: &[u8]) {
        self.bytes[self.len..self.len + more.len()].copy_from_slice(more);
        self.len += more.len();
    }

    fn flow(&mut self, header: &Header) {
        for address in [header.source, header.destination] {
            match address {
                IpAddr::V4(address) => {
                    self.put(&[4]);
                    self.put(&address.octets());
                }
                IpAddr::V6(address) => {
                    self.put(&[6]);
                    self.put(&address.octets());
                }
            }
        }
        self.put(&header.source_port.to_be_bytes());
        self.put(&header.destination_port.to_be_bytes());
        self.put(&[header.protocol]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn header(identification: Option<u16>, sequence: u32) -> Header {
        Header {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            source_port: 1,
            destination_port: 2,
            protocol: 6,
            identification,
            transport: Fields::Tcp { sequence, acknowledgment: 0, checksum: 0 },
        }
    }

    #[test]
    fn every_field_counts() {
        let hash = HeaderHasher::default();
        let plain = header(Some(1), 1);
        let udp =
            |length, checksum| Header { transport: Fields::Udp { length, checksum }, ..plain };
        let tcp = |sequence, acknowledgment, checksum| Header {
            transport: Fields::Tcp { sequence, acknowledgment, checksum },
            ..plain
        };
        let all = [
            plain,
            Header { source: "10.0.0.3".parse().unwrap(), ..plain },
            Header { source: "::ffff:10.0.0.1".parse().unwrap(), ..plain },
            Header { destination: "10.0.0.3".parse().unwrap(), ..plain },
            Header { source_port: 3, ..plain },
            Header { destination_port: 3, ..plain },
            Header { protocol: 17, ..plain },
            Header { identification: Some(2), ..plain },
            Header { identification: None, ..plain },
            Header { transport: Fields::None, ..plain },
            tcp(2, 0, 0),
            tcp(1, 1, 0),
            tcp(1, 0, 1),
            udp(1, 0),
            udp(0, 1),
        ];
        let seen: HashSet<Identity> = all.iter().map(|header| hash.identity(header)).collect();
        assert_eq!(seen.len(), all.len());
        assert_ne!(hash.identity(&plain), HeaderHasher { seed: 1, ..hash }.identity(&plain));
    }

    /// As `docs/PLANNERS.md` has it, field by field.
    #[test]
    fn the_hash_is_the_one_of_the_document() {
        let bytes = [
            &[4, 10, 0, 0, 1][..],
            &[4, 10, 0, 0, 2],
            &[0, 1, 0, 2, 6],
            &[1, 0x12, 0x34],
            &[1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0],
        ];
        let hash = HeaderHasher { seed: 5, extension: Extension::Always };
        assert_eq!(
            hash.identity(&header(Some(0x1234), 7)).0,
            SipHasher24::new_with_keys(5, 0).hash(&bytes.concat())
        );
    }

    #[test]
    fn the_extension_is_decided_by_the_header() {
        let differ = |extension, identification| {
            let hash = HeaderHasher { seed: 5, extension };
            hash.identity(&header(identification, 1)) != hash.identity(&header(identification, 2))
        };
        for identification in [None, Some(0), Some(9)] {
            assert!(!differ(Extension::Never, identification));
            assert!(differ(Extension::Always, identification));
            assert_eq!(
                differ(Extension::WithoutIdentification, identification),
                identification != Some(9)
            );
        }
    }

    #[test]
    fn hash_and_name_are_the_upper_bits() {
        let identity = Identity(0x0123_4567_89ab_cdef);
        assert_eq!(identity.hash(), HeaderHash(0x0123_4567));
        assert_eq!(
            (identity.name(4), identity.name(5), identity.name(8)),
            (0x0123_4567, 0x01_2345_6789, identity.0)
        );
    }

    #[test]
    fn hashes_fill_the_space_evenly() {
        let hash = HeaderHasher::default();
        let mut counts = [0u32; 16];
        for sequence in 0..16_000 {
            counts[(hash.identity(&header(None, sequence)).hash().0 >> 28) as usize] += 1;
        }
        // 1,000 each; six standard deviations are 184.
        assert!(counts.iter().all(|count| (816..=1184).contains(count)), "{counts:?}");
    }
}
