//! Plans and manifests as JSON. `docs/PLANNERS.md`, "Manifests", is the description of the
//! documents.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    DeviceManifest, Entry, FORMAT, HASH, IngressManifest, IngressPath, IngressRange, MAX_DOCUMENT,
    Parameters, Plan, PlannedDevice, PlannedIngress, PlannedPath, Range,
};
use crate::error::{Document, ManifestError};

use crate::{DeviceId, PathId, Seconds};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanDocument {
    format: u32,
    version: u64,
    network: String,
    hash: String,
    parameters: ParametersDocument,
    devices: Vec<Place>,
    ingresses: Vec<IngressPlace>,
    paths: Vec<PathDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParametersDocument {
    epoch: Seconds,
    headroom: f64,
    smallest: f64,
    method: String,
    derivation: Vec<String>,
}

/// A device.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    name: String,
    memory: Option<u64>,
}

/// An ingress. A slice of 0 is left out, so that plans of one tree per node have no member for it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IngressPlace {
    name: String,
    #[serde(default, skip_serializing_if = "is_first")]
    slice: u16,
    memory: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(slice: &u16) -> bool {
    *slice == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathDocument {
    path: PathId,
    ingress: u32,
    egress: String,
    hops: Vec<DeviceId>,
    /// Hop, end, bytes.
    ranges: Vec<(u32, u64, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceDocument {
    format: u32,
    version: u64,
    network: String,
    hash: String,
    device: DeviceId,
    name: String,
    memory: Option<u64>,
    /// Path, first hash, end, bytes.
    ranges: Vec<(PathId, u64, u64, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IngressDocument {
    format: u32,
    version: u64,
    network: String,
    hash: String,
    ingress: u32,
    name: String,
    #[serde(default, skip_serializing_if = "is_first")]
    slice: u16,
    memory: Option<u64>,
    /// Parent, device.
    tree: Vec<(u32, DeviceId)>,
    paths: Vec<IngressPathDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IngressPathDocument {
    path: PathId,
    egress: String,
    leaf: u32,
    /// Place in the tree, end, bytes.
    ranges: Vec<(u32, u64, u64)>,
}

/// The start of every document; read first, so that another format is reported as such.
#[derive(Deserialize)]
struct Head {
    format: u32,
    hash: String,
}

fn read<T: DeserializeOwned>(document: Document, text: &str) -> Result<T, ManifestError> {
    if text.len() > MAX_DOCUMENT {
        return Err(ManifestError::TooLong { document, bytes: text.len() });
    }
    // The parser's messages quote the document, which may contain anything.
    let line = |text: &str| {
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect::<String>()
    };
    let bad = |error: serde_json::Error| ManifestError::Unreadable {
        document,
        reason: line(&error.to_string()),
    };
    let head: Head = serde_json::from_str(text).map_err(bad)?;
    if head.format != FORMAT {
        return Err(ManifestError::Format { document, format: head.format });
    }
    if head.hash != HASH {
        return Err(ManifestError::Hash { document, hash: line(&head.hash) });
    }
    serde_json::from_str(text).map_err(bad)
}

fn write(document: &impl Serialize) -> String {
    // Strings, integers, finite floats, lists and structures: JSON can represent all of it.
    serde_json::to_string(document).unwrap_or_default()
}

/// Ranges that each begin where the one before ends.
fn chain(ranges: Vec<(u32, u64, u64)>) -> impl Iterator<Item = (u32, u64, u64, u64)> {
    ranges.into_iter().scan(0, |from, (at, to, bytes)| {
        let begin = std::mem::replace(from, to);
        Some((at, begin, to, bytes))
    })
}

impl Plan {
    /// The plan as one line of JSON.
    pub fn to_json(&self) -> String {
        let parameters = self.parameters();
        write(&PlanDocument {
            format: FORMAT,
            version: self.version(),
            network: self.network().into(),
            hash: HASH.into(),
            parameters: ParametersDocument {
                epoch: parameters.epoch,
                headroom: parameters.headroom,
                smallest: parameters.smallest,
                method: parameters.method.clone(),
                derivation: parameters.derivation.clone(),
            },
            devices: self
                .devices()
                .iter()
                .map(|one| Place { name: one.name.clone(), memory: one.memory })
                .collect(),
            ingresses: self
                .ingresses()
                .iter()
                .map(|one| IngressPlace {
                    name: one.name.clone(),
                    slice: one.slice,
                    memory: one.memory,
                })
                .collect(),
            paths: self
                .paths()
                .iter()
                .map(|path| PathDocument {
                    path: path.id,
                    ingress: path.ingress,
                    egress: path.egress.clone(),
                    hops: path.hops.to_vec(),
                    ranges: path
                        .ranges
                        .iter()
                        .map(|range| (range.hop, range.to, range.bytes))
                        .collect(),
                })
                .collect(),
        })
    }

    /// A plan from JSON.
    ///
    /// # Errors
    /// A document that [`Plan::to_json`] would not write.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        let document: PlanDocument = read(Document::Plan, text)?;
        let ParametersDocument { epoch, headroom, smallest, method, derivation } =
            document.parameters;
        Plan::checked(
            document.version,
            document.network,
            Parameters { epoch, headroom, smallest, method, derivation },
            document
                .devices
                .into_iter()
                .map(|one| PlannedDevice { name: one.name, memory: one.memory })
                .collect(),
            document
                .ingresses
                .into_iter()
                .map(|one| PlannedIngress { name: one.name, slice: one.slice, memory: one.memory })
                .collect(),
            document
                .paths
                .into_iter()
                .map(|path| PlannedPath {
                    id: path.path,
                    ingress: path.ingress,
                    egress: path.egress,
                    hops: path.hops.into(),
                    ranges: chain(path.ranges)
                        .map(|(hop, from, to, bytes)| Range { hop, from, to, bytes })
                        .collect(),
                })
                .collect(),
        )
    }
}

impl DeviceManifest {
    /// The manifest as one line of JSON.
    pub fn to_json(&self) -> String {
        write(&DeviceDocument {
            format: FORMAT,
            version: self.version,
            network: self.network.clone(),
            hash: HASH.into(),
            device: self.device,
            name: self.name.clone(),
            memory: self.memory,
            ranges: self
                .entries
                .iter()
                .map(|entry| (entry.path, entry.from, entry.to, entry.bytes))
                .collect(),
        })
    }

    /// A manifest from JSON.
    ///
    /// # Errors
    /// A document that [`DeviceManifest::to_json`] would not write.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        let document: DeviceDocument = read(Document::Device, text)?;
        let entries = document
            .ranges
            .into_iter()
            .map(|(path, from, to, bytes)| Entry { path, from, to, bytes })
            .collect();
        let DeviceDocument { version, network, device, name, memory, .. } = document;
        Self::checked(version, network, device, name, memory, entries)
    }
}

impl IngressManifest {
    /// The manifest as one line of JSON.
    pub fn to_json(&self) -> String {
        write(&IngressDocument {
            format: FORMAT,
            version: self.version,
            network: self.network.clone(),
            hash: HASH.into(),
            ingress: self.ingress,
            name: self.name.clone(),
            slice: self.slice,
            memory: self.memory,
            tree: self.tree.iter().map(|node| (node.parent, node.device)).collect(),
            paths: self
                .paths
                .iter()
                .map(|path| IngressPathDocument {
                    path: path.id,
                    egress: path.egress.clone(),
                    leaf: path.leaf,
                    ranges: path
                        .ranges
                        .iter()
                        .map(|range| (range.node, range.to, range.bytes))
                        .collect(),
                })
                .collect(),
        })
    }

    /// A manifest from JSON.
    ///
    /// # Errors
    /// A document that [`IngressManifest::to_json`] would not write.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        let document: IngressDocument = read(Document::Ingress, text)?;
        let paths = document
            .paths
            .into_iter()
            .map(|path| IngressPath {
                id: path.path,
                egress: path.egress,
                leaf: path.leaf,
                ranges: chain(path.ranges)
                    .map(|(node, from, to, bytes)| IngressRange { node, from, to, bytes })
                    .collect(),
            })
            .collect();
        let who = (document.ingress, document.name, document.slice, document.memory);
        Self::checked(document.version, document.network, who, document.tree, paths)
    }
}
