//! What happens over time: scheduled events, epochs, new manifests.

use std::sync::Arc;

use oncewire_kernels::random::SplitMix64;

use super::{Carrier, Emulation, Scheduled, planned::fits};
use crate::{
    DeviceId, Error, Match, Measured,
    emulate::{EpochReport, Observed, Report, Rollout},
    engine::{Allocation, Ingress, Route, budgets, ranges_of_devices},
};

impl Emulation<'_> {
    pub(super) fn at(&mut self, time: u64, step: Scheduled) {
        self.ordered += 1;
        self.agenda.insert((time, self.ordered), step);
    }

    pub(super) fn perform(&mut self, time: u64, step: Scheduled) {
        match step {
            Scheduled::Bring(allocation, rollout) => match self.settled {
                Some(settled) => self.at(settled.max(time), Scheduled::Bring(allocation, rollout)),
                None => self.bring(time, allocation, rollout),
            },
            Scheduled::Install { device, version, ranges } => {
                if let Carrier::Planned(planned) = &mut self.carrier {
                    planned.nodes[device].install(version, ranges);
                }
            }
            Scheduled::Switch { ingress, version, allocation, limits } => {
                if let Carrier::Planned(planned) = &mut self.carrier {
                    let paths = self.instance.ingresses[ingress as usize].paths.clone();
                    let rules = self.settings.rules;
                    let of = &mut planned.ingresses[ingress as usize];
                    of.switch(allocation, version, paths, limits, rules);
                }
            }
            Scheduled::Retire { version } => {
                self.settled = None;
                if let Carrier::Planned(planned) = &mut self.carrier {
                    planned.nodes.iter_mut().for_each(|node| node.retire(version));
                }
            }
            Scheduled::Reroute { path, links, notice } => {
                self.routes[path as usize] = Route::new(&links, &self.of_link);
                self.excused |= notice > 0;
                self.at(time.saturating_add(notice), Scheduled::Notice { path });
            }
            // The current route: notice of one change may overtake notice of an earlier one.
            Scheduled::Notice { path } => {
                self.known.set(path, self.routes[path as usize].clone());
                self.rerouted = true;
            }
            Scheduled::Again { ingress, copy } => {
                if let Carrier::Planned(planned) = &mut self.carrier {
                    planned.ingresses[ingress as usize].sent_again(copy);
                }
            }
            Scheduled::Loss(loss) => {
                self.loss = loss;
                self.excused |= loss > 0.0;
            }
        }
    }

    /// Rolls out new manifests: first devices get them, then ingresses use them, then devices
    /// forget the old ones. With any delays, a device has a manifest before an ingress uses it.
    pub(super) fn bring(&mut self, time: u64, allocation: Allocation, rollout: Rollout) {
        let Carrier::Planned(planned) = &mut self.carrier else { return };
        self.versions += 1;
        self.report.updates += 1;
        let version = self.versions;
        let expected = allocation.expect(self.instance, self.settings.rules);
        let limits = budgets(self.instance, &expected, self.settings.shed);
        planned.expect(expected);
        let allocation = Arc::new(allocation);
        let mut delays = SplitMix64(self.settings.seed ^ u64::from(version) << 32);
        let installed = time.saturating_add(rollout.stagger);
        let ranges = ranges_of_devices(self.instance, &allocation, self.settings.rules);
        for (device, ranges) in DeviceId::all().zip(ranges) {
            let at = time.saturating_add(delays.below(rollout.stagger.saturating_add(1)));
            self.at(at, Scheduled::Install { device, version, ranges });
        }
        for (ingress, limits) in limits.into_iter().enumerate() {
            let at = installed.saturating_add(delays.below(rollout.transition.max(1)));
            self.at(
                at,
                Scheduled::Switch {
                    ingress: ingress as u32,
                    version,
                    allocation: allocation.clone(),
                    limits,
                },
            );
        }
        let settled = installed.saturating_add(rollout.transition);
        self.settled = Some(settled);
        self.at(settled, Scheduled::Retire { version });
    }

    pub(super) fn end_epoch(&mut self) -> Result<(), Error> {
        let mut current = self.current;
        let mut report = std::mem::take(&mut self.report);
        self.account_epoch(&mut report, &mut current);
        self.report = report;
        self.current = EpochReport::default();
        self.operations.fill((0, 0));
        self.observed.epochs += 1;
        match &mut self.carrier {
            Carrier::Planned(planned) => {
                planned.ingresses.iter_mut().for_each(Ingress::new_epoch);
                for (ingress, seen) in planned.ingresses.iter_mut().zip(&mut self.observed.bytes) {
                    for (pair, found) in std::mem::take(&mut ingress.pairs) {
                        seen.1 += found.1 as f64;
                        let sum = self.observed.pairs.entry(pair).or_default();
                        sum.0 += found.0;
                        sum.1 += found.1;
                    }
                }
            }
            Carrier::Links { pairs, .. } => {
                pairs.iter_mut().flatten().for_each(|pair| pair.new_epoch())
            }
        }
        self.reconsider()?;
        self.observed.bytes.fill((0.0, 0.0));
        Ok(())
    }

    pub(super) fn account_epoch(&self, report: &mut Report, current: &mut EpochReport) {
        current.epoch = self.epoch;
        for ((device, &(limit, _)), &(cached, decoded)) in
            report.devices.iter_mut().zip(&self.limits).zip(&self.operations)
        {
            let operations = cached + decoded;
            device.most_operations = device.most_operations.max(operations);
            device.overloaded += u64::from(operations as f64 > limit);
            current.cached += cached;
            current.decoded += decoded;
            if operations > 0 {
                current.busiest = current.busiest.max(operations as f64 / limit);
            }
        }
        if current.packets > 0 {
            report.epochs.push(*current);
        }
    }

    /// Makes new manifests if it is time, or if traffic or routes have changed.
    pub(super) fn reconsider(&mut self) -> Result<(), Error> {
        let settings = self.settings.replanning;
        let due = settings.every > 0 && self.observed.epochs >= settings.every;
        // Caches fill in the first epoch.
        self.since += 1;
        if self.since == 2 {
            for (seen, planned) in self.observed.bytes.iter().zip(&mut self.reference) {
                planned.1 = Some(seen.1);
            }
        }
        let far = |(seen, planned): (&(f64, f64), &(f64, Option<f64>))| {
            let by = (seen.0 - planned.0)
                .abs()
                .max(planned.1.map_or(0.0, |matched| (seen.1 - matched).abs()));
            settings.change.is_some_and(|change| by > change * planned.0)
        };
        let changed = self
            .observed
            .bytes
            .iter()
            .zip(&self.reference)
            .position(far)
            .map(|ingress| ingress as u32);
        if self.replanner.is_none() || !(due || changed.is_some() || self.rerouted) {
            return Ok(());
        }
        let epochs = self.observed.epochs as f64;
        let observed = Observed {
            epoch: self.epoch,
            volumes: self.observed.volumes.iter().map(|bytes| bytes / epochs).collect(),
            profile: self.profile(),
            changed,
            routes: (0..)
                .zip(self.known.iter().zip(&self.instance.paths))
                .filter(|(_, (known, planned))| known.links != planned.links)
                .map(|(path, (known, _))| (path, known.links.clone()))
                .collect(),
        };
        self.rerouted = false;
        self.reference = self.observed.bytes.iter().map(|seen| (seen.0, None)).collect();
        self.since = 0;
        self.observed.epochs = 0;
        self.observed.volumes.fill(0.0);
        self.observed.pairs.clear();
        let Some(replanner) = &mut self.replanner else { return Ok(()) };
        if let Some(allocation) = replanner.replan(&observed)? {
            fits(self.instance, &allocation)?;
            let end = (self.epoch + 1).saturating_mul(self.epoch_length);
            self.at(
                end.saturating_add(settings.delay),
                Scheduled::Bring(allocation, settings.rollout),
            );
        }
        Ok(())
    }

    /// Matches that ingresses found since their last report, per epoch.
    pub(super) fn profile(&self) -> Measured {
        let Carrier::Planned(planned) = &self.carrier else { return Measured::default() };
        let mut sums = self.observed.pairs.clone();
        let current = planned.ingresses.iter().flat_map(|ingress| &ingress.pairs);
        let mut epochs = self.observed.epochs;
        for (&pair, found) in current {
            let sum = sums.entry(pair).or_default();
            sum.0 += found.0;
            sum.1 += found.1;
        }
        // The current epoch counts as a whole one if it has packets.
        epochs += u64::from(self.current.packets > 0);
        let pairs = sums.into_iter().filter_map(|((p, q), (count, bytes))| {
            let ingress = &planned.ingresses[self.instance.paths[p as usize].ingress as usize];
            let covered = ingress
                .allocation
                .shares(q)
                .last()
                .map_or(0.0, |last| last.to as f64 / 4_294_967_296.0);
            let length = (bytes as f64 / count as f64).min(self.instance.mss.0);
            (covered > 0.0).then(|| {
                (p, q, Match { count: count as f64 / epochs.max(1) as f64 / covered, length })
            })
        });
        // These are matches with the best copies, not with the first.
        Measured { pairs: pairs.collect(), copies: 0.0 }
    }
}
