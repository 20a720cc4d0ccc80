//! The emulated network.

mod carry;
mod planned;
mod updates;

use std::{collections::BTreeMap, sync::Arc};

use oncewire_kernels::random::SplitMix64;
use planned::{Carrier, Planned, fits, limits_of_links};

use super::{
    Change, DeviceReport, EpochReport, Event, IngressReport, Replanner, Replanning, Report,
    Rollout, Traffic,
    link::{Limits, Pair},
};
use crate::{
    DeviceId, Error, Instance, LinkId, Watch,
    engine::{
        Allocation, Budget, Extension, Finding, Format, HeaderHasher, MAX_COPIES, MAX_MATCHES,
        MAX_PAYLOAD, Packet, Pairs, Ranges, Route, Routes, Rules, check_route,
    },
    error::EmulationError,
};

/// How packets are carried.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheme {
    /// As these manifests say: SmartRE, and all that is a choice of ranges (edge-only, the
    /// heuristics).
    Planned(Allocation),
    /// An encoder and a decoder at the ends of each link that has a device, within the devices'
    /// limits.
    HopByHop,
    /// The same on every link, without limits but [`Settings::unlimited`].
    Ideal,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the header hash, the losses and the times of a rollout.
    pub seed: u64,
    /// Which fields the header hash covers.
    pub extension: Extension,
    /// The shim.
    pub format: Format,
    /// How matches are found.
    pub finding: Finding,
    /// Rules of caching and of references. For pairs on links, only copies matter.
    pub rules: Rules,
    /// Probability that a link loses a packet.
    pub loss: f64,
    /// Whether ingresses stop loading devices that have no operations left.
    pub shed: bool,
    /// Bytes of a cache without limit.
    pub unlimited: u64,
    /// When new manifests are made, if there is a [`Replanner`].
    pub replanning: Replanning,
    /// Nanoseconds after which hosts send a packet again that was lost or could not be decoded, and
    /// its ingress sees that. The packets sent again are not carried, but count in
    /// [`Report::resent`].
    pub round_trip: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            extension: Extension::default(),
            format: Format::default(),
            finding: Finding::default(),
            rules: Rules::default(),
            loss: 0.0,
            shed: true,
            unlimited: 256 << 20,
            replanning: Replanning::default(),
            round_trip: 200_000_000,
        }
    }
}

impl Settings {
    /// The hash by which packets of the run are told apart.
    pub fn header_hash(&self) -> HeaderHasher {
        HeaderHasher { seed: self.seed, extension: self.extension }
    }
}

/// Packets between calls of the watch.
const WATCH_EVERY: u64 = 4096;

/// An emulated network. Packets enter in order of time, and each leaves before the next enters.
pub struct Emulation<'a> {
    instance: &'a Instance,
    settings: Settings,
    hash: HeaderHasher,
    epoch_length: u64,
    of_link: Vec<Option<DeviceId>>,
    /// Current routes.
    routes: Vec<Route>,
    /// Routes that ingresses know.
    known: Routes,
    carrier: Carrier,
    /// Operations per epoch and bytes of cache, per device; infinite if unlimited.
    limits: Vec<(f64, f64)>,
    /// Scheduled events, by time and order of arrival.
    agenda: BTreeMap<(u64, u64), Scheduled>,
    ordered: u64,
    /// When the current rollout ends. The next starts after that, because a device can honor only
    /// two manifests.
    settled: Option<u64>,
    versions: u32,
    replanner: Option<Box<dyn Replanner + 'a>>,
    /// Per ingress: bytes per epoch that manifests were made for, and bytes found to match in the
    /// first whole epoch with them.
    reference: Vec<(f64, Option<f64>)>,
    /// Epochs since the current manifests were rolled out.
    since: u64,
    /// Whether ingresses know of routes that no plan was asked for.
    rerouted: bool,
    observed: Window,
    loss: f64,
    losses: SplitMix64,
    /// Whether packets may be undecodable, because some were lost or a route changed unnoticed.
    excused: bool,
    now: u64,
    epoch: u64,
    current: EpochReport,
    operations: Vec<(u64, u64)>,
    report: Report,
}

enum Scheduled {
    Bring(Allocation, Rollout),
    Install {
        device: DeviceId,
        version: u32,
        ranges: Ranges,
    },
    Switch {
        ingress: u32,
        version: u32,
        allocation: Arc<Allocation>,
        limits: Vec<Budget>,
    },
    Retire {
        version: u32,
    },
    Reroute {
        path: u32,
        links: Vec<LinkId>,
        notice: u64,
    },
    Notice {
        path: u32,
    },
    Loss(f64),
    /// A host sends a packet again.
    Again {
        ingress: u32,
        copy: u64,
    },
}

/// What ingresses have counted since their last report.
#[derive(Default)]
struct Window {
    epochs: u64,
    volumes: Vec<f64>,
    pairs: Pairs,
    /// Of the epoch at hand, per ingress: bytes, and bytes matched.
    bytes: Vec<(f64, f64)>,
}

impl<'a> Emulation<'a> {
    /// An empty network.
    ///
    /// # Errors
    /// Settings out of range; an allocation of another instance; caches for which there is no
    /// memory.
    pub fn new(instance: &'a Instance, scheme: Scheme, settings: Settings) -> Result<Self, Error> {
        check(&settings)?;
        let length = instance.epoch.0 * 1e9;
        if !(1.0..1e18).contains(&length) {
            let range = "from 1 ns to 30 years";
            return Err(EmulationError::setting(
                "the retention epoch in s",
                instance.epoch.0,
                range,
            )
            .into());
        }
        let of_link = instance.devices_of_links();
        let routes: Vec<Route> = instance.paths.iter().map(Route::planned).collect();
        let hash = settings.header_hash();
        let devices = instance.devices.len();
        let limits = match scheme {
            Scheme::Ideal => vec![(f64::INFINITY, f64::INFINITY); devices],
            _ => instance.devices.iter().map(|device| (device.operations, device.memory)).collect(),
        };
        let carrier = match scheme {
            Scheme::Planned(allocation) => {
                Carrier::Planned(Planned::new(instance, allocation, &settings)?)
            }
            Scheme::HopByHop => {
                Carrier::links(instance, limits_of_links(instance, &of_link, settings.unlimited))
            }
            Scheme::Ideal => {
                let limits = Limits {
                    memory: settings.unlimited,
                    coded: 1.0,
                    encodings: f64::INFINITY,
                    operations: f64::INFINITY,
                };
                Carrier::links(instance, vec![Some(limits); instance.network.links.len()])
            }
        };
        let report = Report {
            links: vec![Traffic::default(); instance.network.links.len()],
            ingresses: vec![IngressReport::default(); instance.ingresses.len()],
            devices: vec![DeviceReport::default(); devices],
            ..Report::default()
        };
        let loss = settings.loss;
        Ok(Self {
            instance,
            hash,
            epoch_length: length as u64,
            of_link,
            known: Routes::all(routes.clone()),
            routes,
            carrier,
            limits,
            agenda: BTreeMap::new(),
            ordered: 0,
            settled: None,
            versions: 0,
            replanner: None,
            reference: instance.ingresses.iter().map(|ingress| (ingress.volume, None)).collect(),
            since: 0,
            rerouted: false,
            observed: Window {
                volumes: vec![0.0; instance.paths.len()],
                bytes: vec![(0.0, 0.0); instance.ingresses.len()],
                ..Window::default()
            },
            loss,
            losses: SplitMix64(settings.seed),
            excused: loss > 0.0,
            now: 0,
            epoch: 0,
            current: EpochReport::default(),
            operations: vec![(0, 0); devices],
            report,
            settings,
        })
    }

    /// Sets the planner that makes new manifests according to [`Settings::replanning`].
    pub fn with_replanner(self, replanner: impl Replanner + 'a) -> Self {
        Self { replanner: Some(Box::new(replanner)), ..self }
    }

    /// Schedules an event.
    ///
    /// # Errors
    /// A time in the past; a path, links or an allocation that do not fit the instance; manifests
    /// in a hop-by-hop run.
    pub fn schedule(&mut self, event: Event) -> Result<(), Error> {
        if event.time < self.now {
            return Err(EmulationError::Order {
                what: "an event",
                time: event.time,
                now: self.now,
            }
            .into());
        }
        let step = match event.change {
            Change::Manifests { allocation, rollout } => {
                if !matches!(self.carrier, Carrier::Planned(_)) {
                    return Err(EmulationError::HopByHop.into());
                }
                fits(self.instance, &allocation)?;
                Scheduled::Bring(allocation, rollout)
            }
            Change::Route { path, links, notice } => {
                check_route(self.instance, path, &links)?;
                Scheduled::Reroute { path, links, notice }
            }
            Change::Loss(loss) => {
                check_loss(loss)?;
                Scheduled::Loss(loss)
            }
        };
        self.at(event.time, step);
        Ok(())
    }

    /// Carries packets, in order of time.
    ///
    /// # Errors
    /// [`Error::Emulation`] for packets out of order or too long, of paths that are not there; for
    /// a packet that left other than it entered, or could not be decoded though none was lost;
    /// [`Error::Stopped`].
    pub fn run(
        &mut self,
        packets: impl IntoIterator<Item = Packet>,
        watch: &dyn Watch,
    ) -> Result<(), Error> {
        for packet in packets {
            if self.report.packets.is_multiple_of(WATCH_EVERY) {
                watch.proceed()?;
                watch.progress("packets", self.report.packets, 0);
            }
            self.push(&packet)?;
        }
        Ok(())
    }

    /// Carries one packet.
    ///
    /// # Errors
    /// As [`Emulation::run`].
    pub fn push(&mut self, packet: &Packet) -> Result<(), Error> {
        if packet.time < self.now {
            return Err(EmulationError::Order {
                what: "a packet",
                time: packet.time,
                now: self.now,
            }
            .into());
        }
        if packet.path as usize >= self.instance.paths.len() {
            return Err(EmulationError::Index {
                what: "a packet of path",
                index: packet.path as usize,
                count: self.instance.paths.len(),
            }
            .into());
        }
        if packet.payload.len() > MAX_PAYLOAD {
            let bytes = packet.payload.len();
            return Err(EmulationError::Payload { bytes, most: MAX_PAYLOAD }.into());
        }
        self.advance(packet.time)?;
        self.carry(packet)
    }

    /// Advances time without packets.
    ///
    /// # Errors
    /// Errors of a [`Replanner`].
    pub fn advance(&mut self, time: u64) -> Result<(), Error> {
        let epoch = time / self.epoch_length;
        if epoch > self.epoch {
            self.end_epoch()?;
            self.epoch = epoch;
        }
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= time
        {
            let ((at, _), step) = entry.remove_entry();
            self.perform(at, step);
        }
        self.now = self.now.max(time);
        Ok(())
    }

    /// The results so far.
    pub fn report(&self) -> Report {
        let mut report = self.report.clone();
        let mut current = self.current;
        self.account_epoch(&mut report, &mut current);
        let epochs = (self.epoch + 1) as f64;
        for (number, (device, &limits)) in report.devices.iter_mut().zip(&self.limits).enumerate() {
            device.mean_operations = (device.cached + device.decoded) as f64 / epochs;
            (device.limit, device.memory) = limits;
            match &self.carrier {
                Carrier::Planned(planned) => {
                    let node = &planned.nodes[number];
                    (device.used, device.most_used) = node.used();
                    device.packets = node.packets() as u64;
                    device.expected = Some(planned.expected_operations[number]);
                }
                Carrier::Links { pairs, .. } => {
                    for (pair, _) in pairs
                        .iter()
                        .zip(&self.of_link)
                        .filter(|(_, of)| **of == Some(DeviceId::new(number)))
                    {
                        let Some(pair) = pair else { continue };
                        let (used, most) = pair.cache().used();
                        device.used += used;
                        device.most_used += most;
                        device.packets += pair.cache().packets() as u64;
                    }
                }
            }
        }
        match &self.carrier {
            Carrier::Planned(planned) => {
                let mut whole = 0.0;
                for (number, (ingress, of)) in
                    report.ingresses.iter_mut().zip(&planned.ingresses).enumerate()
                {
                    ingress.refusals = of.refusals;
                    ingress.refusals.gap = of.store.counts.gaps;
                    ingress.collisions = of.store.counts.collisions;
                    ingress.table_bytes = of.store.table_bytes();
                    let footprint = planned.expected_footprints[number];
                    // Possibly none of its links counts.
                    ingress.expected =
                        (footprint > 0.0).then(|| planned.expected_saved[number] / footprint);
                    whole += planned.expected_saved[number];
                    report.refusals.add(&ingress.refusals);
                    report.collisions += ingress.collisions;
                }
                let footprint: f64 = planned.expected_footprints.iter().sum();
                report.expected = (footprint > 0.0).then(|| whole / footprint);
            }
            Carrier::Links { pairs, .. } => {
                report.collisions = pairs.iter().flatten().map(|pair| pair.collisions()).sum();
            }
        }
        report.profile = self.profile();
        report
    }
}

fn check_loss(loss: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&loss) {
        Ok(())
    } else {
        Err(EmulationError::setting("the loss", loss, "a probability, from 0 to 1").into())
    }
}

fn check(settings: &Settings) -> Result<(), Error> {
    check_loss(settings.loss)?;
    let Format { name_bytes, max_matches, .. } = settings.format;
    let Finding { window, period, .. } = settings.finding;
    let wrong =
        |what: &str, value: f64, range| Err(EmulationError::setting(what, value, range).into());
    if !(1..=8).contains(&name_bytes) {
        return wrong("the length of names in bytes", name_bytes.into(), "from 1 to 8");
    }
    if usize::from(max_matches) > MAX_MATCHES {
        const { assert!(MAX_MATCHES == 7) };
        return wrong("the number of matches in a packet", max_matches.into(), "at most 7");
    }
    if !(12..=64).contains(&window) {
        return wrong("the window in bytes", window as f64, "from 12 to 64");
    }
    if !(4..=1024).contains(&period) {
        return wrong("the sampling period in bytes", period as f64, "from 4 to 1024");
    }
    if !(1..=MAX_COPIES).contains(&settings.rules.copies) {
        const { assert!(MAX_COPIES == 16) };
        let copies = settings.rules.copies.into();
        return wrong("the number of copies of a fingerprint", copies, "from 1 to 16");
    }
    match settings.replanning.change {
        Some(change) if change.is_nan() || change < 0.0 => {
            wrong("the change that starts a new plan", change, "a share of 0 or more")
        }
        _ => Ok(()),
    }
}
