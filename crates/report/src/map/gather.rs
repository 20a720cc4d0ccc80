//! Routers and links of a network, folded into PoPs and the connections between them.

use super::{Map, MapLink, MapState};
use crate::format;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Most PoPs that are drawn: those with the most traffic.
pub(super) const MOST_POPS: usize = 1_000;
const MOST_WIRES: usize = 4_000;
/// Characters of a name on the map, and in its hint.
const NAME: usize = 20;
const FULL_NAME: usize = 120;

/// A PoP.
#[derive(Default)]
pub(super) struct Pop {
    /// Name on the map.
    pub(super) name: String,
    /// Name in hints.
    pub(super) full: String,
    pub(super) routers: usize,
    /// Links within the PoP.
    pub(super) inside: usize,
    /// Bytes that enter and leave per epoch.
    pub(super) volume: f64,
    /// Use of its fullest cache, and of its busiest device.
    pub(super) cache_use: Option<f64>,
    pub(super) operations_use: Option<f64>,
    pub(super) state: MapState,
    pub(super) position: Option<[f64; 2]>,
    /// Place in the drawing.
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) radius: f64,
}

impl Pop {
    /// Radius with the rings.
    pub(super) fn reach(&self) -> f64 {
        self.radius
            + if self.cache_use.is_some() || self.operations_use.is_some() {
                2.0 * self.ring() + 1.0
            } else {
                0.5
            }
    }

    /// Width of a ring.
    pub(super) fn ring(&self) -> f64 {
        (self.radius * 0.36).clamp(1.6, 3.4)
    }
}

/// Traffic in one direction between two PoPs.
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) links: usize,
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) utilization: [Option<f64>; 2],
    /// Links of these that do not work.
    pub(super) down: usize,
}

impl Load {
    pub(super) fn add(&mut self, link: &MapLink) {
        self.links += 1;
        self.down += usize::from(link.is_down);
        self.before += finite(link.before);
        self.after += finite(link.after);
        for (most, new) in self.utilization.iter_mut().zip(link.utilization) {
            *most = largest(*most, new);
        }
    }
}

/// The links between two PoPs, in both directions.
pub(super) struct Wire {
    /// The PoPs, the lower index first.
    pub(super) ends: [usize; 2],
    /// From the first to the second PoP, and back.
    pub(super) loads: [Load; 2],
}

impl Wire {
    /// Whether no link of a direction works.
    pub(super) fn is_down(&self) -> bool {
        self.loads.iter().any(|load| load.links > 0 && load.down == load.links)
    }

    /// Bytes in the busier direction.
    pub(super) fn bytes(&self, of: fn(&Load) -> f64) -> f64 {
        of(&self.loads[0]).max(of(&self.loads[1]))
    }
}

/// The PoPs and connections with the most traffic, and notes on what is left out.
pub(super) fn gather(map: &Map) -> (Vec<Pop>, Vec<Wire>, Vec<String>) {
    let (mut pops, pop_of) = pops(map);
    let mut wires = wires(map, &pop_of, &mut pops);
    let mut notes = Vec::new();
    if pops.len() > MOST_POPS {
        let (whole, most) =
            (format::count_of(pops.len() as u64), format::count_of(MOST_POPS as u64));
        notes.push(format!("The map shows the {most} PoPs with the most traffic, of {whole}."));
        keep_most(&mut pops, &mut wires);
    }
    if wires.len() > MOST_WIRES {
        let whole = format::count_of(wires.len() as u64);
        let most = format::count_of(MOST_WIRES as u64);
        notes.push(format!(
            "The map shows the {most} connections with the most traffic, of {whole}."
        ));
        wires.sort_by(|a, b| {
            descending(a.bytes(|load| load.before), b.bytes(|load| load.before))
                .then(a.ends.cmp(&b.ends))
        });
        wires.truncate(MOST_WIRES);
    }
    name_and_size(&mut pops);
    (pops, wires, notes)
}

/// All PoPs, and for each node the index of its PoP.
fn pops(map: &Map) -> (Vec<Pop>, Vec<usize>) {
    let mut index: BTreeMap<u32, usize> = BTreeMap::new();
    let mut pops: Vec<Pop> = Vec::new();
    // A PoP has the name of its first core router.
    let mut named: Vec<bool> = Vec::new();
    let mut pop_of: Vec<usize> = Vec::with_capacity(map.nodes.len());
    for node in &map.nodes {
        let at = *index.entry(node.pop).or_insert(pops.len());
        if at == pops.len() {
            pops.push(Pop::default());
            named.push(false);
        }
        let pop = &mut pops[at];
        let core = node.core;
        if pop.routers == 0 || (core && !named[at]) {
            pop.full =
                cut(if node.label.trim().is_empty() { &node.id } else { &node.label }, FULL_NAME);
            named[at] = core;
        }
        pop.routers += 1;
        pop.volume += finite(node.volume);
        pop.state = pop.state.max(node.state);
        let valid = |at: &[f64; 2]| at[0].abs() <= 90.0 && at[1].abs() <= 360.0;
        pop.position = pop.position.or(node.position.filter(valid));
        pop_of.push(at);
    }
    for device in &map.devices {
        let Some(&at) = pop_of.get(device.node as usize) else { continue };
        let pop = &mut pops[at];
        pop.cache_use = largest(pop.cache_use, device.cache_use);
        pop.operations_use = largest(pop.operations_use, device.operations_use);
    }
    (pops, pop_of)
}

/// The connections between PoPs. Links within one are counted there.
fn wires(map: &Map, pop_of: &[usize], pops: &mut [Pop]) -> Vec<Wire> {
    let mut pairs: BTreeMap<[usize; 2], [Load; 2]> = BTreeMap::new();
    for link in &map.links {
        let (Some(&from), Some(&to)) =
            (pop_of.get(link.from as usize), pop_of.get(link.to as usize))
        else {
            continue;
        };
        if from == to {
            pops[from].inside += 1;
        } else {
            let (key, way) = if from < to { ([from, to], 0) } else { ([to, from], 1) };
            pairs.entry(key).or_default()[way].add(link);
        }
    }
    pairs.into_iter().map(|(ends, loads)| Wire { ends, loads }).collect()
}

/// Keeps the PoPs with the most traffic, and the connections between those.
fn keep_most(pops: &mut Vec<Pop>, wires: &mut Vec<Wire>) {
    let mut order: Vec<usize> = (0..pops.len()).collect();
    order.sort_by(|&a, &b| descending(pops[a].volume, pops[b].volume).then(a.cmp(&b)));
    let mut kept = vec![None; pops.len()];
    order.truncate(MOST_POPS);
    order.sort_unstable();
    for (new, &old) in order.iter().enumerate() {
        kept[old] = Some(new);
    }
    wires.retain_mut(|wire| match wire.ends.map(|end| kept[end]) {
        [Some(a), Some(b)] => {
            wire.ends = [a, b];
            true
        }
        _ => false,
    });
    let mut at = 0;
    pops.retain(|_| {
        at += 1;
        kept[at - 1].is_some()
    });
}

/// Sets names to be drawn, and radii by volume.
fn name_and_size(pops: &mut [Pop]) {
    // The city alone, unless two PoPs have the same.
    let short = |full: &str| full.split(',').next().unwrap_or(full).trim().to_owned();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for pop in &*pops {
        *times.entry(short(&pop.full)).or_default() += 1;
    }
    let most = pops.iter().map(|pop| pop.volume).fold(0.0, f64::max);
    let room = (9.0 * (60.0 / pops.len() as f64).sqrt()).clamp(2.5, 9.0);
    for pop in pops {
        let city = short(&pop.full);
        let city = if city.is_empty() || times[&city] > 1 { &pop.full } else { &city };
        pop.name = cut(city, NAME);
        let share = if most > 0.0 { (pop.volume / most).clamp(0.0, 1.0) } else { 0.0 };
        pop.radius = 2.8 + room * share.sqrt();
    }
}

fn cut(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let mut out: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        out.pop();
        out.push('…');
    }
    out
}

pub(super) fn finite(value: f64) -> f64 {
    if value.is_finite() && value > 0.0 { value } else { 0.0 }
}

pub(super) fn largest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let known = |value: &f64| value.is_finite() && *value >= 0.0;
    match (a.filter(known), b.filter(known)) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// Orders larger values first, and NaN last.
pub(super) fn descending(a: f64, b: f64) -> Ordering {
    let key = |value: f64| if value.is_nan() { f64::NEG_INFINITY } else { value };
    key(b).total_cmp(&key(a))
}
