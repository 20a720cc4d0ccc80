//! One pass over a trace: everything that measures packets, a batch at a time.

use super::curve::DistanceCurve;
use super::doubled::Doubled;
use super::plan::{Key, Part};
use super::population::Population;
use super::sizes::FlowSizes;
use super::verdict::share;
use super::{BATCH_BYTES, MatchSink, StudyError};
use crate::algorithm::{Algorithm, MAX_SERVICES, MaxMatchRun, Outcome, Run};
use crate::batch::{Batch, Caches, Direction, Matches, Packet, View};
use crate::figures::{self, FigureId, Finding, Observer};
use crate::results::{MatchRow, Progress};
use crate::settings::Settings;
use oncewire_codec::ConfigError;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Wire bytes, payload bytes and packets of something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Volume {
    pub(super) packets: u64,
    pub(super) wire: u64,
    pub(super) payload: u64,
}

impl Volume {
    pub(super) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.wire += u64::from(packet.wire);
        self.payload += u64::from(packet.len);
    }
}

/// One pass over the trace: everything that measures packets, a batch at a time.
pub(super) struct Pass {
    pub(super) settings: Arc<Settings>,
    pub(super) pool: rayon::ThreadPool,
    pub(super) caches: Caches,
    /// Only in the first part, as are figures.
    pub(super) reference: Option<MaxMatchRun>,
    pub(super) matches: Matches,
    pub(super) runs: Vec<(Key, Box<dyn Run>)>,
    pub(super) outcomes: BTreeMap<Key, Outcome>,
    pub(super) observers: Vec<(FigureId, Box<dyn Observer>)>,
    /// The observed figures, once the trace has ended.
    pub(super) findings: Vec<(FigureId, Finding)>,
    pub(super) by_distance: DistanceCurve,
    pub(super) volumes: [Volume; Direction::ALL.len()],
    /// Bytes on the wire in transit: of IPv4, of IPv6.
    pub(super) transit: [u64; 2],
    pub(super) flow_sizes: FlowSizes,
    pub(super) doubled: Doubled,
    pub(super) population: Population,
    pub(super) services: HashMap<(u8, u16), Volume>,
    pub(super) sink: Option<MatchSink>,
    pub(super) rows: Vec<MatchRow>,
}

impl Pass {
    pub(super) fn new(
        settings: Arc<Settings>,
        part: Part,
        sink: Option<MatchSink>,
    ) -> Result<Pass, StudyError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(settings.threads)
            .thread_name(|n| format!("study-{n}"))
            .build();
        let pool = pool.map_err(|error| StudyError::Threads(error.to_string()))?;
        let Part { mut keys, first } = part;
        let reach = settings.longest_reach(&keys, first);
        let caches = Caches::new(reach, BATCH_BYTES + (64 << 10))?;
        let key = settings.reference();
        let Key::MaxMatch { sampler, period, cache } = key else {
            unreachable!("the reference is a max-match")
        };
        let reference = settings.max_match_run(sampler, period, cache);
        // Fails before a packet is read.
        reference.check()?;
        keys.remove(&key);
        let mut pass = Pass {
            pool,
            caches,
            reference: first.then_some(reference),
            matches: Matches::default(),
            outcomes: BTreeMap::new(),
            runs: keys.iter().map(|key| (key.clone(), settings.run(key))).collect(),
            observers: Vec::new(),
            findings: Vec::new(),
            volumes: Default::default(),
            transit: [0; 2],
            flow_sizes: FlowSizes::new(settings.smaller_caches().into_iter()),
            by_distance: DistanceCurve::new(settings.smaller_caches()),
            doubled: Doubled::new(),
            population: Population::new(),
            services: HashMap::new(),
            sink,
            rows: Vec::new(),
            settings,
        };
        if first {
            // The verdict reads what cannot be reduced.
            let mut figures = pass.settings.figures.clone();
            figures.insert(FigureId::Irreducible);
            let observers = figures.into_iter().filter_map(|id| Some((id, pass.observer(id)?)));
            pass.observers = observers.collect();
        }
        Ok(pass)
    }

    /// What the products saved so far.
    pub(super) fn progress(&self) -> Progress {
        let wire = self.wire();
        let of = |algorithm| {
            let run = self.runs.iter().find(|(key, _)| *key == Key::Other(algorithm));
            run.and_then(|(_, run)| share(run.tally().total(), wire)).unwrap_or(0.0)
        };
        let (tunnel, packet_link) = (of(Algorithm::Tunnel), of(Algorithm::Packets));
        Progress { wire_bytes: wire, tunnel, packet_link }
    }

    fn observer(&self, figure: FigureId) -> Option<Box<dyn Observer>> {
        let Settings { figure_memory: memory, prefixes, .. } = &*self.settings;
        Some(match figure {
            FigureId::Temporal => Box::new(figures::temporal::Temporal::new(*memory)),
            FigureId::Http => Box::new(figures::http::Http::new(*memory)),
            FigureId::Origins => Box::new(figures::origins::Origins::new(*memory)),
            FigureId::Lengths => Box::new(figures::lengths::Lengths::new(*memory)),
            FigureId::Locality => Box::new(figures::locality::Locality::new(*memory)),
            FigureId::Hits => Box::new(figures::hits::Hits::new(*memory)),
            FigureId::Replicated => {
                let replicated = figures::replicated::Replicated::new(*memory);
                match self.settings.sweeps {
                    true => Box::new(replicated.with_prototype()),
                    false => Box::new(replicated),
                }
            }
            FigureId::Hosts => Box::new(self.settings.hosts(*memory)),
            FigureId::Destinations => Box::new(figures::destinations::Destinations::new(
                *memory,
                prefixes.clone().unwrap_or_default(),
            )),
            FigureId::Irreducible => Box::new(figures::irreducible::Irreducible::new(*memory)),
            FigureId::Top => Box::new(figures::top::Top::new(*memory, self.settings.show_content)),
            FigureId::Algorithms
            | FigureId::Periods
            | FigureId::Caches
            | FigureId::Protocols
            | FigureId::Deflate => {
                return None;
            }
        })
    }

    pub(super) fn batch(&mut self, batch: &mut Batch) -> Result<(), StudyError> {
        self.caches.append(batch)?;
        for packet in batch.packets() {
            self.volumes[packet.direction.index()].add(packet);
            self.doubled.packet(packet, batch.payload(packet));
            self.population.packet(packet);
            if let Some(flow) = &packet.flow {
                if packet.direction == Direction::Transit {
                    let is_ipv6 = flow.source.to_canonical().is_ipv6();
                    self.transit[usize::from(is_ipv6)] += u64::from(packet.wire);
                }
                self.flow_sizes
                    .add(packet.flow_hash, u64::from(packet.len) + u64::from(packet.missing));
                let mut key = (flow.protocol, packet.service);
                if self.services.len() >= MAX_SERVICES && !self.services.contains_key(&key) {
                    key.1 = 0;
                }
                self.services.entry(key).or_default().add(packet);
            }
        }
        let Pass { pool, caches, reference, matches, by_distance, .. } = self;
        let Pass { runs, observers, settings, .. } = self;
        pool.install(|| -> Result<(), ConfigError> {
            if let Some(reference) = reference {
                reference.find_all(batch, caches, matches)?;
                for (index, packet) in batch.packets().iter().enumerate() {
                    by_distance.add(packet, matches.of(index), settings.charge());
                }
            }
            let view = View {
                batch,
                caches,
                matches,
                charge: settings.charge(),
                cache: settings.cache.max(1),
            };
            let (outcome, ()) = rayon::join(
                || runs.par_iter_mut().with_max_len(1).try_for_each(|(_, run)| run.batch(&view)),
                || {
                    observers
                        .par_iter_mut()
                        .with_max_len(1)
                        .for_each(|(_, observer)| observer.batch(&view))
                },
            );
            outcome
        })?;
        self.write_matches(batch)
    }

    /// Passes the batch's matches to the sink.
    fn write_matches(&mut self, batch: &Batch) -> Result<(), StudyError> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let Pass { caches, matches, rows, settings, .. } = self;
        let view =
            View { batch, caches, matches, charge: settings.charge(), cache: settings.cache };
        rows.clear();
        for (index, packet) in batch.packets().iter().enumerate() {
            let Some(flow) = packet.flow else { continue };
            rows.extend(matches.of(index).iter().map(|found| MatchRow {
                time: packet.time,
                direction: packet.direction.name(),
                source: flow.source,
                destination: flow.destination,
                source_port: flow.source_port,
                destination_port: flow.destination_port,
                protocol: flow.protocol,
                packet_length: packet.len,
                length: found.len,
                distance: view.distance(packet, found),
                origin: figures::origins::origin_name(
                    &flow,
                    view.origin(packet, found).map(|cached| &cached.flow),
                ),
            }));
        }
        sink(rows).map_err(StudyError::Matches)
    }

    pub(super) fn finish(&mut self) -> Result<(), StudyError> {
        self.flow_sizes.finish();
        // Drops their tables.
        for (key, mut run) in self.runs.drain(..) {
            run.finish()?;
            self.outcomes.insert(key, Outcome::of(&*run));
        }
        if let Some(reference) = self.reference.take() {
            self.outcomes.insert(self.settings.reference(), Outcome::of(&reference));
        }
        let observers = self.observers.drain(..);
        self.findings = observers.map(|(id, observer)| (id, observer.finish())).collect();
        Ok(())
    }
}
