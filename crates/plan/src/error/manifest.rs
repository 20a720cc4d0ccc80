//! Errors of plans, of the manifests in them, and of the change from one plan to the next.

use std::fmt;

use crate::manifest::{FORMAT, HASH, MAX_DOCUMENT, MAX_HOPS, MAX_NUMBER, SPACE};

use crate::{DeviceId, PathId};

/// What is wrong with a plan or a manifest. [`ManifestError::kind`] says what to do about it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The plan that is to follow is not newer than the one in force.
    #[error("a change from version {old} to {new}; the new one must be higher")]
    Stale {
        /// Version in force.
        old: u64,
        /// Version that was to follow it.
        new: u64,
    },
    /// The document has another format version.
    #[error("{document} of format {format}; this program reads format {FORMAT}")]
    Format {
        /// Which document.
        document: Document,
        /// Its format version.
        format: u32,
    },
    /// The document is for another hash of headers.
    #[error("{document} for the header hash {hash:?}; this program computes {HASH:?}")]
    Hash {
        /// Which document.
        document: Document,
        /// Identifier of its hash, shortened, without control characters.
        hash: String,
    },
    /// The plan that is to follow is for another network.
    #[error("a change from a plan of {old:?} to one of {new:?}")]
    AnotherNetwork {
        /// Network of the plan in force.
        old: String,
        /// Network of the other plan.
        new: String,
    },
    /// The plan that is to follow has other devices.
    #[error("the two plans have different devices")]
    OtherDevices,
    /// The document is too long to be read.
    #[error("{document} of {bytes} bytes; the most is {MAX_DOCUMENT}")]
    TooLong {
        /// Which document.
        document: Document,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The text is not the document that was expected.
    #[error("not {document}: {reason}")]
    Unreadable {
        /// Which document.
        document: Document,
        /// What the JSON parser says, shortened, without control characters.
        reason: String,
    },
    /// A version above [`MAX_NUMBER`].
    #[error("version {0}; the most is {MAX_NUMBER}")]
    Version(u64),
    /// A name that does not fit into a line.
    #[error("a name {fault}: {name:?}")]
    Name {
        /// Its first characters.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// A name occurs twice.
    #[error("two {what} have the name {name:?}")]
    Twice {
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A parameter is negative, infinite or not a number.
    #[error("{name} is {value}")]
    Parameter {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A memory above [`MAX_NUMBER`].
    #[error("a memory of {bytes} bytes; the most is {MAX_NUMBER}")]
    Memory {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The buckets of a device or an ingress exceed its memory.
    #[error("the buckets of {name} take {used} bytes; it has {memory}")]
    Full {
        /// Name of the device or ingress.
        name: String,
        /// Bytes of its buckets.
        used: f64,
        /// Its memory in bytes.
        memory: f64,
    },
    /// A list is too long for its indices.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// Two paths of an ingress have the same egress.
    #[error("two paths from {ingress} to {egress}")]
    SameEnds {
        /// Name of the ingress.
        ingress: String,
        /// Node where both leave.
        egress: String,
    },
    /// Two paths have the same id.
    #[error("two paths have the id {0}")]
    SameId(PathId),
    /// A place in an ingress's tree comes before its parent.
    #[error("place {place} of the tree comes before its parent, {parent}")]
    TreeOrder {
        /// The place, from 1.
        place: usize,
        /// Its parent.
        parent: u32,
    },
    /// A device has two places in an ingress's tree.
    #[error("device {device} is in the tree twice")]
    TreeTwice {
        /// Number of the device.
        device: DeviceId,
    },
    /// An ingress's tree is too deep.
    #[error("a path with more than {MAX_HOPS} devices")]
    TreeDepth,
    /// A path, or a range of it.
    #[error("path {path} {fault}")]
    Path {
        /// Path id.
        path: PathId,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// The solution cannot become a plan.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The plan does not agree with its instance.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// What to do about a [`ManifestError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestErrorKind {
    /// The plan is out of date: keep the one in force. A late or repeated message is no fault.
    Stale,
    /// The plan is for another network, other devices or another version of the program: keep the
    /// one in force, and report where it came from.
    Foreign,
    /// The document is damaged or contradicts itself: keep the one in force, and ask for it again.
    Broken,
    /// There is no such plan: change the solution, the options or the limits that it was made with.
    Unfit,
}

impl ManifestError {
    /// What to do about it.
    pub fn kind(&self) -> ManifestErrorKind {
        match self {
            Self::Stale { .. } => ManifestErrorKind::Stale,
            Self::Format { .. }
            | Self::Hash { .. }
            | Self::AnotherNetwork { .. }
            | Self::OtherDevices
            | Self::Path { fault: PathFault::Changed, .. }
            | Self::Violation(Violation::AnotherInstance { .. }) => ManifestErrorKind::Foreign,
            Self::Unfit(_) => ManifestErrorKind::Unfit,
            _ => ManifestErrorKind::Broken,
        }
    }

    /// A path, or a range of it.
    pub(crate) fn path(path: PathId, fault: PathFault) -> Self {
        Self::Path { path, fault }
    }
}

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Document {
    /// A plan of a whole network.
    Plan,
    /// What a device needs of a plan.
    Device,
    /// What an ingress needs of a plan.
    Ingress,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "a plan",
            Self::Device => "a device's manifest",
            Self::Ingress => "an ingress's manifest",
        })
    }
}

/// Why a name does not fit into a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// It is longer than [`MAX_NAME`](crate::manifest::MAX_NAME).
    #[error("that is too long")]
    TooLong,
    /// It has control characters.
    #[error("with control characters")]
    Control,
}

/// What is wrong with a path of a plan, or with a range of it.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// It is not in the order of ids, or there are two.
    #[error("comes twice or out of order")]
    Order,
    /// It is not in the order of ingresses.
    #[error("is out of order: paths come ingress by ingress")]
    IngressOrder,
    /// Its ingress does not exist.
    #[error("enters at ingress {ingress}, but there are {ingresses}")]
    Ingress {
        /// Index of the ingress.
        ingress: u32,
        /// Ingresses of the plan.
        ingresses: usize,
    },
    /// A device on it does not exist.
    #[error("crosses device {device}, but there are {devices}")]
    Device {
        /// Index of the device.
        device: DeviceId,
        /// Devices of the plan.
        devices: usize,
    },
    /// It has more devices than IP allows routers.
    #[error("has {devices} devices; the most is {MAX_HOPS}")]
    Devices {
        /// Its devices.
        devices: usize,
    },
    /// It visits a device twice.
    #[error("comes to device {device} twice")]
    Loop {
        /// Number of the device.
        device: DeviceId,
    },
    /// The paths of its ingress do not form a tree.
    #[error("and another of its ingress come to device {device} by different ways")]
    NotATree {
        /// Number of the device.
        device: DeviceId,
    },
    /// Its last device has no place in the ingress's tree.
    #[error("ends at place {place} of the tree, which has {places}")]
    Leaf {
        /// The place, from 1.
        place: u32,
        /// Places of the tree.
        places: usize,
    },
    /// The device of a range is not on it, or not next on it.
    #[error("has a range at place {place} of the tree, out of order or not on it")]
    Place {
        /// The device's place in the tree, from 1.
        place: u32,
    },
    /// Ranges are not in the order of its devices.
    #[error("has ranges that are not in the order of its devices")]
    RangeOrder,
    /// A range does not begin where the one before ends.
    #[error("has a range from {from}; it must begin at {at}")]
    Gap {
        /// First hash of the range.
        from: u64,
        /// Where it must begin.
        at: u64,
    },
    /// A range without hashes.
    #[error("has an empty range, from {from} to {to}")]
    Empty {
        /// First hash.
        from: u64,
        /// End of the range (exclusive).
        to: u64,
    },
    /// A range beyond the space of hashes.
    #[error("has a range to {to}; the last hash is {}", SPACE - 1)]
    Beyond {
        /// End of the range (exclusive).
        to: u64,
    },
    /// A bucket without bytes, or above [`MAX_NUMBER`].
    #[error("has a bucket of {bytes} bytes; it must be from 1 to {MAX_NUMBER}")]
    Bucket {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The id means another path in the plan that is to follow.
    #[error("is not the same in both plans; a changed path needs another id")]
    Changed,
}

/// Why a solution cannot become a plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The solution is one of another instance.
    #[error("the solution has {shares} shares, the paths have {hops} hops")]
    Shares {
        /// Shares of the solution.
        shares: usize,
        /// Hops of the instance's paths.
        hops: usize,
    },
    /// An option is out of range.
    #[error("a {what} of {value}; it must be {range}")]
    Option {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// A share is out of range.
    #[error("the solution gives a device {share} of path {path}; a share is from 0 to 1")]
    Share {
        /// The share.
        share: f64,
        /// Index of the path.
        path: usize,
    },
    /// The shares of a path exceed what its ingress encodes.
    #[error("the solution covers {covered} of path {path}; it can be at most {coded}")]
    Cover {
        /// Sum of the shares.
        covered: f64,
        /// Index of the path.
        path: usize,
        /// Share of its packets that the ingress encodes.
        coded: f64,
    },
    /// A device or an ingress is to store more than it can.
    #[error("the solution has {name} cache {used:.0} bytes, but it has room for {memory:.0}")]
    Full {
        /// Name of the device or ingress.
        name: String,
        /// Bytes that it is to store.
        used: f64,
        /// Its memory in bytes.
        memory: f64,
    },
    /// A bucket above [`MAX_NUMBER`].
    #[error("a bucket of {bytes:.0} bytes at {device}")]
    Bucket {
        /// Its size in bytes.
        bytes: f64,
        /// Name of the device.
        device: String,
    },
}

/// How a plan disagrees with its instance, or its manifests with each other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The plan has other numbers of devices, ingresses or paths.
    #[error(
        "a plan of {devices} devices, {ingresses} ingresses and {paths} paths is not this network's"
    )]
    AnotherInstance {
        /// Devices of the plan.
        devices: usize,
        /// Ingresses of the plan.
        ingresses: usize,
        /// Paths of the plan.
        paths: usize,
    },
    /// An ingress has another name, or other numbers of paths.
    #[error("the plan's ingress {planned} is not the network's {name}")]
    AnotherIngress {
        /// Name in the plan.
        planned: String,
        /// Name in the network.
        name: String,
    },
    /// A device caches a path that does not exist.
    #[error("device {device} caches path {path}, which does not exist")]
    UnknownPath {
        /// Name of the device.
        device: String,
        /// Path id.
        path: PathId,
    },
    /// A path is not in the manifest of its ingress.
    #[error("{ingress} does not know the path to {egress}")]
    MissingPath {
        /// Name of the ingress.
        ingress: String,
        /// Node where the path leaves.
        egress: String,
    },
    /// A path has other devices than in the instance.
    #[error("the path from {ingress} to {egress} has other devices in the plan")]
    OtherDevices {
        /// Name of the ingress.
        ingress: String,
        /// Node where the path leaves.
        egress: String,
    },
    /// The devices' ranges of a path overlap or leave a gap.
    #[error("hashes of path {path}: a range from {from} to {to} where one from {at} belongs")]
    Gap {
        /// Path id.
        path: PathId,
        /// First hash of the range.
        from: u64,
        /// End of the range (exclusive).
        to: u64,
        /// Where it must begin.
        at: u64,
    },
    /// A device that has a range of a path is not next on it.
    #[error("hashes of path {path} are at device {device}, out of order or not on it")]
    Order {
        /// Path id.
        path: PathId,
        /// Number of the device.
        device: DeviceId,
    },
    /// A bucket is too small or too large for its share.
    #[error("a bucket of {bytes} bytes for path {path}; d x v is {share}")]
    Bucket {
        /// Its size in bytes.
        bytes: u64,
        /// Path id.
        path: PathId,
        /// Bytes per epoch of the range.
        share: f64,
    },
    /// The ranges of a path exceed what its ingress encodes.
    #[error("path {path} is covered up to {at}; the ingress encodes {coded} of it")]
    Cover {
        /// Path id.
        path: PathId,
        /// End of its last range.
        at: u64,
        /// Share of its packets that the ingress encodes.
        coded: f64,
    },
    /// The ingress's ranges or buckets are not those of the devices.
    #[error("{ingress} and the devices of path {path} have different buckets")]
    Buckets {
        /// Name of the ingress.
        ingress: String,
        /// Path id.
        path: PathId,
    },
    /// The overlap bound of two paths admits hashes that the first cannot decode, or excludes some
    /// that it can.
    #[error("bound({of}, {with}) is {bound}, but device {device} has hashes from {from} to {to}")]
    Bound {
        /// Path id of the encoded packet.
        of: PathId,
        /// Path id of the matched packet.
        with: PathId,
        /// The bound.
        bound: u64,
        /// Number of the device.
        device: DeviceId,
        /// First hash of its range.
        from: u64,
        /// End of its range (exclusive).
        to: u64,
    },
    /// The overlap bound of two paths is not the end of a range.
    #[error("bound({of}, {with}) is {bound}, which is no end of a range")]
    BoundInside {
        /// Path id of the encoded packet.
        of: PathId,
        /// Path id of the matched packet.
        with: PathId,
        /// The bound.
        bound: u64,
    },
}
