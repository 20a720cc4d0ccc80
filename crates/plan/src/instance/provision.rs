//! Sizes and speeds of devices, and where they are.

use std::collections::BTreeSet;

use crate::{Error, LinkId, error::DeviceError};

/// Sizes and speeds of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Provision {
    /// Packet store of an ingress in bytes. With `ingress_rate` it gives the retention epoch.
    pub ingress_memory: f64,
    /// Rate in bit/s at which an ingress's store fills.
    pub ingress_rate: f64,
    /// Cache of a device at the edge (on a link to an access router) in bytes.
    pub edge_memory: f64,
    /// Cache of any other device in bytes.
    pub interior_memory: f64,
    /// Packets per second that an encoder can fingerprint.
    pub encodings: f64,
    /// Operations per second of a decoder: packets cached and matches decoded.
    pub operations: f64,
    /// Mean size of a packet in bytes.
    pub packet: f64,
    /// Size of the largest packet in bytes; no match is longer.
    pub mss: f64,
    /// Whether links to and from access routers count in the footprint. They lie within a PoP.
    pub access_links: bool,
}

impl Default for Provision {
    /// The devices of the thesis, section 3.5. It gives no mean packet size; ours is explained in
    /// `docs/PLANNERS.md`.
    fn default() -> Self {
        Self {
            ingress_memory: 3e9,
            ingress_rate: 2.4e9,
            edge_memory: 3e9,
            interior_memory: 6e9,
            encodings: 0.5e6,
            operations: 2.5e6,
            packet: 1000.0,
            mss: 1500.0,
            access_links: false,
        }
    }
}

impl Provision {
    /// T, the retention epoch in seconds: the time an ingress's store lasts.
    pub fn epoch(&self) -> f64 {
        self.ingress_memory * 8.0 / self.ingress_rate
    }

    /// Checks that every value is in range.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for the first value that is not.
    pub fn check(&self) -> Result<(), Error> {
        let fields = [
            ("ingress memory", self.ingress_memory, false),
            ("ingress rate", self.ingress_rate, false),
            ("edge memory", self.edge_memory, true),
            ("interior memory", self.interior_memory, true),
            ("encodings per second", self.encodings, true),
            ("operations per second", self.operations, true),
            ("mean packet size", self.packet, false),
            ("largest packet", self.mss, false),
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
