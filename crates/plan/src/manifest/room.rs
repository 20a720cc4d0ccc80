//! How much of a solution fits into whole hashes and whole bytes.

use super::{MAX_NUMBER, SPACE, options::Options, range::Range};
use crate::{Instance, Solution, error::Unfit};

/// Tolerance for limits, as a share: solvers compute in floating point.
const TOLERANCE: f64 = 1e-6;

/// Bucket size over d x v at each device and packet store, and the smallest range.
pub(super) struct Room {
    of_device: Vec<f64>,
    of_store: Vec<f64>,
    /// In hashes.
    smallest: u64,
}

impl Room {
    pub(super) fn new(
        instance: &Instance,
        solution: &Solution,
        options: &Options,
        names: &[String],
    ) -> Result<Self, Unfit> {
        // d x v of each device and packet store, before any rounding down.
        let mut at_device = vec![0.0; instance.devices.len()];
        let mut at_store = vec![0.0; instance.store_count()];
        for (number, path) in instance.paths.iter().enumerate() {
            let shares = shares(instance, solution, number)?;
            for (hop, share) in path.hops.iter().zip(shares) {
                at_device[hop.device] += share * path.volume;
                at_store[store_of(instance, path)] += share * path.volume;
            }
        }
        let factor = |name: &str, memory: f64, used: f64| {
            if used > memory * (1.0 + TOLERANCE) {
                return Err(Unfit::Full { name: name.into(), used, memory });
            }
            // Slightly less than what fits, so that no sum of rounded products exceeds it; far
            // below a byte in practice.
            let most =
                if used > 0.0 { memory.floor() / used * (1.0 - 1e-10) } else { f64::INFINITY };
            Ok(if options.headroom <= most { options.headroom } else { most })
        };
        let of_device = instance
            .devices
            .iter()
            .zip(names)
            .zip(&at_device)
            .map(|((device, name), &used)| factor(name, device.memory, used))
            .collect::<Result<_, _>>()?;
        let of_store = instance
            .stores()
            .zip(&at_store)
            .map(|(slices, &used)| {
                let ingress = &instance.ingresses[slices.start];
                let node = &instance.network.nodes[ingress.node].id;
                factor(&format!("the ingress {node}"), ingress.memory, used)
            })
            .collect::<Result<_, _>>()?;
        let smallest = ((options.smallest * SPACE as f64).ceil() as u64).max(1);
        Ok(Self { of_device, of_store, smallest })
    }

    /// The ranges of a path with these shares, in whole hashes.
    pub(super) fn ranges(
        &self,
        instance: &Instance,
        path: usize,
        shares: impl Iterator<Item = f64>,
        names: &[String],
    ) -> Result<Box<[Range]>, Unfit> {
        let path = &instance.paths[path];
        let store = store_of(instance, path);
        let most = (instance.coded(path.ingress as usize) * SPACE as f64) as u64;
        let mut ranges = Vec::new();
        let (mut end, mut at) = (0.0, 0u64);
        for ((hop, share), number) in path.hops.iter().zip(shares).zip(0..) {
            let rounded = ((end + share) * SPACE as f64).round() as u64;
            let to = rounded.min(most);
            if to < at + self.smallest {
                continue;
            }
            let factor = self.of_device[hop.device].min(self.of_store[store]);
            // Buckets are of the exact share, unless the ingress's limit cut the range.
            let exact =
                if rounded <= most { share } else { share.min((to - at) as f64 / SPACE as f64) };
            let bytes = exact * path.volume * factor;
            if bytes > MAX_NUMBER as f64 {
                return Err(Unfit::Bucket { bytes, device: names[hop.device.index()].clone() });
            }
            if bytes < 1.0 {
                continue;
            }
            ranges.push(Range { hop: number, from: at, to, bytes: bytes as u64 });
            (end, at) = (end + share, to);
        }
        Ok(ranges.into())
    }
}

fn store_of(instance: &Instance, path: &crate::Path) -> usize {
    instance.ingresses[path.ingress as usize].store as usize
}

/// d(p, r) of a path's hops, in bounds.
pub(super) fn shares<'a>(
    instance: &Instance,
    solution: &'a Solution,
    path: usize,
) -> Result<impl Iterator<Item = f64> + 'a, Unfit> {
    let shares = solution.of_path(instance, path);
    let coded = instance.coded(instance.paths[path].ingress as usize);
    let most = coded + TOLERANCE;
    if let Some(&share) = shares.iter().find(|&&share| !(share >= -TOLERANCE && share <= most)) {
        return Err(Unfit::Share { share, path });
    }
    let sum: f64 = shares.iter().sum();
    if sum > most {
        return Err(Unfit::Cover { covered: sum, path, coded });
    }
    Ok(shares.iter().map(|share| share.clamp(0.0, 1.0)))
}
