//! Schemes that stand beside the routes: the thesis's SP-Optimal and RA-Heuristic (section 6.5,
//! "Multiple Ingresses, Traffic Engineering").

use oncewire_kernels::random::SplitMix64;

use crate::{
    Error, LinkId, Network, NodeId, Watch,
    ra::{Class, Classes, Routes, Slice},
};

/// Content without anything shared: every copy on its own.
pub(crate) fn plain(classes: &Classes) -> Classes {
    // By node: a map would take most of the time of the whole, at millions of classes.
    let mut single: Vec<f64> = Vec::new();
    classes.visit(|egresses, bytes, copies| {
        for (&egress, copies) in egresses.iter().zip(copies) {
            if single.len() <= egress.index() {
                single.resize(egress.index() + 1, 0.0);
            }
            single[egress] += bytes * copies;
        }
    });
    let class = |(egress, bytes)| Class { egresses: [egress].into(), bytes, copies: [1.0].into() };
    let single = NodeId::all().zip(single).filter(|&(_, bytes)| bytes > 0.0);
    Classes::Listed(single.map(class).collect())
}

/// Bytes on each link as the thesis counts them on split routes: a link carries of a class the
/// largest of its egresses' fractions, as if packets to all of them split alike on every link. No
/// forwarding does that in general; [`super::judge`] counts what slices carry.
///
/// # Errors
/// [`Error::Stopped`].
pub(crate) fn ideal(
    network: &Network,
    ingresses: &[(NodeId, Classes)],
    routes: &Routes,
    eliminates: &[bool],
    watch: &dyn Watch,
) -> Result<Vec<f64>, Error> {
    let mut loads = vec![0.0; network.links.len()];
    for (ingress, classes) in ingresses {
        watch.proceed()?;
        let mut fractions: Vec<Vec<(LinkId, f64)>> = vec![Vec::new(); network.nodes.len()];
        for slice in routes.of(*ingress) {
            for (egress, path) in &slice.paths {
                for &link in path {
                    match fractions[*egress].iter_mut().find(|(other, _)| *other == link) {
                        Some((_, part)) => *part += slice.weight,
                        None => fractions[*egress].push((link, slice.weight)),
                    }
                }
            }
        }
        let mut most = vec![0.0_f64; network.links.len()];
        for class in classes.list() {
            for (&egress, copies) in class.egresses.iter().zip(&class.copies) {
                for &(link, part) in &fractions[egress] {
                    if eliminates[link] {
                        most[link] = most[link].max(part);
                    } else {
                        loads[link] += class.bytes * copies * part;
                    }
                }
            }
            for &egress in &class.egresses {
                for &(link, _) in &fractions[egress] {
                    loads[link] += class.bytes * std::mem::take(&mut most[link]);
                }
            }
        }
    }
    Ok(loads)
}

/// Equal parts of a class that take routes on their own.
const PARTS: u32 = 16;

/// Bytes on each link if every packet chooses among the paths to its egress (RA-Heuristic): the
/// first of equal packets takes the path that is furthest behind its fraction, the others the one
/// that has most of its cost in common with where equal packets went. No path gets more than its
/// fraction. Packets of a flow may overtake each other.
///
/// # Errors
/// [`Error::Stopped`].
pub(crate) fn packets(
    network: &Network,
    ingresses: &[(NodeId, Classes)],
    routes: &Routes,
    eliminates: &[bool],
    costs: &[f64],
    watch: &dyn Watch,
) -> Result<Vec<f64>, Error> {
    struct Choice<'a> {
        links: &'a [LinkId],
        fraction: f64,
        bytes: f64,
    }
    let mut loads = vec![0.0; network.links.len()];
    for (ingress, classes) in ingresses {
        watch.proceed()?;
        let classes = classes.list();
        let mut choices: Vec<Vec<Choice<'_>>> = Vec::new();
        choices.resize_with(network.nodes.len(), Vec::new);
        let slices: Vec<&Slice> = routes.of(*ingress).collect();
        for slice in &slices {
            for (egress, links) in &slice.paths {
                let known = &mut choices[*egress];
                match known.iter_mut().find(|choice| choice.links == links) {
                    Some(choice) => choice.fraction += slice.weight,
                    None => known.push(Choice { links, fraction: slice.weight, bytes: 0.0 }),
                }
            }
        }
        let mut sent = vec![0.0; network.nodes.len()];
        for class in &classes {
            for (&egress, copies) in class.egresses.iter().zip(&class.copies) {
                sent[egress] += class.bytes * copies;
            }
        }
        // Packets come mixed.
        let mut order: Vec<usize> = (0..classes.len() * PARTS as usize).collect();
        let mut random = SplitMix64(1);
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut on = vec![false; network.links.len()];
        let mut used: Vec<LinkId> = Vec::new();
        for packet in order {
            let class = &classes[packet / PARTS as usize];
            let bytes = class.bytes / f64::from(PARTS);
            used.clear();
            // Whichever of the copies comes first.
            let turn = packet % class.egresses.len();
            for step in 0..class.egresses.len() {
                let at = (turn + step) % class.egresses.len();
                let (egress, copies) = (class.egresses[at], class.copies[at]);
                let options = &mut choices[egress];
                let left = |choice: &Choice<'_>| choice.fraction * sent[egress] - choice.bytes;
                let overlap = |choice: &Choice<'_>| -> f64 {
                    let common = choice.links.iter().filter(|&&link| on[link]);
                    common.map(|&link| costs[link]).sum()
                };
                let key = |choice: &Choice<'_>| {
                    let open = left(choice) >= bytes * copies / 2.0;
                    let common = if step == 0 { 0.0 } else { overlap(choice) };
                    (open, common, left(choice))
                };
                let best = (0..options.len()).reduce(|best, other| {
                    let (one, two) = (key(&options[best]), key(&options[other]));
                    let order = two
                        .0
                        .cmp(&one.0)
                        .then(two.1.total_cmp(&one.1))
                        .then(two.2.total_cmp(&one.2));
                    if order.is_gt() { other } else { best }
                });
                let Some(choice) = best.map(|best| &mut options[best]) else { continue };
                choice.bytes += bytes * copies;
                for &link in choice.links {
                    if !eliminates[link] {
                        loads[link] += bytes * copies;
                    } else if !on[link] {
                        on[link] = true;
                        used.push(link);
                        loads[link] += bytes;
                    }
                }
            }
            used.iter().for_each(|&link| on[link] = false);
        }
    }
    Ok(loads)
}
