//! Coefficients of the program: bytes saved and operations per unit of a path's traffic that a
//! device caches, summed over the paths through it.

use std::ops::Range;

use rayon::prelude::*;

use crate::{DeviceId, Error, Instance, Measured, Profile, Synthetic, Watch};

/// Per hop, in the order of [`Instance::hop_index`], for hop r of path q: sums over the paths p of
/// the same ingress through r.
pub(crate) struct Coefficients {
    /// Sum of m(p, q): matches to decode per epoch if r caches all of q.
    pub matches: Vec<f64>,
    /// Sum of b(p, q): bytes of them.
    pub bytes: Vec<f64>,
}

impl Coefficients {
    /// The sums. An ingress's paths form a tree, so that the paths through a device are a subtree:
    /// no pair of paths is looked at for a synthetic profile, and only the pairs that have matches
    /// for a measured one.
    pub(crate) fn new(instance: &Instance, watch: &dyn Watch) -> Result<Self, Error> {
        let mut matches = vec![0.0; instance.hop_count()];
        let mut bytes = vec![0.0; instance.hop_count()];
        let mut parts = Vec::with_capacity(instance.ingresses.len());
        let (mut rest_matches, mut rest_bytes) = (&mut matches[..], &mut bytes[..]);
        for ingress in 0..instance.ingresses.len() {
            let hops = hops_of(instance, ingress).len();
            let (matches, after_matches) = rest_matches.split_at_mut(hops);
            let (bytes, after_bytes) = rest_bytes.split_at_mut(hops);
            (rest_matches, rest_bytes) = (after_matches, after_bytes);
            parts.push((ingress, matches, bytes));
        }
        parts.into_par_iter().try_for_each_init(
            || Buckets::new(instance.devices.len()),
            |buckets, (ingress, matches, bytes)| {
                watch.proceed()?;
                match &instance.profile {
                    Profile::Synthetic(profile) => {
                        synthetic(instance, profile, ingress, buckets, matches, bytes)
                    }
                    Profile::Measured(profile) => {
                        measured(instance, profile, ingress, matches, bytes)
                    }
                }
                let coded = instance.coded(ingress);
                if coded < 1.0 {
                    matches.iter_mut().chain(bytes).for_each(|value| *value *= coded);
                }
                Ok::<(), Error>(())
            },
        )?;
        Ok(Self { matches, bytes })
    }
}

/// Indices of all hops of an ingress's paths.
fn hops_of(instance: &Instance, ingress: usize) -> Range<usize> {
    let paths = instance.paths_of(ingress);
    if paths.is_empty() {
        0..0
    } else {
        instance.hop_range(paths.start).start..instance.hop_range(paths.end - 1).end
    }
}

fn measured(
    instance: &Instance,
    profile: &Measured,
    ingress: usize,
    matches: &mut [f64],
    bytes: &mut [f64],
) {
    let paths = instance.paths_of(ingress);
    let first = hops_of(instance, ingress).start;
    let from = profile.pairs.partition_point(|pair| (pair.0 as usize) < paths.start);
    let to = profile.pairs.partition_point(|pair| (pair.0 as usize) < paths.end);
    for &(p, q, found) in &profile.pairs[from..to] {
        let (p, q) = (&instance.paths[p as usize].hops, q as usize);
        let own = &instance.paths[q].hops;
        // In a tree, what two paths share is a prefix.
        let common = p.iter().zip(own).take_while(|(a, b)| a.device == b.device).count();
        let at = instance.hop_index(q, 0) - first;
        for hop in at..at + common {
            matches[hop] += found.count;
            bytes[hop] += found.bytes();
        }
    }
}

/// The paths that meet at each device, for one ingress at a time.
struct Buckets {
    /// Where each device's paths begin in `members`, while they are counted and filled in.
    start: Vec<u32>,
    members: Vec<Member>,
    touched: Vec<DeviceId>,
    before: Vec<f64>,
}

#[derive(Clone, Copy, Default)]
struct Member {
    path: u32,
    hop: u32,
}

impl Buckets {
    fn new(devices: usize) -> Self {
        Self {
            start: vec![0; devices],
            members: Vec::new(),
            touched: Vec::new(),
            before: Vec::new(),
        }
    }
}

impl Buckets {
    /// The hops of an ingress's paths by device: those of device `touched[i]` end in `members` where
    /// `start` says, in the order of PoPs.
    fn fill(&mut self, instance: &Instance, ingress: usize) {
        let first = hops_of(instance, ingress).start;
        let mut order: Vec<usize> = instance.paths_of(ingress).collect();
        order.sort_by_key(|&path| instance.paths[path].pop);
        let Self { start, members, touched, .. } = self;
        touched.clear();
        for &path in &order {
            for hop in &instance.paths[path].hops {
                let count = &mut start[hop.device];
                if *count == 0 {
                    touched.push(hop.device);
                }
                *count += 1;
            }
        }
        let mut at = 0;
        for &device in &*touched {
            let count = std::mem::replace(&mut start[device], at);
            at += count;
        }
        members.clear();
        members.resize(at as usize, Member::default());
        for &path in &order {
            for (number, hop) in instance.paths[path].hops.iter().enumerate() {
                let place = &mut start[hop.device];
                members[*place as usize] = Member {
                    path: path as u32,
                    hop: (instance.hop_index(path, number) - first) as u32,
                };
                *place += 1;
            }
        }
    }
}

/// A path q gets, at a device r, from each path p through r, a share that is the product of v(q)
/// and a factor of p; which factor depends on whether p leaves in the same PoP. Sums leave out one
/// path or one PoP: they are added from both sides, never subtracted, so that a dominating path
/// does not swallow the digits of the others.
fn synthetic(
    instance: &Instance,
    profile: &Synthetic,
    ingress: usize,
    buckets: &mut Buckets,
    matches: &mut [f64],
    bytes: &mut [f64],
) {
    let whole = &instance.ingresses[ingress];
    let gamma = profile.gamma_of(whole.node);
    let factors = |path: &crate::Path| {
        let redundant = gamma * path.volume;
        let beside = if path.alone_in_pop { 0.0 } else { path.pop_volume - path.volume };
        let beyond = if whole.one_pop { 0.0 } else { whole.volume - path.pop_volume };
        let in_pop = redundant * profile.intrapop * (1.0 - profile.intrapath);
        let in_others = redundant * (1.0 - profile.intrapop);
        let own = redundant * profile.intrapop * profile.intrapath;
        Factors {
            own: own
                + if beside > 0.0 { 0.0 } else { in_pop }
                + if beyond > 0.0 { 0.0 } else { in_others },
            pop: if beside > 0.0 { in_pop / beside } else { 0.0 },
            others: if beyond > 0.0 { in_others / beyond } else { 0.0 },
        }
    };
    buckets.fill(instance, ingress);
    let Buckets { start, members, touched, before } = buckets;
    let path_of = |member: &Member| &instance.paths[member.path as usize];
    let mut from = 0;
    for &device in &*touched {
        let to = std::mem::take(&mut start[device]) as usize;
        let here = &members[from..to];
        from = to;
        // Other PoPs: what those before it have, then from the back what those behind it have.
        let pops = || here.chunk_by(|a, b| path_of(a).pop == path_of(b).pop);
        let others =
            |pop: &[Member]| pop.iter().map(|member| factors(path_of(member)).others).sum::<f64>();
        before.clear();
        let mut sum = 0.0;
        for pop in pops() {
            before.push(sum);
            sum += others(pop);
        }
        let mut behind = 0.0;
        let mut end = here.len();
        for beyond in before.iter_mut().rev() {
            *beyond += behind;
            let pop = path_of(&here[end - 1]).pop;
            let begin = here[..end]
                .iter()
                .rposition(|member| path_of(member).pop != pop)
                .map_or(0, |at| at + 1);
            behind += others(&here[begin..end]);
            end = begin;
        }
        for (pop, beyond) in pops().zip(&*before) {
            let mut sum = 0.0;
            for member in pop {
                bytes[member.hop as usize] = sum;
                sum += factors(path_of(member)).pop;
            }
            let mut behind = 0.0;
            for member in pop.iter().rev() {
                let path = path_of(member);
                let own = factors(path);
                let value = own.own + path.volume * (bytes[member.hop as usize] + behind + beyond);
                behind += own.pop;
                bytes[member.hop as usize] = value;
                matches[member.hop as usize] = value / profile.length;
            }
        }
    }
}

struct Factors {
    own: f64,
    pop: f64,
    others: f64,
}
