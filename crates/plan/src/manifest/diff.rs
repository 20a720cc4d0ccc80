//! Differences between two plans.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Entry, Plan, PlannedPath, SPACE};

use crate::{HeaderHash, PathId};

/// How two plans differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Version before.
    pub from: u64,
    /// Version after.
    pub to: u64,
    /// Devices with changes, by name.
    pub devices: Vec<DeviceDiff>,
    /// Sums.
    pub totals: Totals,
}

/// Changes at a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDiff {
    /// Name of the device.
    pub name: String,
    /// Ranges that change, by ingress, egress and path id.
    pub changes: Vec<Change>,
    /// Bytes of cache that become useless.
    pub useless: u64,
}

/// Change of a path's range at a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where the path enters: [`PlannedIngress::title`](super::PlannedIngress::title).
    pub ingress: String,
    /// Where it leaves.
    pub egress: String,
    /// What kind of change.
    pub kind: Kind,
    /// The range before.
    pub before: Option<Entry>,
    /// The range after.
    pub after: Option<Entry>,
    /// Bytes of the bucket that become useless: hashes that are no longer the device's, and what no
    /// longer fits.
    pub useless: u64,
}

/// Kind of change of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It was not there before.
    Added,
    /// It is not there after.
    Removed,
    /// An end of it moves.
    Moved,
    /// Only its bucket changes size.
    Resized,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Added => "added",
            Kind::Removed => "removed",
            Kind::Moved => "moved",
            Kind::Resized => "resized",
        })
    }
}

/// Sums over a diff.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Ranges that are new.
    pub added: usize,
    /// Ranges that are gone.
    pub removed: usize,
    /// Ranges of which an end moves.
    pub moved: usize,
    /// Ranges of which only the bucket changes size.
    pub resized: usize,
    /// Ranges that stay as they are.
    pub unchanged: usize,
    /// Share of all paths' hashes that have another holder after, or one where there was none, or
    /// none where there was one. Paths count alike, those that only one plan has too.
    pub hands: f64,
    /// Bytes of cache that become useless.
    pub useless: u64,
}

/// Device, ingress, egress and path id, with the range before and after.
type Pairs<'a> = BTreeMap<(&'a str, String, &'a str, PathId), (Option<Entry>, Option<Entry>)>;

/// What changes from `old` to `new`. Devices are identified by name; paths by id, ingress and
/// egress.
pub fn diff(old: &Plan, new: &Plan) -> Diff {
    let mut pairs: Pairs<'_> = BTreeMap::new();
    for (plan, after) in [(old, false), (new, true)] {
        for path in plan.paths() {
            for range in &path.ranges {
                let device = plan.devices()[path.hops[range.hop as usize]].name.as_str();
                let (ingress, egress) = ends(plan, path);
                let entry =
                    Entry { path: path.id, from: range.from, to: range.to, bytes: range.bytes };
                let pair = pairs.entry((device, ingress, egress, path.id)).or_default();
                *(if after { &mut pair.1 } else { &mut pair.0 }) = Some(entry);
            }
        }
    }
    let mut totals = Totals::default();
    let mut devices: Vec<DeviceDiff> = Vec::new();
    for ((device, ingress, egress, _), (before, after)) in pairs {
        let kind = match (before, after) {
            (Some(before), Some(after)) if before == after => {
                totals.unchanged += 1;
                continue;
            }
            (Some(before), Some(after)) if (before.from, before.to) == (after.from, after.to) => {
                Kind::Resized
            }
            (Some(_), Some(_)) => Kind::Moved,
            (Some(_), None) => Kind::Removed,
            _ => Kind::Added,
        };
        match kind {
            Kind::Added => totals.added += 1,
            Kind::Removed => totals.removed += 1,
            Kind::Moved => totals.moved += 1,
            Kind::Resized => totals.resized += 1,
        }
        let useless = useless(before, after);
        totals.useless = totals.useless.saturating_add(useless);
        if devices.last().is_none_or(|last| last.name != device) {
            devices.push(DeviceDiff { name: device.into(), changes: Vec::new(), useless: 0 });
        }
        if let Some(last) = devices.last_mut() {
            last.useless = last.useless.saturating_add(useless);
            last.changes.push(Change {
                ingress,
                egress: egress.into(),
                kind,
                before,
                after,
                useless,
            });
        }
    }
    totals.hands = hands(old, new);
    Diff { from: old.version(), to: new.version(), devices, totals }
}

fn ends<'a>(plan: &'a Plan, path: &'a PlannedPath) -> (String, &'a str) {
    (plan.ingresses()[path.ingress as usize].title(), &path.egress)
}

fn useless(before: Option<Entry>, after: Option<Entry>) -> u64 {
    let Some(before) = before else { return 0 };
    let Some(after) = after else { return before.bytes };
    let kept = before.to.min(after.to).saturating_sub(before.from.max(after.from));
    let rest = before.bytes as u128 * kept as u128 / (before.to - before.from) as u128;
    before.bytes - after.bytes.min(rest as u64)
}

fn hands(old: &Plan, new: &Plan) -> f64 {
    let (mut changed, mut paths) = (0u128, 0u128);
    let same = |path: &PlannedPath, from: &Plan, to: &Plan| {
        to.path(path.id).is_some_and(|other| ends(from, path) == ends(to, other))
    };
    for path in old.paths() {
        paths += 1;
        match new.path(path.id).filter(|_| same(path, old, new)) {
            Some(after) => changed += moved(old, path, new, after) as u128,
            None => changed += path.covered() as u128,
        }
    }
    for path in new.paths().iter().filter(|path| !same(path, new, old)) {
        paths += 1;
        changed += path.covered() as u128;
    }
    if paths == 0 { 0.0 } else { changed as f64 / (paths * SPACE as u128) as f64 }
}

/// Hashes of a path whose holder changes.
fn moved(old: &Plan, before: &PlannedPath, new: &Plan, after: &PlannedPath) -> u64 {
    let ends: BTreeSet<u64> =
        before.ranges.iter().chain(&after.ranges).map(|range| range.to).collect();
    let holder = |plan: &Plan, path: &PlannedPath, hash: u64| -> Option<String> {
        path.holder(HeaderHash(hash as u32)).map(|device| plan.devices()[device].name.clone())
    };
    let (mut from, mut sum) = (0, 0);
    for to in ends {
        if holder(old, before, from) != holder(new, after, from) {
            sum += to - from;
        }
        from = to;
    }
    sum
}

impl fmt::Display for Diff {
    /// A line of sums, then a line per device and per range that changes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        writeln!(
            f,
            "version {} to {}: {} ranges added, {} removed, {} moved, {} resized, {} unchanged; {:.2} % of hashes change hands; {} bytes of cache \
             become useless",
            self.from,
            self.to,
            totals.added,
            totals.removed,
            totals.moved,
            totals.resized,
            totals.unchanged,
            totals.hands * 100.0,
            totals.useless
        )?;
        let share = |entry: &Option<Entry>| match entry {
            Some(entry) => {
                let (from, to) = (entry.from as f64 / SPACE as f64, entry.to as f64 / SPACE as f64);
                format!("[{from:.4}, {to:.4}) {} B", entry.bytes)
            }
            None => "-".into(),
        };
        for device in &self.devices {
            writeln!(f, "{}: {} bytes useless", device.name, device.useless)?;
            for change in &device.changes {
                let (before, after) = (share(&change.before), share(&change.after));
                writeln!(
                    f,
                    "  {:<8} {} -> {}  {before}  =>  {after}",
                    change.kind, change.ingress, change.egress
                )?;
            }
        }
        Ok(())
    }
}
