//! Sizes and speeds of devices, and where they are.

use std::collections::BTreeSet;

use crate::{BitRate, Bytes, Error, LinkId, PerSecond, Seconds, error::DeviceError};

/// Sizes and speeds of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Provision {
    /// Packet store of an ingress. With `ingress_rate` it gives the retention epoch.
    pub ingress_memory: Bytes,
    /// Rate at which an ingress's store fills.
    pub ingress_rate: BitRate,
    /// Cache of a device at the edge (on a link to an access router).
    pub edge_memory: Bytes,
    /// Cache of any other device.
    pub interior_memory: Bytes,
    /// Packets that an encoder can fingerprint.
    pub encodings: PerSecond,
    /// Operations of a decoder: packets cached and matches decoded.
    pub operations: PerSecond,
    /// Mean size of a packet.
    pub packet: Bytes,
    /// Size of the largest packet; no match is longer.
    pub mss: Bytes,
    /// Whether links to and from access routers count in the footprint. They lie within a PoP.
    pub access_links: bool,
}

impl Default for Provision {
    /// The devices of the thesis, section 3.5. It gives no mean packet size; ours is explained in
    /// `docs/PLANNERS.md`.
    fn default() -> Self {
        Self {
            ingress_memory: Bytes(3e9),
            ingress_rate: BitRate(2.4e9),
            edge_memory: Bytes(3e9),
            interior_memory: Bytes(6e9),
            encodings: PerSecond(0.5e6),
            operations: PerSecond(2.5e6),
            packet: Bytes(1000.0),
            mss: Bytes(1500.0),
            access_links: false,
        }
    }
}

impl Provision {
    /// T, the retention epoch: the time an ingress's store lasts.
    pub fn epoch(&self) -> Seconds {
        self.ingress_memory.at(self.ingress_rate)
    }

    /// Checks that every value is in range.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for the first value that is not.
    pub fn check(&self) -> Result<(), Error> {
        let fields = [
            ("ingress memory", self.ingress_memory.0, false),
            ("ingress rate", self.ingress_rate.0, false),
            ("edge memory", self.edge_memory.0, true),
            ("interior memory", self.interior_memory.0, true),
            ("encodings per second", self.encodings.0, true),
            ("operations per second", self.operations.0, true),
            ("mean packet size", self.packet.0, false),
            ("largest packet", self.mss.0, false),
        ];
        for (name, value, zero) in fields {
            if value.is_nan() || value < 0.0 || (!zero && (value == 0.0 || value.is_infinite())) {
                let range = if zero { "0 or more" } else { "above 0" };
                return Err(DeviceError::Range { what: name.into(), value, range }.into());
            }
        }
        Ok(())
    }
}

/// Which links or routers have decoders.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Placement {
    /// One at the head of each link (thesis, section 3.5: a middlebox at each end of a cable, one
    /// per direction).
    #[default]
    Links,
    /// One at the head of each of these links: partial deployment.
    Some(BTreeSet<LinkId>),
    /// One per router, for all that enters it.
    Routers,
}
