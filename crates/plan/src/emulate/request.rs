//! An emulation from a request: the whole computation behind `oncewire emulate`, without files and
//! arguments.

use std::{cell::Cell, rc::Rc, time::Duration};

use oncewire_packet::{Dissected, Nanos, prefix::Prefixes};

use super::{
    Allocation, Emulation, Packet, Replanning, Report, Rollout, Rules, Scheme, Settings, Share,
    choose::{self, Choose, Offered},
    planner::Planner,
    reroute::reroute,
    spread::Style,
    workload::{self, Crowd, Drift, Egresses, FromCapture, Ingresses, Mapped, TimeScale},
};
use crate::{
    Bytes, Error, Instance, NodeId, Profile, Scenario, Seconds, Stage, Watch,
    error::{EmulationError, Mismatch},
    lp::WarmStart,
    manifest::Plan,
    measure::{self, Measurement, Profiler},
    scenario::{Redundancy, find_ingress, largest_ingress},
};

/// Bytes that enter in an epoch unless the request gives a scale: what a run of some seconds can
/// carry.
const USUAL_VOLUME: f64 = 64e6;

/// Smallest packet store of an ingress that is emulated, in bytes: room for the largest packet.
const SMALLEST_STORE: f64 = 65_536.0;

/// Packets between checks of the [`Watch`].
const WATCH_EVERY: u64 = 4096;

/// What to emulate.
#[derive(Clone, Debug)]
pub struct Request {
    /// The network, its traffic and its devices.
    pub scenario: Scenario,
    /// Seed of packets, header hashes, losses and rollouts.
    pub seed: u64,
    /// Where packets come from.
    pub source: Source,
    /// Retention epochs to emulate; caches fill in the first.
    pub epochs: u32,
    /// Fraction of volumes, caches and speeds that is emulated, above 0; `None` to choose one.
    pub scale: Option<f64>,
    /// Manifests for the same network and traffic; `None` to make a plan.
    pub plan: Option<Plan>,
    /// Probability that a link loses a packet, 0 to 1.
    pub loss: f64,
    /// Most match specifications in a shim.
    pub matches: u8,
    /// Rules of caching and of references.
    pub rules: Rules,
    /// New plans during the run.
    pub replan: Option<Replan>,
    /// A link that fails during the run.
    pub reroute: Option<Reroute>,
    /// Share of every device's memory and operations, and of every packet store, that plans leave
    /// free ([`crate::Request::headroom`]). For plans that are made here.
    pub headroom: f64,
    /// Whether paths cache all of their packets, not only what a plan expects to be repeated
    /// ([`Allocation::with_all`]): for traffic that changes. For plans that are made here.
    pub cache_all: bool,
    /// Which of several plans to take, if one is made here. Of those that are made during the run, it
    /// is always the one that is expected to save most.
    pub choose: Choose,
    /// Also run hop-by-hop elimination and the unlimited Ideal.
    pub compare: bool,
    /// Measure volumes and redundancy of the packets that are carried.
    pub measure: bool,
}

impl Request {
    /// How plans are made.
    fn style(&self) -> Style {
        Style { headroom: self.headroom, cache_all: self.cache_all, rules: self.rules }
    }
}

/// Where packets come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Packets generated from the instance's profile.
    Synthetic {
        /// A sudden change at the largest ingress.
        crowd: Option<FlashCrowd>,
        /// Slow random change of volumes and redundancy.
        drift: Option<Drift>,
    },
    /// Packets of captures ([`Captures`]). The plan is made for their volumes and their redundancy,
    /// unless the scenario has a measured profile.
    Captured {
        /// Node where they enter (id or unique label); `None` for the node behind which their
        /// source address is, or without prefixes the ingress with the most traffic.
        ingress: Option<String>,
        /// Which node an address is behind; `None` to spread addresses over nodes by volume.
        prefixes: Option<Box<Prefixes>>,
    },
}

/// A sudden change of the traffic at the largest ingress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashCrowd {
    /// When it starts.
    pub from: Duration,
    /// Factor on the volume.
    pub volume: f64,
    /// Redundancy from then on; needs a synthetic profile whose gamma is above 0.
    pub gamma: Option<f64>,
}

/// New plans during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replan {
    /// Epochs between plans.
    pub every: u32,
    /// Also when an ingress measures bytes that differ by more than this share from the plan's.
    pub trigger: Option<f64>,
    /// Time that making a plan takes.
    pub delay: Duration,
    /// Time within which devices, and then ingresses, switch to it.
    pub stagger: Duration,
}

/// A link that fails: the busiest without which every path still has a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reroute {
    /// When.
    pub after: Duration,
    /// Time until ingresses learn of the new routes.
    pub notice: Duration,
}

/// Captured packets, which are read several times.
pub trait Captures {
    /// Why captures cannot be read, or the planner's error.
    type Error: From<Error>;

    /// Calls `process` with the time, the captured bytes and the content of each TCP and UDP
    /// packet, in order of time. Errors of `process` end it.
    fn each(
        &mut self,
        process: &mut dyn FnMut(Nanos, usize, &Dissected<'_>) -> Result<(), Error>,
    ) -> Result<(), Self::Error>;
}

/// No captures, for [`Source::Synthetic`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCaptures;

impl Captures for NoCaptures {
    type Error = Error;

    fn each(
        &mut self,
        _process: &mut dyn FnMut(Nanos, usize, &Dissected<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// What an emulation found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The part of the network that was emulated, with the volumes and the profile that the plan is
    /// for.
    pub instance: Instance,
    /// Fraction of volumes, caches and speeds that was emulated.
    pub scale: f64,
    /// Length of the captures, if there were any.
    pub captured: Option<Captured>,
    /// The plan's run, then those it is compared with.
    pub runs: Vec<Run>,
    /// The plans that there were to choose from; empty if one was given.
    pub offered: Vec<Offered>,
    /// The plan that was carried, for the part of the network that was emulated.
    pub allocation: Allocation,
    /// What was measured, for the whole network: set if [`Request::measure`] is.
    pub measured: Option<Measurement>,
}

impl Outcome {
    /// The plan that was carried, for the whole network: with volumes and memories that are not
    /// scaled. Of captures that enter at one ingress it is that ingress's, with its share of devices.
    ///
    /// # Errors
    /// A plan that cannot be a document: names that are too long.
    pub fn plan(&self) -> Result<Plan, Error> {
        let whole = self.instance.clone().scaled(1.0 / self.scale)?;
        Ok(Plan::of_allocation(&whole, &self.allocation, 1.0 / self.scale, None)?)
    }
}

/// What captures contain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Captured {
    /// Captured bytes.
    pub bytes: u64,
    /// Time from the first packet to the last, in seconds.
    pub seconds: f64,
    /// Ingress node where packets enter; `None` if their source addresses decide.
    pub ingress: Option<NodeId>,
}

/// One scheme's run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the scheme: SmartRE, hop-by-hop or Ideal.
    pub name: &'static str,
    /// Results of a run.
    pub report: Report,
    /// Captured packets that were carried and left out.
    pub mapped: Option<Mapped>,
    /// Plans made during the run.
    pub replans: u32,
}

/// Packets of a run; made or read again for each scheme.
pub(super) enum Traffic {
    Synthetic(Box<workload::Settings>),
    Captured { ingresses: Ingresses, egresses: Egresses, times: TimeScale },
}

/// Plans for the packets, carries them through the network, and compares every packet that leaves
/// with the one that entered.
///
/// # Errors
/// Every error of [`Scenario::build`]; requests that do not fit the network or the captures; a plan
/// for another network; a packet that left with other content; what `captures` says;
/// [`Error::Stopped`].
pub fn run<C: Captures>(
    request: &Request,
    captures: &mut C,
    watch: &dyn Watch,
) -> Result<Outcome, C::Error> {
    if request.scale == Some(0.0) {
        return Err(Error::from(EmulationError::NothingToEmulate).into());
    }
    let whole = request.scenario.build(watch)?;
    let (instance, traffic, scale, captured) = match &request.source {
        Source::Synthetic { crowd, drift } => {
            let (instance, settings, scale) = synthetic(request, &whole, *crowd, *drift)?;
            (instance, Traffic::Synthetic(settings.into()), scale, None)
        }
        Source::Captured { ingress, prefixes } => {
            let at = match ingress {
                Some(name) => Some(find_ingress(&whole, name)?),
                None if prefixes.is_some() => None,
                None => Some(largest_ingress(&whole)),
            };
            let egresses = match prefixes {
                Some(prefixes) => Egresses::Prefixes(prefixes.clone()),
                None => Egresses::Spread { seed: request.seed, networks: false },
            };
            captured_instance(request, whole, at, egresses, captures, watch)?
        }
    };
    if let Some(Reroute { after, notice }) = request.reroute {
        // An error now, not after a plan is made.
        reroute(&instance, nanoseconds(after), nanoseconds(notice))?;
    }
    let (allocation, warm, offered) = match &request.plan {
        Some(plan) => (allocation_of(plan, &instance, scale)?, None, Vec::new()),
        None => {
            // As it was made: new plans during a run would be the same for all.
            let once = Request { replan: None, plan: None, ..request.clone() };
            let carried = |allocation| {
                let scheme = Scheme::Planned(allocation);
                let (run, _): (Run, _) = carry(
                    &once, &instance, "SmartRE", scheme, &traffic, None, false, captures, watch,
                )?;
                Ok::<_, C::Error>(run.report)
            };
            let (allocation, warm, offered) =
                choose::choose(request.choose, &instance, request.style(), watch, carried)?;
            (allocation, Some(warm), offered)
        }
    };
    let allocation = match &traffic {
        // What packets repeat, and how often, is not quite the profile: there is room for three
        // matches in a packet, and content with matches is not repeated again.
        Traffic::Synthetic(_) if request.rules.copies > 1 => {
            watch.stage(Stage::Measure);
            let found = profile_of(&instance, &traffic, captures, watch)?;
            allocation.expecting(&found.apply(&instance)?)
        }
        _ => allocation,
    };
    let schemes = [
        ("SmartRE", Scheme::Planned(allocation.clone())),
        ("hop-by-hop", Scheme::HopByHop),
        ("Ideal", Scheme::Ideal),
    ];
    let (mut runs, mut measured) = (Vec::new(), None);
    for (name, scheme) in schemes.into_iter().take(if request.compare { 3 } else { 1 }) {
        watch.stage(Stage::Emulate);
        let measure = request.measure && runs.is_empty();
        let (run, found) = carry(
            request,
            &instance,
            name,
            scheme,
            &traffic,
            warm.as_ref(),
            measure,
            captures,
            watch,
        )?;
        runs.push(run);
        // For plans of the whole network, not of the part that was emulated.
        measured = measured.or(found.map(|found| found.scaled(1.0 / scale)));
    }
    watch.stage(Stage::Summary);
    Ok(Outcome { instance, scale, captured, runs, offered, allocation, measured })
}

/// The part of the network that is emulated with synthetic packets, and their settings.
fn synthetic(
    request: &Request,
    whole: &Instance,
    crowd: Option<FlashCrowd>,
    drift: Option<Drift>,
) -> Result<(Instance, workload::Settings, f64), Error> {
    let volume: f64 = whole.ingresses.iter().map(|ingress| ingress.volume).sum();
    let scale = request.scale.unwrap_or_else(|| (USUAL_VOLUME / volume).min(1.0));
    let instance = whole.clone().scaled(scale)?;
    let mut settings = workload::Settings {
        seed: request.seed,
        epochs: f64::from(request.epochs),
        ..workload::Settings::default()
    };
    if let Some(crowd) = crowd {
        let redundancy = match (crowd.gamma, &instance.profile) {
            (Some(gamma), Profile::Synthetic(profile)) if profile.gamma > 0.0 => {
                gamma / profile.gamma
            }
            (Some(_), _) => return Err(EmulationError::GammaOfCrowd.into()),
            (None, _) => 1.0,
        };
        settings.dynamics.crowds.push(Crowd {
            ingress: Some(instance.ingresses[largest_ingress(&instance)].node),
            from: Seconds(crowd.from.as_secs_f64()),
            until: Seconds(f64::INFINITY),
            volume: crowd.volume,
            redundancy,
        });
    }
    settings.dynamics.drift = drift;
    // Settings out of range are an error now, not after a plan is made.
    workload::Synthetic::new(&instance, settings.clone())?;
    Ok((instance, settings, scale))
}

/// The part of the network that captures fill, with their volumes and redundancy.
fn captured_instance<C: Captures>(
    request: &Request,
    whole: Instance,
    at: Option<usize>,
    egresses: Egresses,
    captures: &mut C,
    watch: &dyn Watch,
) -> Result<(Instance, Traffic, f64, Option<Captured>), C::Error> {
    watch.stage(Stage::Captures);
    let (mut first, mut last, mut bytes) = (None, i128::MIN, 0u64);
    captures.each(&mut |time, captured, _| {
        let time = i128::from(time);
        first.get_or_insert(time);
        last = last.max(time);
        // The bytes that were captured, not those that a record claims: they set the size of
        // caches.
        bytes += captured as u64;
        Ok(())
    })?;
    let seconds = first.map_or(0.0, |first| (last - first) as f64 / 1e9);
    if bytes == 0 || seconds <= 0.0 {
        return Err(Error::from(EmulationError::EmptyCaptures).into());
    }
    // With one ingress, devices serve it with a share only (thesis, section 3.5).
    let (instance, ingresses) = match at {
        Some(at) => (whole.single(at), Ingresses::One(whole.ingresses[at].node)),
        None => (whole.clone(), Ingresses::BySource),
    };
    let epochs = f64::from(request.epochs);
    let mut times = TimeScale::fill(
        &instance,
        largest_ingress(&instance),
        Bytes(bytes as f64),
        Seconds(seconds),
        epochs,
    )?;
    if let Some(scale) = request.scale {
        times.instance = scale;
    }
    let store =
        instance.ingresses.iter().map(|ingress| ingress.memory).fold(f64::INFINITY, f64::min)
            * times.instance;
    if store < SMALLEST_STORE {
        return Err(
            Error::from(EmulationError::SmallCaptures { epochs: request.epochs, store }).into()
        );
    }
    let instance = instance.scaled(times.instance)?;
    let traffic = Traffic::Captured { ingresses, egresses, times };
    watch.stage(Stage::Measure);
    let mut profiler = Profiler::new(
        &instance,
        measure::Settings { warm_up: 0.0, ..measure::Settings::default() },
    )?;
    feed(&instance, &traffic, captures, watch, |packet| profiler.push(&packet))?;
    if profiler.seen().packets == 0 {
        return Err(Error::from(EmulationError::NothingMapped).into());
    }
    let mut found = profiler.measurement()?;
    drop(profiler);
    if let (Redundancy::Measured { .. }, Profile::Measured(profile)) =
        (&request.scenario.redundancy, &instance.profile)
    {
        found.profile = profile.clone();
        found.check(&instance)?;
    }
    let instance = found.apply(&instance)?;
    let ingress = at.map(|at| whole.ingresses[at].node);
    Ok((instance, traffic, times.instance, Some(Captured { bytes, seconds, ingress })))
}

/// The manifests of a plan for the part of the network that is emulated.
fn allocation_of(plan: &Plan, instance: &Instance, scale: f64) -> Result<Allocation, Error> {
    let another = |mismatch| Error::from(EmulationError::AnotherPlan(mismatch));
    let (planned, here) = (plan.devices().len(), instance.devices.len());
    if planned != here {
        return Err(another(Mismatch::Count { what: "devices", planned, here }));
    }
    if let Some(at) = (0..here).find(|&at| plan.devices()[at].name != instance.device_name(at)) {
        let (planned, here) = (plan.devices()[at].name.clone(), instance.device_name(at));
        return Err(another(Mismatch::Device { planned, here }));
    }
    let (planned, here) = (plan.paths().len(), instance.paths.len());
    if planned != here {
        return Err(another(Mismatch::Count { what: "paths", planned, here }));
    }
    let mut shares = Vec::with_capacity(here);
    for (planned, path) in plan.paths().iter().zip(&instance.paths) {
        if !planned.hops.iter().copied().eq(path.hops.iter().map(|hop| hop.device)) {
            return Err(another(Mismatch::Route { egress: planned.egress.clone() }));
        }
        let share = |range: &crate::manifest::Range| Share {
            from: range.from,
            to: range.to,
            device: planned.hops[range.hop as usize],
            bytes: (range.bytes as f64 * scale) as u64,
        };
        shares.push(planned.ranges.iter().map(share).collect());
    }
    Allocation::of_parts(instance, shares)
}

#[expect(clippy::too_many_arguments, reason = "everything a run depends on")]
fn carry<C: Captures>(
    request: &Request,
    instance: &Instance,
    name: &'static str,
    scheme: Scheme,
    traffic: &Traffic,
    warm: Option<&WarmStart>,
    measure: bool,
    captures: &mut C,
    watch: &dyn Watch,
) -> Result<(Run, Option<Measurement>), C::Error> {
    let planned = matches!(scheme, Scheme::Planned(_));
    let mut settings = Settings { seed: request.seed, loss: request.loss, ..Settings::default() };
    settings.format.max_matches = request.matches;
    settings.rules = request.rules;
    let replan = request.replan.filter(|_| planned);
    if let Some(Replan { every, trigger, delay, stagger }) = replan {
        let rollout = Rollout { stagger: nanoseconds(stagger), transition: nanoseconds(stagger) };
        settings.replanning = Replanning {
            every: u64::from(every),
            change: trigger,
            delay: nanoseconds(delay),
            rollout,
        };
    }
    let mut emulation = Emulation::new(instance, scheme, settings)?;
    let made = Rc::new(Cell::new(0));
    if replan.is_some() {
        emulation = emulation.with_replanner(Planner {
            instance: instance.clone(),
            warm: warm.cloned(),
            routes: Vec::new(),
            style: request.style(),
            made: Rc::clone(&made),
        });
    }
    if let Some(Reroute { after, notice }) = request.reroute {
        for event in reroute(instance, nanoseconds(after), nanoseconds(notice))? {
            emulation.schedule(event)?;
        }
    }
    let mut profiler = if measure {
        let warm_up = f64::from(u8::from(matches!(traffic, Traffic::Synthetic(_))));
        Some(Profiler::new(
            instance,
            measure::Settings { warm_up, ..measure::Settings::default() },
        )?)
    } else {
        None
    };
    let mut count = 0u64;
    let stage = format!("{name}: packets");
    let mapped = feed(instance, traffic, captures, watch, |packet| {
        if count.is_multiple_of(WATCH_EVERY) {
            watch.progress(&stage, count, 0);
        }
        count += 1;
        if let Some(profiler) = &mut profiler {
            profiler.push(&packet)?;
        }
        emulation.push(&packet)
    })?;
    let found = profiler.map(|profiler| profiler.measurement()).transpose()?;
    let report = emulation.report();
    Ok((Run { name, report, mapped, replans: made.get() }, found))
}

/// Volumes and redundancy of synthetic packets, as ingresses count them.
fn profile_of<C: Captures>(
    instance: &Instance,
    traffic: &Traffic,
    captures: &mut C,
    watch: &dyn Watch,
) -> Result<Measurement, C::Error> {
    let mut profiler = Profiler::new(instance, measure::Settings::default())?;
    // The first epoch fills stores. The others count as they do in reports, unless traffic changes on
    // the way: no plan knows that.
    let steady = match traffic {
        Traffic::Synthetic(settings) => {
            settings.dynamics.crowds.is_empty() && settings.dynamics.drift.is_none()
        }
        Traffic::Captured { .. } => true,
    };
    let end = if steady { u64::MAX } else { (2.0 * instance.epoch.0 * 1e9) as u64 };
    feed(instance, traffic, captures, watch, |packet| match packet.time < end {
        true => profiler.push(&packet),
        false => Ok(()),
    })?;
    Ok(profiler.measurement()?)
}

/// Calls `process` with each packet, and returns how a capture's packets were mapped.
fn feed<C: Captures>(
    instance: &Instance,
    traffic: &Traffic,
    captures: &mut C,
    watch: &dyn Watch,
    mut process: impl FnMut(Packet) -> Result<(), Error>,
) -> Result<Option<Mapped>, C::Error> {
    match traffic {
        Traffic::Synthetic(settings) => {
            let packets = workload::Synthetic::new(instance, (**settings).clone())?;
            for (count, packet) in (0u64..).zip(packets) {
                if count.is_multiple_of(WATCH_EVERY) {
                    watch.proceed()?;
                }
                process(packet)?;
            }
            Ok(None)
        }
        Traffic::Captured { ingresses, egresses, times } => {
            let mut mapper = FromCapture::new(instance, *ingresses, egresses.clone(), *times)?;
            captures.each(&mut |time, _, packet| {
                mapper.packet(time, packet).map_or(Ok(()), &mut process)
            })?;
            Ok(Some(mapper.mapped()))
        }
    }
}

/// Nanoseconds of a duration, at most `u64::MAX`.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
