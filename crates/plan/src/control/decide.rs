//! When a controller plans, and with what.

use super::controller::{Action, Basis, Controller, Node, Reason};
use super::{Means, Question};
use std::collections::BTreeMap;

impl Node {
    /// Bytes per second to each egress, over the last reports.
    pub(super) fn volumes(&self) -> BTreeMap<u32, f64> {
        self.rates.as_ref().map(|rates| rates.volumes.clone()).unwrap_or_default()
    }
}

impl Controller {
    /// Why a plan is needed now, if it is.
    pub(super) fn wants_plan(&self, now: u64) -> Option<Reason> {
        if now < self.not_before || self.nodes.iter().all(|node| node.joined.is_none()) {
            return None;
        }
        let (down, since) = (&self.down.0, self.down.1);
        let unchanged = now.saturating_sub(since);
        let is_calm = unchanged >= self.settings.settle;
        if self.plan.version == 0 && !self.knows_newer() {
            let all = self.nodes.iter().all(|node| node.joined.is_some());
            let waited = now.saturating_sub(self.started) >= self.settings.patience;
            return (all && down.is_empty() || waited && is_calm).then_some(Reason::First);
        }
        if let Some(node) = self.unknown() {
            return Some(Reason::Unknown(node));
        }
        if self.asked {
            return Some(Reason::Asked);
        }
        let Some(basis) = &self.basis else {
            // After a restart, what the plan was made with is not known: nodes are given time to join
            // and to measure.
            let wait = self.settings.patience + 2 * self.settings.report;
            let waited = now.saturating_sub(self.started) >= wait;
            return (waited && is_calm).then_some(Reason::Links);
        };
        // What is lost is lost now; what is back may go again.
        let is_worse = !down.is_subset(&basis.down) && unchanged >= self.settings.gather;
        if *down != basis.down && (is_calm || is_worse) {
            return Some(Reason::Links);
        }
        if let Some(rollout) = self.rollout.filter(|rollout| rollout.ended.is_none()) {
            let waited = now.saturating_sub(rollout.began) >= self.settings.absence;
            return self.missing().filter(|_| waited).map(Reason::Away);
        }
        if self.record.drained != basis.drained {
            return Some(Reason::Drained);
        }
        let memory = |(node, planned): (&Node, &u64)| {
            node.joined.is_some() && node.memory.is_some_and(|memory| memory != *planned)
        };
        if let Some(node) = self.nodes.iter().zip(&basis.memory).position(memory) {
            return Some(Reason::Memory(node));
        }
        let since = now.saturating_sub(basis.at);
        if since >= 2 * self.settings.report
            && let Some(node) = self.changed(basis)
        {
            return Some(Reason::Changed(node));
        }
        if let Some(node) = basis.hasty.filter(|_| since >= 3 * self.settings.report) {
            return Some(Reason::Changed(node));
        }
        let carries = self.nodes.iter().any(|node| node.latest.is_some_and(|sums| sums.0 > 0.0));
        (since >= self.settings.replan && carries).then_some(Reason::Due)
    }

    /// A node whose newest plan is not older than the stored one, and another.
    fn unknown(&self) -> Option<usize> {
        self.nodes.iter().position(|node| {
            node.joined.as_ref().is_some_and(|joined| {
                let newest = joined.state.newest();
                newest.version >= self.plan.version && newest != self.plan
            })
        })
    }

    fn knows_newer(&self) -> bool {
        self.unknown().is_some()
    }

    /// An ingress whose traffic is far from what was planned with.
    fn changed(&self, basis: &Basis) -> Option<usize> {
        let all: f64 = self.nodes.iter().filter_map(|node| node.latest).map(|sums| sums.0).sum();
        let is_far = |at: &usize| {
            let (node, planned, to) = (&self.nodes[*at], basis.sums[*at], &basis.volumes[*at]);
            let (Some(now), Some(rates)) = (node.latest, &node.rates) else { return false };
            // Of little traffic, large shares are little.
            let reference = planned.0.max(all * 0.05);
            let by = (now.0 - planned.0).abs().max((now.1 - planned.1).abs());
            // What goes where it did not: over the last reports, as bursts go anywhere.
            let moved = |(egress, now): (&u32, &f64)| {
                (now - to.get(egress).copied().unwrap_or(0.0)).max(0.0)
            };
            let moved: f64 = rates.volumes.iter().map(moved).sum();
            by.max(moved) > self.settings.change * reference
        };
        (0..self.nodes.len()).find(is_far)
    }

    pub(super) fn ask(&mut self, now: u64, reason: Reason, out: &mut Vec<Action>) {
        let mut basis = self.basis(now);
        let was_hasty = self.basis.as_ref().is_some_and(|basis| basis.hasty.is_some());
        if let Reason::Changed(node) = reason {
            basis.hasty = Some(node).filter(|_| !was_hasty);
        }
        let newest = self.nodes.iter().filter_map(|node| node.joined.as_ref());
        let newest = newest.map(|joined| joined.state.newest().version).max().unwrap_or(0);
        // A plan that nodes cannot follow, or one that is stuck halfway, is replaced: two versions of
        // equal parity are never in force together.
        let is_stuck = self.rollout.is_some_and(|rollout| rollout.ended.is_none())
            && matches!(reason, Reason::Links | Reason::Asked | Reason::Away(_))
            && self.basis.is_some();
        let is_unknown = matches!(reason, Reason::Unknown(_));
        // Nor does it go together with the one of a node that cannot be told.
        let is_apart = self.plan.version > 0 && self.missing().is_some();
        let step = if is_stuck || is_unknown || is_apart { 2 } else { 1 };
        let version = newest.max(self.plan.version) + step;
        let means = |(node, &is_end): (&Node, &bool)| Means {
            is_end,
            memory: node.means(),
            speeds: node.speeds,
            is_drained: false,
            rates: node.rates.clone(),
        };
        let mut nodes: Vec<Means> = self.nodes.iter().zip(&self.ends).map(means).collect();
        for (means, node) in nodes.iter_mut().zip(&self.network.nodes) {
            means.is_drained = basis.drained.contains(&node.id);
        }
        let question = Question {
            network: self.network.clone(),
            nodes,
            down: basis.down.clone(),
            old: self.record.plan.clone(),
            version,
            gain: self.settings.gain,
        };
        let is_forced = is_unknown || reason == Reason::Asked;
        self.asked = false;
        self.asking = Some((reason, basis, is_forced));
        out.push(Action::Ask(Box::new(question)));
    }
}
