//! New plans while packets flow: by acknowledgments on the paths themselves, without a clock and
//! without a controller (`docs/NETWORK.md`, "New plans").

use super::error::SetupError;
use super::machine::{Machine, Step};
use super::part::Part;
use super::place::Place;
use super::record::{ANSWER, NOTICE, Notice, What};
use super::setup::{Manifests, PlanId};
use super::versions::{AGAIN, Next, Phase, Versions, beginning};
use oncewire_plan::DeviceId;
use oncewire_plan::engine::{Node, Ranges};
use oncewire_plan::manifest::NodePart;
use oncewire_session::link::NodeKind;
use std::collections::{BTreeSet, HashMap};

/// Nanoseconds after which an ingress tells nodes again which plan it has: some may have restarted.
const REMIND: u64 = 30 * AGAIN;

/// What became of a new plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The node has it already.
    Known,
    /// It is being brought in: packets go on.
    Begun,
    /// It comes after the one that is being brought in.
    Waits,
    /// It does not follow the plan of this node, which has missed some: caches are empty again.
    Replaced,
}

/// The plans of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plans {
    /// The plan that the node carries out.
    pub current: PlanId,
    /// The one that is being brought in.
    pub next: Option<PlanId>,
    /// The one that comes after that.
    pub waiting: Option<PlanId>,
    /// Whether all nodes on its paths know that the ingress here uses its plan.
    pub settled: bool,
}

impl Machine {
    /// The plans of this node.
    pub fn plans(&self) -> Plans {
        let Versions { current, next, waiting, .. } = &self.versions;
        Plans {
            current: current.plan,
            next: next.as_ref().map(|next| next.part.plan),
            waiting: waiting.as_ref().map(|part| part.plan),
            settled: self.versions.is_settled(),
        }
    }

    /// Takes a new plan. The node caches as it says beside the old one from now on; its ingress uses
    /// it when all nodes on its paths have it; and the old one goes when all ingresses do.
    ///
    /// # Errors
    /// [`SetupError`] for a plan that is older than one that the node has, does not fit the network,
    /// or needs more memory than there is. The node goes on as before.
    pub fn take(&mut self, manifests: &Manifests) -> Result<Taken, SetupError> {
        let of_node =
            |node: &Machine| Part::new(&node.network, node.me, manifests, node.settings.rules);
        self.take_plan(manifests.id(), of_node)
    }

    fn take_plan(
        &mut self,
        new: PlanId,
        part: impl Fn(&Machine) -> Result<Part, SetupError>,
    ) -> Result<Taken, SetupError> {
        let newest = self.versions.newest();
        if new == newest {
            return Ok(Taken::Known);
        }
        if new.version == newest.version {
            return Err(SetupError::SameVersion(new.version));
        }
        if new.version < newest.version {
            return Err(SetupError::Stale { old: newest.version, new: new.version });
        }
        let part = part(self)?;
        let before = match &self.versions.next {
            Some(next) => &next.part,
            None => &self.versions.current,
        };
        let is_apart = before.plan.version == 0 || self.versions.outdated.is_some();
        if is_apart || (new.version - before.plan.version).is_multiple_of(2) {
            self.fits(part.memory(None))?;
            self.replace(part)?;
            return Ok(Taken::Replaced);
        }
        part.follows(before)?;
        self.fits(part.memory(Some(before)))?;
        // Where only paths are open that it does not have, nobody may be left to answer.
        let is_open = match &self.versions.phase {
            Phase::Releasing(_, open) => open.iter().any(|path| part.places.contains_key(path)),
            Phase::Asking(_) => true,
        };
        if self.versions.next.is_some() || is_open {
            self.versions.waiting = Some(part);
            self.versions.since = None;
            return Ok(Taken::Waits);
        }
        self.begin(part);
        Ok(Taken::Begun)
    }

    /// [`Machine::take`] for the part of a controller's plan. It may be another controller's than the one
    /// before: a plan whose paths do not go on with those of this node begins anew, with empty caches.
    ///
    /// # Errors
    /// [`SetupError`], but not [`SetupError::Changed`].
    pub fn take_part(&mut self, part: &NodePart) -> Result<Taken, SetupError> {
        let of_node =
            |node: &Machine| Part::of_node(&node.network, node.me, part, node.settings.rules);
        let plan = PlanId { version: part.version, digest: part.digest };
        match self.take_plan(plan, of_node) {
            Err(SetupError::Changed(_)) => {
                let part = of_node(self)?;
                self.fits(part.memory(None))?;
                self.replace(part)?;
                Ok(Taken::Replaced)
            }
            taken => taken,
        }
    }

    pub(super) fn fits(&self, needed: u64) -> Result<(), SetupError> {
        match self.memory.filter(|&memory| memory < needed) {
            Some(memory) => Err(SetupError::Memory { needed, memory }),
            None => Ok(()),
        }
    }

    /// Begins anew with a plan, with empty caches.
    pub(super) fn replace(&mut self, part: Part) -> Result<(), SetupError> {
        let version = part.plan.version;
        let begins = part.begins.as_ref();
        let entrance = begins.map(|begins| begins.entrance(version, &self.settings)).transpose()?;
        self.devices.clear();
        for (&device, ranges) in &part.devices {
            let mut node = Node::default();
            node.install(version as u32, ranges.clone());
            self.devices.insert(device, node);
        }
        self.entrance = entrance;
        self.places = part.places.clone();
        self.versions = Versions::new(part);
        Ok(())
    }

    /// Honors a plan beside the old one.
    fn begin(&mut self, part: Part) {
        let version = part.plan.version as u32;
        let devices: BTreeSet<DeviceId> =
            part.devices.keys().chain(self.devices.keys()).copied().collect();
        for device in devices {
            // Of a device that the plan leaves out, nothing stays.
            let ranges = part.devices.get(&device).cloned().unwrap_or_else(Ranges::default);
            self.devices.entry(device).or_default().install(version, ranges);
        }
        for (&path, place) in &part.places {
            let before = self.places.get(&path).and_then(|place| place.device);
            self.places.insert(path, Place { device: place.device.or(before), ..*place });
        }
        let has_switched = part.begins.is_none() && self.entrance.is_none();
        if !has_switched {
            self.versions.phase = Phase::Asking(beginning([&part]));
        }
        let released = BTreeSet::new();
        self.versions.next = Some(Next { part, released, has_switched, has_waited: false });
        (self.versions.due, self.versions.since) = (0, None);
    }

    /// Sends what neighbors have not answered, `now` nanoseconds since the start; and goes on with
    /// plans. To be called every so often, a few times a second.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Step>) {
        self.weigh(now, out);
        self.versions.give_up(now);
        if let Some(part) = self.versions.overdue(now)
            && self.fits(part.memory(None)).is_ok()
        {
            // Without memory for its tables, the node goes on with what it has.
            let _ = self.replace(part);
        }
        self.advance(out);
        if now < self.versions.due {
            return;
        }
        if self.versions.is_settled() && self.versions.next.is_none() {
            let all = beginning([&self.versions.current]);
            let plan = self.versions.outdated.unwrap_or(self.versions.current.plan);
            self.versions.phase = Phase::Releasing(plan, all);
        }
        self.announce(out);
        self.versions.due = now + if self.versions.is_settled() { REMIND } else { AGAIN };
    }

    /// Others have a plan that this node has missed others before: the ingress here uses no plan until
    /// it has that, and says so, so that nobody waits for it.
    fn miss(&mut self, plan: PlanId) {
        let versions = &mut self.versions;
        if versions.outdated.is_none_or(|known| known.version < plan.version) {
            versions.outdated = Some(plan);
            versions.phase = Phase::Releasing(plan, beginning([&versions.current]));
            versions.due = 0;
        }
    }

    /// Sends the notices that are not answered yet.
    fn announce(&self, out: &mut Vec<Step>) {
        let next = self.versions.next.as_ref().map(|next| next.part.plan);
        let (what, plan, open) = match &self.versions.phase {
            Phase::Asking(open) => (What::Ready, next.unwrap_or_default(), open),
            Phase::Releasing(plan, open) => (What::Released, *plan, open),
        };
        for &path in open {
            if let Some(to) = self.places.get(&path).and_then(|place| place.after) {
                let body = Notice { what, plan }.write(path);
                out.push(Step::Send { to, kind: NodeKind::Path, bits: NOTICE, body });
            }
        }
    }

    /// A notice on its path.
    pub(super) fn noticed(&mut self, from: usize, path: u32, notice: Notice, out: &mut Vec<Step>) {
        let Some(&place) = self.places.get(&path).filter(|place| place.before == Some(from)) else {
            self.counters.wrong_neighbor += 1;
            return;
        };
        // Who caches nothing of the path has nothing to be ready with; nor has a node that others have
        // planned without, or will tell.
        if self.versions.lacks_earlier(notice.plan) {
            self.miss(notice.plan);
        } else if place.device.is_some() && !self.versions.has(notice.plan) {
            return;
        }
        if let Some(next) = &mut self.versions.next
            && notice == (Notice { what: What::Released, plan: next.part.plan })
        {
            next.released.insert(path);
        }
        match place.after {
            Some(to) => {
                let body = notice.write(path);
                out.push(Step::Send { to, kind: NodeKind::Path, bits: NOTICE, body });
            }
            None => {
                let answer = |to| {
                    let body = notice.write(path);
                    Step::Send { to, kind: NodeKind::Back, bits: ANSWER, body }
                };
                out.extend(place.before.map(answer));
            }
        }
        self.advance(out);
    }

    /// The answer to a notice, on its way to the ingress.
    pub(super) fn answered(&mut self, from: usize, path: u32, answer: Notice, out: &mut Vec<Step>) {
        let Some(&place) = self.places.get(&path).filter(|place| place.after == Some(from)) else {
            self.counters.wrong_neighbor += 1;
            return;
        };
        if let Some(to) = place.before {
            let body = answer.write(path);
            out.push(Step::Send { to, kind: NodeKind::Back, bits: ANSWER, body });
            return;
        }
        let next = self.versions.next.as_ref().map(|next| next.part.plan);
        match &mut self.versions.phase {
            Phase::Asking(open) if answer.what == What::Ready && Some(answer.plan) == next => {
                open.remove(&path);
            }
            Phase::Releasing(plan, open)
                if answer == Notice { what: What::Released, plan: *plan } =>
            {
                open.remove(&path);
            }
            _ => {}
        }
        self.advance(out);
    }

    /// Takes the steps that are possible now.
    fn advance(&mut self, out: &mut Vec<Step>) {
        let is_ready = matches!(&self.versions.phase, Phase::Asking(open) if open.is_empty());
        if is_ready && self.switch() {
            self.announce(out);
        }
        if self.is_released() {
            self.retire();
        }
        if self.versions.next.is_none()
            && self.versions.is_settled()
            && let Some(part) = self.versions.waiting.take()
        {
            self.begin(part);
            // Without paths from here, or devices, it is done already.
            self.advance(out);
        }
    }

    /// The ingress here uses the next plan.
    fn switch(&mut self) -> bool {
        let Machine { versions, entrance, settings, .. } = self;
        let Some(next) = versions.next.as_mut().filter(|next| !next.has_switched) else {
            return false;
        };
        next.has_switched = true;
        let plan = next.part.plan;
        match (&next.part.begins, entrance.as_mut()) {
            (Some(begins), Some(entrance)) => {
                begins.switch(plan.version, entrance, settings.rules);
            }
            // The other plan has no paths from here. If memory lacks now, they have no matches.
            (Some(begins), None) => *entrance = begins.entrance(plan.version, settings).ok(),
            (None, _) => *entrance = None,
        }
        versions.phase = Phase::Releasing(plan, beginning([&versions.current, &next.part]));
        versions.since = None;
        self.counters.plans += 1;
        true
    }

    /// Whether all ingresses of paths through devices here use the next plan.
    fn is_released(&self) -> bool {
        let Some(next) = &self.versions.next else { return false };
        let cached = |(_, place): &(&u32, &Place)| place.before.is_some() && place.device.is_some();
        let plan = next.part.plan;
        let is_given_up = |path: &u32| next.has_waited && !self.versions.stays(plan, *path);
        let is_done = |path: &u32| next.released.contains(path) || is_given_up(path);
        next.has_switched && self.places.iter().filter(cached).all(|(path, _)| is_done(path))
    }

    /// The old plan goes.
    fn retire(&mut self) {
        let Some(next) = self.versions.next.take() else { return };
        self.devices.values_mut().for_each(|node| node.retire(next.part.plan.version as u32));
        self.devices.retain(|device, _| next.part.devices.contains_key(device));
        // Notices of paths that have gone may still be on their way.
        let mut places: HashMap<u32, Place> = next.part.places.clone();
        if let Phase::Releasing(_, open) = &self.versions.phase {
            for path in open {
                if let Some(&place) = self.places.get(path) {
                    places.entry(*path).or_insert(place);
                }
            }
        }
        self.places = places;
        self.versions.current = next.part;
    }
}
