//! Computes the figures that compare algorithms: 1, 2, 3, 5 and 15.

use super::plan::{Key, swept};
use super::verdict::{self, share};
use super::{Pass, Volume};
use crate::algorithm::{Algorithm, Outcome, Tally, TunnelContent};
use crate::batch::Direction;
use crate::figures::algorithms::{AlgorithmRow, AlgorithmSavings, DirectionVolume};
use crate::figures::caches::{CacheSavings, Curve};
use crate::figures::deflate::{DeflateRow, DeflateSavings};
use crate::figures::hosts::HostSavings;
use crate::figures::periods::{PERIODS, PeriodPoint, PeriodSavings};
use crate::figures::protocols::{CHARTED, SERVICES, ServiceRow, ServiceSavings};
use crate::figures::temporal::SavingsOverTime;
use crate::figures::{FigureId, Finding};
use crate::results::{Accounting, Input, Report};
use crate::service;

impl Pass {
    /// Directions with packets.
    fn directions(&self) -> Vec<Direction> {
        Direction::ALL
            .into_iter()
            .filter(|direction| self.volumes[direction.index()].packets > 0)
            .collect()
    }

    pub(super) fn wire(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.wire).sum()
    }

    /// The bytes that the run of a key saved. `None` if it did not run.
    pub(super) fn tally(&self, key: &Key) -> Option<&Tally> {
        self.run(key).map(|run| &run.tally)
    }

    /// What the run of a key saved over time.
    pub(super) fn over_time(&self, key: &Key) -> Option<SavingsOverTime> {
        self.run(key)?.over_time
    }

    /// What the run of a key carried, if it is a tunnel.
    pub(super) fn content(&self, key: &Key) -> Option<&TunnelContent> {
        self.run(key)?.content.as_ref()
    }

    fn run(&self, key: &Key) -> Option<&Outcome> {
        self.outcomes.get(key)
    }

    /// Savings over all wire bytes. `None` if the run did not run or there are no bytes.
    pub(super) fn savings(&self, key: &Key) -> Option<f64> {
        share(self.tally(key)?.total(), self.wire())
    }

    /// The key of the reference algorithm with another cache.
    fn with_cache(&self, cache: u64) -> Key {
        self.settings.max_match(&self.settings.sampler, self.settings.period, cache)
    }

    /// Savings of the reference by cache size, from the distances of its matches. Sizes beyond the
    /// first that holds the trace are left out.
    pub(super) fn curve(&self) -> Curve {
        let wire = self.wire();
        let points = self.by_distance.points();
        let points =
            points.filter_map(|(size, saved)| Some((size, share(saved.iter().sum(), wire)?)));
        self.complete(points.collect())
    }

    /// The same, measured with each size. `None` if the sweep did not run.
    fn measured_curve(&self) -> Option<Curve> {
        let savings = |size| Some((size, self.savings(&self.with_cache(size))?));
        let points: Option<Vec<_>> = self.settings.cache_sizes().into_iter().map(savings).collect();
        points.filter(|_| self.settings.sweeps).map(|points| self.complete(points))
    }

    fn complete(&self, mut points: Vec<(u64, f64)>) -> Curve {
        let most = self.volumes.iter().map(|volume| volume.payload).max().unwrap_or(0);
        let enough = points.iter().position(|&(size, _)| size >= most);
        points.truncate(enough.map_or(usize::MAX, |enough| enough + 1));
        Curve { points, is_complete: enough.is_some() }
    }

    /// All computed figures by number.
    fn findings(&mut self, input: &Input) -> Vec<Finding> {
        let mut observed = std::mem::take(&mut self.findings);
        let mut findings = Vec::new();
        for figure in &self.settings.figures {
            findings.push(match figure {
                FigureId::Algorithms => Finding::Algorithms(self.algorithms()),
                FigureId::Periods => Finding::Periods(self.periods()),
                FigureId::Caches => Finding::Caches(self.by_cache(input)),
                FigureId::Protocols => Finding::Protocols(self.protocols()),
                FigureId::Deflate => Finding::Deflate(self.deflate()),
                _ => match observed.iter().position(|(id, _)| id == figure) {
                    Some(at) => self.beside(observed.remove(at).1),
                    None => continue,
                },
            });
        }
        findings
    }

    /// Adds to figure 12 what gzip saves, which figure 1 measured.
    fn beside(&self, mut found: Finding) -> Finding {
        if let Finding::Hosts(HostSavings { pair_sizes, .. }) = &mut found
            && let Some(others) = &mut pair_sizes.others
        {
            others.gzip = self.tally(&Key::Other(Algorithm::GzipFlow)).map(Tally::total);
        }
        found
    }

    pub(super) fn report(mut self, input: Input, mut accounting: Accounting) -> Report {
        accounting.hosts = self.population.hosts(self.settings.inside.is_some());
        // Of the figures that were not asked for, too.
        let observed: Vec<Finding> = self.findings.iter().map(|(_, found)| found.clone()).collect();
        let findings = self.findings(&input);
        let verdict = verdict::verdict(&self, &input, &accounting, &observed);
        let figures = findings.iter().map(Finding::present).collect();
        Report { input, settings: self.settings.words(), accounting, verdict, figures }
    }

    fn algorithms(&self) -> AlgorithmSavings {
        let settings = &self.settings;
        let directions = self.directions();
        let row = |&algorithm: &Algorithm| {
            let key = settings.key(algorithm);
            let (run, savings) = (self.run(&key)?, self.savings(&key)?);
            let of = |direction: &Direction| {
                share(run.tally.of(*direction), self.volumes[direction.index()].wire)
            };
            Some(AlgorithmRow {
                algorithm,
                savings,
                by_direction: directions.iter().map(of).collect(),
                memory: run.memory,
                notes: run.notes.clone(),
            })
        };
        let volume = |direction: &Direction| {
            let Volume { packets, wire, payload } = self.volumes[direction.index()];
            DirectionVolume { direction: direction.name(), packets, wire, payload }
        };
        AlgorithmSavings {
            algorithms: settings.algorithms.iter().filter_map(row).collect(),
            reference: self.savings(&settings.reference()),
            tunnel: self.savings(&Key::Other(Algorithm::Tunnel)),
            volumes: directions.iter().map(volume).collect(),
            cache: settings.cache,
            window: settings.window,
            period: settings.period,
            shim: settings.shim,
        }
    }

    fn periods(&self) -> PeriodSavings {
        let optimal = Key::Other(Algorithm::Optimal);
        let samplers = swept().map(|sampler| {
            let point = |period| {
                let key = self.settings.max_match(&sampler, period, self.settings.cache);
                let (run, savings) = (self.run(&key)?, self.savings(&key)?);
                Some(PeriodPoint {
                    period,
                    bytes_per_fingerprint: run.bytes_per_fingerprint,
                    savings,
                })
            };
            (sampler.name(), PERIODS.into_iter().filter_map(point).collect())
        });
        PeriodSavings {
            samplers: samplers.into(),
            bound: self.savings(&optimal),
            bound_notes: self.run(&optimal).map(|run| run.notes.clone()).unwrap_or_default(),
        }
    }

    /// Payload of the busiest direction in bytes per second. `None` if the trace has no length, or by
    /// its clocks lasts longer than a year.
    pub(super) fn rate(&self, input: &Input) -> Option<f64> {
        let most =
            self.volumes.iter().map(|volume| volume.payload).max().filter(|&most| most > 0)?;
        let has_length = input.duration > 0.0 && input.duration <= verdict::YEAR;
        has_length.then(|| most as f64 / input.duration)
    }

    fn by_cache(&self, input: &Input) -> CacheSavings {
        let settings = &self.settings;
        let measured = self.measured_curve();
        let is_measured = measured.is_some();
        let curve = measured.unwrap_or_else(|| self.curve());
        let mut directions = self.directions();
        if directions.len() < 2 {
            directions.clear();
        }
        let by_distance = |direction: Direction, size| {
            let (_, saved) = self.by_distance.points().find(|&(of, _)| of == size)?;
            Some(saved[direction.index()])
        };
        let savings = |direction: Direction, size| {
            let saved = match is_measured {
                true => self.tally(&self.with_cache(size)).map(|tally| tally.of(direction)),
                false => by_distance(direction, size),
            };
            share(saved?, self.volumes[direction.index()].wire)
        };
        let of = |direction: Direction| {
            (
                direction.name(),
                curve.points.iter().map(|&(size, _)| savings(direction, size)).collect(),
            )
        };
        CacheSavings {
            directions: directions.into_iter().map(of).collect(),
            curve,
            sampler: settings.sampler.name(),
            rate: self.rate(input),
            is_measured,
        }
    }

    fn deflate(&self) -> DeflateSavings {
        let outcome = |algorithm| self.run(&Key::Other(algorithm));
        let (with, without) = (outcome(Algorithm::Tunnel), outcome(Algorithm::TunnelBytes));
        let content = |of: Option<&Outcome>| {
            of.and_then(|outcome| outcome.content.clone()).unwrap_or_default()
        };
        let (opened, closed) = (content(with), content(without).services);
        let mut services: Vec<DeflateRow> = opened
            .services
            .iter()
            .map(|(key, with)| DeflateRow {
                label: service::label(key.0, key.1),
                content: with.content,
                deflate: (with.opened + with.passed).min(with.content),
                sent: with.sent,
                sent_closed: closed.get(key).map_or(with.content, |without| without.sent),
            })
            .collect();
        services.sort_by(|a, b| {
            b.deflate.cmp(&a.deflate).then(b.content.cmp(&a.content)).then(a.label.cmp(&b.label))
        });
        let wire = self.wire();
        let share_of = |of: Option<&Outcome>| share(of?.tally.total(), wire);
        let mut total = DeflateRow { label: "all".into(), ..DeflateRow::default() };
        for row in &services {
            total.content += row.content;
            total.deflate += row.deflate;
            total.sent += row.sent;
            total.sent_closed += row.sent_closed;
        }
        let all_services = services.len();
        services.truncate(SERVICES);
        DeflateSavings {
            services,
            all_services,
            total,
            streams: opened.streams,
            wire,
            savings: share_of(with),
            savings_closed: share_of(without),
            memory: with.into_iter().chain(without).map(|outcome| outcome.memory).sum(),
        }
    }

    fn protocols(&self) -> ServiceSavings {
        let mut services: Vec<_> = self.services.iter().collect();
        services.sort_by(|a, b| b.1.wire.cmp(&a.1.wire).then(a.0.cmp(b.0)));
        let Some(reference) = self.tally(&self.settings.reference()) else {
            unreachable!("the reference always runs")
        };
        let sizes = self.settings.cache_sizes();
        let row = |(place, (key, volume)): (usize, &(&(u8, u16), &Volume))| {
            let by_cache = sizes.iter().filter(|_| place < CHARTED).filter_map(|&size| {
                let tally = self.tally(&self.with_cache(size))?;
                Some((size as f64, share(tally.of_service(**key), volume.wire)?))
            });
            ServiceRow {
                label: service::label(key.0, key.1),
                packets: volume.packets,
                wire: volume.wire,
                payload: volume.payload,
                saved: reference.of_service(**key),
                by_cache: by_cache.collect(),
            }
        };
        let best =
            services.iter().enumerate().max_by_key(|(_, (key, _))| reference.of_service(**key));
        ServiceSavings {
            services: services.iter().enumerate().take(SERVICES).map(row).collect(),
            all_services: services.len(),
            best: best.map(row).filter(|best| best.saved > 0),
            wire: self.wire(),
            saved: reference.total(),
            over_time: self.population.shares(),
        }
    }
}
