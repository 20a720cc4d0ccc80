//! The plans of a machine: the one in force, the next, and the one that waits.

use super::part::Part;
use super::setup::PlanId;
use std::collections::BTreeSet;

/// Nanoseconds after which a notice that nobody has answered is sent again.
pub(super) const AGAIN: u64 = 1_000_000_000;
/// Nanoseconds after which a path that the newest plan does not have is waited for no more: a node or
/// a link on it may be gone for good. What was not told there is mended by rejections.
const PATIENCE: u64 = 10 * AGAIN;
/// Nanoseconds after which a plan that waits replaces those before it, with empty caches.
const OVERDUE: u64 = 60 * AGAIN;

/// The plans of a machine.
pub(super) struct Versions {
    pub(super) current: Part,
    /// The plan that is being brought in: its ranges are honored beside those of `current`.
    pub(super) next: Option<Next>,
    pub(super) waiting: Option<Part>,
    pub(super) phase: Phase,
    /// When notices are sent again.
    pub(super) due: u64,
    /// Since when it is so; none before the first tick.
    pub(super) since: Option<u64>,
    /// The newest plan that others have, if it does not go together with those here: the ingress sends
    /// packets as they are, and so uses no plan.
    pub(super) outdated: Option<PlanId>,
}

pub(super) struct Next {
    pub(super) part: Part,
    /// Paths whose ingress uses it.
    pub(super) released: BTreeSet<u32>,
    /// Whether the ingress here does.
    pub(super) has_switched: bool,
    /// Whether paths that the newest plan does not have are waited for no more.
    pub(super) has_waited: bool,
}

/// What the ingress here has to say, and the paths where it is not answered yet.
pub(super) enum Phase {
    /// May the next plan be used?
    Asking(BTreeSet<u32>),
    /// It is used.
    Releasing(PlanId, BTreeSet<u32>),
}

impl Versions {
    pub(super) fn new(current: Part) -> Versions {
        let phase = Phase::Releasing(current.plan, beginning([&current]));
        let (next, waiting) = (None, None);
        Versions { current, next, waiting, phase, due: 0, since: None, outdated: None }
    }

    pub(super) fn newest(&self) -> PlanId {
        let next = self.next.as_ref().map(|next| next.part.plan);
        self.waiting.as_ref().map(|part| part.plan).or(next).unwrap_or(self.current.plan)
    }

    /// Whether this node does as the plan says, or has nothing to do with it any more.
    pub(super) fn has(&self, plan: PlanId) -> bool {
        plan.version < self.current.plan.version
            || plan == self.current.plan
            || self.next.as_ref().is_some_and(|next| next.part.plan == plan)
    }

    /// Whether this node has missed a plan before this one: nobody counts on it for that.
    pub(super) fn lacks_earlier(&self, plan: PlanId) -> bool {
        plan.version >= self.newest().version.saturating_add(2)
    }

    /// Whether a path is in this plan, and in all that come after it.
    pub(super) fn stays(&self, since: PlanId, path: u32) -> bool {
        let next = self.next.as_ref().map(|next| &next.part);
        let parts = [Some(&self.current), next, self.waiting.as_ref()].into_iter().flatten();
        let mut later = parts.skip_while(|part| part.plan != since);
        later.all(|part| part.places.contains_key(&path))
    }

    /// Gives paths up that a newer plan does not have, and that were waited for long enough.
    pub(super) fn give_up(&mut self, now: u64) {
        if now.saturating_sub(*self.since.get_or_insert(now)) < PATIENCE {
            return;
        }
        if let Phase::Releasing(plan, open) = &self.phase {
            let (plan, mut left) = (*plan, open.clone());
            left.retain(|&path| self.stays(plan, path));
            self.phase = Phase::Releasing(plan, left);
        }
        if let Some(next) = &mut self.next {
            next.has_waited = true;
        }
    }

    /// The plan that waits, if it has done so for too long: some node has left out the one before it.
    pub(super) fn overdue(&mut self, now: u64) -> Option<Part> {
        let since = self.since.filter(|since| now.saturating_sub(*since) >= OVERDUE);
        since.and_then(|_| self.waiting.take())
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(&self.phase, Phase::Releasing(_, open) if open.is_empty())
    }
}

/// Paths that begin here.
pub(super) fn beginning<'a>(parts: impl IntoIterator<Item = &'a Part>) -> BTreeSet<u32> {
    let places = parts.into_iter().flat_map(|part| &part.places);
    places.filter(|(_, place)| place.before.is_none()).map(|(&path, _)| path).collect()
}
