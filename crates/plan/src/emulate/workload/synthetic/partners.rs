//! Which path a match refers to, drawn in proportion to the profile.

use oncewire_kernels::random::Xoshiro;

use crate::{Instance, Profile};

/// Which path a region of a path repeats: q with a probability in proportion to match(p, q) times
/// q's weight.
pub(super) enum Partners {
    /// Of a measured profile: sums of the pairs' weights up to each, path by path.
    Pairs(Vec<f64>),
    /// Of a synthetic profile, where all but p's own part goes by volume.
    Classes(Classes),
}

/// Per ingress, paths sorted by PoP with sums of volume times weight.
pub(super) struct Classes {
    /// Paths, those of one ingress together, sorted by PoP.
    order: Vec<u32>,
    /// Where a path stands in `order`.
    place: Vec<u32>,
    /// Places of the paths of the same ingress and PoP, per path.
    pop: Vec<(u32, u32)>,
    /// Sum of volume times weight of all before, and of all: one more than there are paths.
    sums: Vec<f64>,
    weights: Vec<f64>,
}

impl Partners {
    pub(super) fn new(instance: &Instance) -> Self {
        let mut partners = match &instance.profile {
            Profile::Measured(_) => Self::Pairs(Vec::new()),
            Profile::Synthetic(_) => {
                let count = instance.paths.len();
                let mut order: Vec<u32> = (0..count as u32).collect();
                order.sort_by_key(|&path| {
                    let path = &instance.paths[path as usize];
                    (path.ingress, path.pop)
                });
                let (mut place, mut pop) = (vec![0; count], vec![(0, 0); count]);
                let mut from = 0;
                let same = |a: &u32, b: &u32| {
                    let (a, b) = (&instance.paths[*a as usize], &instance.paths[*b as usize]);
                    (a.ingress, a.pop) == (b.ingress, b.pop)
                };
                for group in order.chunk_by(same) {
                    let to = from + group.len() as u32;
                    for (&path, at) in group.iter().zip(from..) {
                        place[path as usize] = at;
                        pop[path as usize] = (from, to);
                    }
                    from = to;
                }
                Self::Classes(Classes { order, place, pop, sums: Vec::new(), weights: Vec::new() })
            }
        };
        partners.weigh(instance, &vec![1.0; instance.paths.len()]);
        partners
    }

    /// Takes over other weights.
    pub(super) fn weigh(&mut self, instance: &Instance, weights: &[f64]) {
        let mut sum = 0.0;
        match (self, &instance.profile) {
            (Self::Pairs(sums), Profile::Measured(profile)) => {
                sums.clear();
                sums.extend(profile.pairs.iter().map(|pair| {
                    sum += pair.2.count * weights[pair.1 as usize];
                    sum
                }));
            }
            (Self::Classes(classes), _) => {
                classes.weights = weights.to_vec();
                classes.sums.clear();
                classes.sums.push(0.0);
                classes.sums.extend(classes.order.iter().map(|&path| {
                    sum += instance.paths[path as usize].volume * weights[path as usize];
                    sum
                }));
            }
            (Self::Pairs(_), Profile::Synthetic(_)) => {}
        }
    }

    /// Matches of a path per epoch, with all.
    pub(super) fn count(&self, instance: &Instance, path: usize) -> f64 {
        match (self, &instance.profile) {
            (Self::Classes(classes), _) => {
                let (own, beside, beyond) = classes.parts(instance, path);
                own + beside + beyond
            }
            (_, Profile::Measured(profile)) => {
                profile.of_path(path as u32).iter().map(|pair| pair.2.count).sum()
            }
            _ => 0.0,
        }
    }

    /// A path q, and the mean length of matches with it; none if `path` matches nothing.
    pub(super) fn draw(
        &self,
        instance: &Instance,
        path: usize,
        random: &mut Xoshiro,
    ) -> Option<(u32, f64)> {
        let other = match (self, &instance.profile) {
            (Self::Pairs(sums), Profile::Measured(profile)) => {
                let from = profile.pairs.partition_point(|pair| pair.0 < path as u32);
                let to = from + profile.of_path(path as u32).len();
                let before = if from == 0 { 0.0 } else { sums[from - 1] };
                if from == to || sums[to - 1] <= before {
                    return None;
                }
                let value = before + random.unit() * (sums[to - 1] - before);
                let at = from + sums[from..to].partition_point(|&sum| sum <= value);
                profile.pairs[at.min(to - 1)].1
            }
            (Self::Classes(classes), _) => classes.draw(instance, path, random)?,
            (Self::Pairs(_), Profile::Synthetic(_)) => return None,
        };
        let found = instance.matches(path, other as usize);
        (found.count > 0.0).then_some((other, found.length))
    }
}

impl Classes {
    /// Places of the paths of `path`'s ingress. Those of ingresses follow one another in `order` as
    /// in the instance.
    pub(super) fn ingress(&self, instance: &Instance, path: usize) -> (usize, usize) {
        let range = instance.paths_of(instance.paths[path].ingress as usize);
        (range.start, range.end)
    }

    /// Matches per epoch of the three parts of a path: with itself, beside it in its PoP, beyond;
    /// times weights.
    pub(super) fn parts(&self, instance: &Instance, path: usize) -> (f64, f64, f64) {
        let (from, to) = self.ingress(instance, path);
        let (pop_from, pop_to) = (self.pop[path].0 as usize, self.pop[path].1 as usize);
        let sum = |from: usize, to: usize| self.sums[to] - self.sums[from];
        // All in a class match in proportion to their volumes: any of them tells how much.
        let per_byte = |other: u32| {
            instance.matches(path, other as usize).count / instance.paths[other as usize].volume
        };
        let place = self.place[path] as usize;
        let beside = (pop_from..pop_to).find(|&at| at != place).map_or(0.0, |at| {
            let others = sum(pop_from, place) + sum(place + 1, pop_to);
            per_byte(self.order[at]) * others
        });
        let beyond = (from < pop_from).then_some(from).or((pop_to < to).then_some(pop_to)).map_or(
            0.0,
            |at| {
                let others = sum(from, pop_from) + sum(pop_to, to);
                per_byte(self.order[at]) * others
            },
        );
        (instance.matches(path, path).count * self.weights[path], beside, beyond)
    }

    pub(super) fn draw(
        &self,
        instance: &Instance,
        path: usize,
        random: &mut Xoshiro,
    ) -> Option<u32> {
        let (own, beside, beyond) = self.parts(instance, path);
        let value = random.unit() * (own + beside + beyond);
        let (from, to) = self.ingress(instance, path);
        let (pop_from, pop_to) = (self.pop[path].0 as usize, self.pop[path].1 as usize);
        let place = self.place[path] as usize;
        let without = if own + beside + beyond <= 0.0 {
            return None;
        } else if value < own {
            return Some(path as u32);
        } else if value < own + beside {
            ((pop_from, place), (place + 1, pop_to))
        } else {
            ((from, pop_from), (pop_to, to))
        };
        let ((a, b), (c, d)) = without;
        let (first, second) = (self.sums[b] - self.sums[a], self.sums[d] - self.sums[c]);
        let value = random.unit() * (first + second);
        let (from, to, value) = if value < first && a < b || c == d {
            (a, b, self.sums[a] + value)
        } else {
            (c, d, self.sums[c] + (value - first))
        };
        let at = from + self.sums[from + 1..=to].partition_point(|&sum| sum <= value);
        Some(self.order[at.min(to - 1)])
    }
}
