//! Transitions from one plan to the next, while devices switch one by one (thesis, section 3.4,
//! "Consistent configurations").

use std::sync::Arc;

use super::{Plan, PlannedIngress, PlannedPath, Range};
use crate::error::{ManifestError, PathFault};

use crate::{DeviceId, HeaderHash, PathId};

/// One of the two plans of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Configuration {
    /// The plan before.
    Old,
    /// The plan after.
    New,
}

/// Which plans a device honors: it caches their packets and keeps their buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// The old plan; the new manifest has not arrived.
    #[default]
    Old,
    /// Both.
    Both,
    /// The new plan; the old buckets are gone.
    New,
}

impl State {
    /// Whether a device in this state honors that plan.
    pub fn honors(self, configuration: Configuration) -> bool {
        match configuration {
            Configuration::Old => self != State::New,
            Configuration::New => self != State::Old,
        }
    }
}

/// What an ingress knows of the devices' states.
///
/// A device goes from old to both when the new manifest arrives, and acknowledges that. It goes
/// from both to new when every ingress has released it and the packets sent before that have
/// passed. What an ingress knows may be late, but a plan that a device honors by what its ingress
/// knows is one that it does honor. [`Transition`] relies on nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    states: Vec<State>,
}

impl Progress {
    /// All devices are old.
    pub fn new(devices: usize) -> Self {
        Self { states: vec![State::Old; devices] }
    }

    /// The device has acknowledged the new manifest. Late or repeated acknowledgments change
    /// nothing.
    pub fn acknowledge(&mut self, device: DeviceId) {
        if let Some(state) = self.states.get_mut(device.index())
            && *state == State::Old
        {
            *state = State::Both;
        }
    }

    /// Releases the device: from now on, nothing is encoded that needs its old buckets. Returns
    /// false, without effect, unless the state is both.
    pub fn release(&mut self, device: DeviceId) -> bool {
        match self.states.get_mut(device.index()) {
            Some(state) if *state == State::Both => {
                *state = State::New;
                true
            }
            _ => false,
        }
    }

    /// What the device is known to honor.
    pub fn state(&self, device: DeviceId) -> State {
        self.states.get(device.index()).copied().unwrap_or_default()
    }

    /// Whether all devices are at least in this state.
    pub fn all(&self, state: State) -> bool {
        self.states.iter().all(|&known| known >= state)
    }
}

/// The devices that certainly cached a packet, per plan. An ingress keeps this with the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Under the old plan.
    pub old: Option<DeviceId>,
    /// Under the new plan.
    pub new: Option<DeviceId>,
}

/// The device that decodes a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// Number of the device.
    pub device: DeviceId,
    /// Which hop of the encoded packet's path it is.
    pub hop: u32,
    /// Plan under which it has the matched packet.
    pub configuration: Configuration,
}

/// Bytes of buckets during a transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spare {
    /// Under the old plan.
    pub old: u64,
    /// Under the new plan.
    pub new: u64,
    /// While both are honored; unchanged buckets count once.
    pub both: u64,
}

impl Spare {
    /// Bytes that a memory of this size (none: without limit) lacks while both are honored: the
    /// thesis's spare memory.
    pub fn beyond(&self, memory: Option<u64>) -> u64 {
        memory.map_or(0, |memory| self.both.saturating_sub(memory))
    }
}

/// Two plans, one after the other, for the same devices.
///
/// Each plan has its own buckets. A bucket of the new plan begins empty when its device (or, at the
/// ingress, what is known of the device) comes to honor the plan; a bucket that is the same in both
/// (path, device, range and size) goes on. The contents of a FIFO bucket are the longest run of its
/// latest packets that fits. So a device that began earlier than its ingress knew has all that the
/// ingress thinks it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    old: Arc<Plan>,
    new: Arc<Plan>,
}

impl Transition {
    /// From `old` to `new`. [`Plan::after`] makes plans that suit each other.
    ///
    /// # Errors
    /// Plans of different networks or devices; a new version that is not above the old; an id that
    /// means different paths.
    pub fn new(old: Arc<Plan>, new: Arc<Plan>) -> Result<Self, ManifestError> {
        if old.network() != new.network() {
            let (old, new) = (old.network().into(), new.network().into());
            return Err(ManifestError::AnotherNetwork { old, new });
        }
        if old.version() >= new.version() {
            return Err(ManifestError::Stale { old: old.version(), new: new.version() });
        }
        if !old
            .devices()
            .iter()
            .map(|device| &device.name)
            .eq(new.devices().iter().map(|device| &device.name))
        {
            return Err(ManifestError::OtherDevices);
        }
        for path in old.paths() {
            let Some(after) = new.path(path.id) else { continue };
            let ingress = |plan: &Plan, path: &PlannedPath| {
                let ingress = &plan.ingresses()[path.ingress as usize];
                (ingress.name.clone(), ingress.slice)
            };
            if ingress(&old, path) != ingress(&new, after)
                || path.egress != after.egress
                || path.hops != after.hops
            {
                return Err(ManifestError::path(path.id, PathFault::Changed));
            }
        }
        Ok(Self { old, new })
    }

    /// The plan before.
    pub fn old(&self) -> &Arc<Plan> {
        &self.old
    }

    /// The plan after.
    pub fn new_plan(&self) -> &Arc<Plan> {
        &self.new
    }

    /// The plan of a configuration.
    pub fn plan(&self, configuration: Configuration) -> &Plan {
        match configuration {
            Configuration::Old => &self.old,
            Configuration::New => &self.new,
        }
    }

    /// The device that caches packets of this path with this hash under one plan. O(log n).
    pub fn holder(
        &self,
        configuration: Configuration,
        path: PathId,
        hash: HeaderHash,
    ) -> Option<DeviceId> {
        self.plan(configuration).path(path)?.holder(hash)
    }

    /// Whether a device in this state caches packets of this path with this hash. O(log n).
    pub fn stores(&self, device: DeviceId, state: State, path: PathId, hash: HeaderHash) -> bool {
        [Configuration::Old, Configuration::New]
            .into_iter()
            .any(|one| self.keeps(one, device, state, path, hash))
    }

    /// Whether a device in this state puts packets of this path with this hash into a bucket of
    /// that plan. If the bucket is [unchanged](Transition::unchanged), it is one, whichever plan
    /// asks.
    pub fn keeps(
        &self,
        configuration: Configuration,
        device: DeviceId,
        state: State,
        path: PathId,
        hash: HeaderHash,
    ) -> bool {
        self.holder(configuration, path, hash) == Some(device)
            && (state.honors(configuration) || self.unchanged(path, hash).is_some())
    }

    /// The device whose bucket for this path and hash is the same in both plans.
    pub fn unchanged(&self, path: PathId, hash: HeaderHash) -> Option<DeviceId> {
        let (old, new) = (self.old.path(path)?, self.new.path(path)?);
        let range: &Range = old.range(hash)?;
        (new.range(hash) == Some(range)).then(|| old.hops[range.hop as usize])
    }

    /// Who certainly caches a packet of this path with this hash that is sent now. The ingress
    /// keeps the packet in its own buckets of the same plans, and this beside it.
    pub fn copies(&self, progress: &Progress, path: PathId, hash: HeaderHash) -> Copies {
        let unchanged = self.unchanged(path, hash);
        let certain = |configuration| {
            let device = self.holder(configuration, path, hash)?;
            (progress.state(device).honors(configuration) || unchanged == Some(device))
                .then_some(device)
        };
        Copies { old: certain(Configuration::Old), new: certain(Configuration::New) }
    }

    /// Who decodes a packet of path `p` that is sent now and encoded against one of path `q` with
    /// this hash, which was sent when `copies` were certain; none if it must not be encoded.
    ///
    /// A match is allowed if a device that certainly cached the packet still certainly has it, and
    /// the two paths come to that device by the same devices: so it lies on p, and the matched
    /// packet came there first. With two such devices, the answer is the nearer to the ingress.
    pub fn decoder(
        &self,
        progress: &Progress,
        p: PathId,
        q: PathId,
        hash: HeaderHash,
        copies: Copies,
    ) -> Option<Decoder> {
        let of = self.path(p)?;
        let with = self.path(q)?;
        let unchanged = self.unchanged(q, hash);
        let pairs = [(Configuration::Old, copies.old), (Configuration::New, copies.new)];
        let able = pairs.into_iter().filter_map(|(configuration, device)| {
            let device = device?;
            if !progress.state(device).honors(configuration) && unchanged != Some(device) {
                return None;
            }
            let hop = of.hops.iter().position(|&hop| hop == device)?;
            (self.holder(configuration, q, hash) == Some(device)
                && with.hops.get(..=hop) == Some(&of.hops[..=hop]))
            .then_some(Decoder { device, hop: hop as u32, configuration })
        });
        able.min_by_key(|decoder| decoder.hop)
    }

    /// Bytes of each device's buckets.
    pub fn spare(&self) -> Vec<Spare> {
        let mut spare = vec![Spare::default(); self.old.devices().len()];
        let devices: Vec<usize> = (0..spare.len()).collect();
        self.sum([&devices; 2], |path, range| path.hops[range.hop as usize].index(), &mut spare);
        spare
    }

    /// Bytes of the buckets at each ingress's node, in the order of the new plan's ingresses; a node
    /// that only the old plan has is left out. Slices of a node have the same store.
    pub fn ingress_spare(&self) -> Vec<Spare> {
        let mut spare = vec![Spare::default(); self.new.ingresses().len()];
        // The first ingress of the same node in the new plan.
        let node = |ingress: &PlannedIngress| {
            let found = self.new.ingresses().iter().position(|other| other.name == ingress.name);
            found.unwrap_or(usize::MAX)
        };
        let before: Vec<usize> = self.old.ingresses().iter().map(node).collect();
        let after: Vec<usize> = self.new.ingresses().iter().map(node).collect();
        self.sum([&before, &after], |path, _| path.ingress as usize, &mut spare);
        after.iter().map(|&first| spare[first]).collect()
    }

    /// A path of either plan; in both, it has the same devices.
    fn path(&self, id: PathId) -> Option<&PlannedPath> {
        self.new.path(id).or_else(|| self.old.path(id))
    }

    /// Adds up buckets. `at` finds a bucket's owner in its own plan, `before` and `after` the place in
    /// `spare` of an owner in the old and in the new plan.
    fn sum(
        &self,
        [before, after]: [&[usize]; 2],
        at: impl Fn(&PlannedPath, &Range) -> usize,
        spare: &mut [Spare],
    ) {
        for path in self.old.paths() {
            for range in &path.ranges {
                let Some(spare) = spare.get_mut(before[at(path, range)]) else { continue };
                spare.old = spare.old.saturating_add(range.bytes);
                spare.both = spare.both.saturating_add(range.bytes);
            }
        }
        for path in self.new.paths() {
            let old = self.old.path(path.id);
            for range in &path.ranges {
                let Some(spare) = spare.get_mut(after[at(path, range)]) else { continue };
                spare.new = spare.new.saturating_add(range.bytes);
                if !old.is_some_and(|old| old.ranges.contains(range)) {
                    spare.both = spare.both.saturating_add(range.bytes);
                }
            }
        }
    }
}
