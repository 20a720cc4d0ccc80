//! A plan from a request: the whole computation behind `oncewire plan`, without files and
//! arguments.
//!
//! Longer than 600 lines: a third of it describes `Request` and `Outcome`, and what fills in an
//! outcome stands beside the fields that it fills.

mod copies;

pub use copies::{Copies, Taken};

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    BitRate, DeviceId, Error, Instance, Match, Measured, NodeId, Profile, Solution, Solve, Stage,
    Unwatched, Watch,
    baseline::{self, Comparison, Scheme},
    emulate::Allocation,
    error::{DeviceError, SolverError, TopologyError},
    evaluate::{self, Evaluation, Footprint},
    failures::{self, Effect, Failure, InForce},
    lp::{self, Aim, Method, Objective},
    manifest::{self, Plan},
    placement::{self, Purchase, Strategy, Tariff, Upgrade},
    scenario::{Hour, Scenario, find_ingress},
    verdict::{self, Standing, Verdict},
};

/// What to plan.
#[derive(Clone, Debug)]
pub struct Request {
    /// The network, its traffic and its devices.
    pub scenario: Scenario,
    /// What the plan optimizes. The capacity in [`Objective::LinkLoad`] is set from `capacity`.
    pub objective: Objective,
    /// Capacity of links for which the topology gives none.
    pub capacity: Option<BitRate>,
    /// How the program is solved.
    pub method: Method,
    /// Relative optimality gap at which solving stops ([`lp::Options::tolerance`]).
    pub tolerance: f64,
    /// Build decoders only on the best links.
    pub deploy: Option<Deploy>,
    /// Build only what is worth its price; not together with `deploy`.
    pub buy: Option<Buy>,
    /// Also let each link and each node fail.
    pub failures: Option<Failures>,
    /// Plan only for the traffic that enters at this node (id or unique label); each device serves
    /// it with that traffic's share of the device, by volume.
    pub single: Option<String>,
    /// Which other schemes are computed beside the plan, and how much of what follows from more
    /// plans.
    pub compare: Compare,
    /// Keep as much as possible of this plan, which is in force.
    pub against: Option<Plan>,
    /// Share of every device's memory and operations, and of every packet store, that the plan leaves
    /// free for more traffic than it is made for: at least 0 and below 1. Buckets are larger by what
    /// is left free of memory.
    pub headroom: f64,
    /// Whether the program's optimum is taken, or the plan that is expected to save most.
    pub taken: Taken,
    /// Whether paths cache all of their packets, not only what the plan expects to be repeated
    /// ([`crate::emulate::Allocation::with_all`]): for traffic that changes. Manifests only: what a
    /// plan is worth here is what it expects.
    pub cache_all: bool,
    /// More hours: the same network with other traffic. The plan then keeps every limit in each. For
    /// footprints only, and without partial deployment.
    pub hours: Vec<Hour>,
    /// What the plan is to be good at over these hours and the scenario's own.
    pub aim: Aim,
}

impl Request {
    /// A plan with the smallest footprint for all of a scenario's traffic, compared with the other
    /// schemes.
    pub fn new(scenario: Scenario) -> Self {
        let lp::Options { objective, method, tolerance, .. } = lp::Options::default();
        Self {
            scenario,
            objective,
            capacity: None,
            method,
            tolerance,
            deploy: None,
            buy: None,
            failures: None,
            single: None,
            compare: Compare::BySize,
            against: None,
            headroom: 0.0,
            taken: Taken::Optimum,
            cache_all: false,
            hours: Vec::new(),
            aim: Aim::Mean,
        }
    }

    /// The schemes beside a plan for this instance, and whether more plans are made for it; `None`
    /// for no comparison.
    fn comparison(&self, instance: &Instance) -> Option<(&'static [Scheme], bool)> {
        let all = match self.compare {
            Compare::Nothing => return None,
            Compare::Direct => false,
            Compare::All => true,
            Compare::BySize => instance.hop_count() <= SMALL,
        };
        Some(if all { (&Scheme::ALL, true) } else { (&Scheme::DIRECT, false) })
    }

    fn options(&self) -> lp::Options {
        let objective = match self.objective {
            Objective::Footprint => Objective::Footprint,
            Objective::LinkLoad { .. } => Objective::LinkLoad { capacity: self.capacity },
        };
        lp::Options {
            objective,
            method: self.method,
            tolerance: self.tolerance,
            ..lp::Options::default()
        }
    }
}

/// How much is computed beside a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Only the plan.
    Nothing,
    /// [`Scheme::DIRECT`] and the verdict at this load: no other program is solved.
    Direct,
    /// [`Scheme::ALL`], the load from which the other scheme wins, what upgrades gain, and the fewest
    /// devices for nearly all savings ([`verdict::lean`]): some hundred programs more.
    All,
    /// [`Compare::All`] without the fewest devices, some twenty programs, for programs of up to
    /// 20,000 variables; else [`Compare::Direct`].
    #[default]
    BySize,
}

/// Variables up to which a program takes about a second at most, and its comparison some ten.
const SMALL: usize = 20_000;

/// Upgrades for which a new plan is made.
const UPGRADES: usize = 10;

/// Relative gap of the plans for other loads, of which only the better scheme is asked.
const ROUGH: f64 = 1e-4;

/// Partial deployment: how many links get decoders, and how they are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deploy {
    /// Number of links, 1 to the number of [`placement::interior`] links.
    pub links: usize,
    /// How they are chosen.
    pub choice: Choice,
}

/// What to buy, and at which prices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buy {
    /// Prices; those by default count devices.
    pub tariff: Tariff,
    /// For which purpose.
    pub goal: Goal,
}

/// What is bought for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// To save as much as possible for at most this money.
    Budget(f64),
    /// To save at least this share of the footprint for as little money as possible.
    Reduction(f64),
}

/// Which plan is looked at under failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// The plan made before.
    Kept,
    /// Also a new plan for each failure.
    Anew,
}

/// How links are chosen for partial deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first links of a ranking.
    Ranked(Strategy),
    /// One at a time, each the link that saves most ([`placement::greedy`]).
    Greedy,
    /// The best combination ([`placement::optimal`]), for small networks.
    Optimal,
}

/// A link that gets a decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deployed {
    /// Index of the device.
    pub device: DeviceId,
    /// Share of the footprint saved with this device and those before it, 0 to 1.
    pub reduction: f64,
}

/// A plan and what it achieves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was planned for.
    pub instance: Instance,
    /// The solver's answer.
    pub solution: Solution,
    /// What it is worth, computed without the solver's code.
    pub evaluation: Evaluation,
    /// SmartRE beside other schemes; empty with [`Compare::Nothing`].
    pub schemes: Vec<Comparison>,
    /// Which scheme to use; `None` with [`Compare::Nothing`].
    pub verdict: Option<Verdict>,
    /// What could be enlarged. What a new plan gains is known for some, with [`Compare::All`].
    pub upgrades: Vec<Upgrade>,
    /// Links with decoders in the order they were chosen; empty unless [`Request::deploy`] is set.
    pub deployment: Vec<Deployed>,
    /// Encoders and decoders that were bought; `None` unless [`Request::buy`] is set.
    pub purchase: Option<Purchase>,
    /// The plan without a failure.
    pub intact: Effect,
    /// The plan under each single failure; empty unless [`Request::failures`] is set.
    pub failures: Vec<Failure>,
    /// How far the choice of links may be from the best, as a share; above 0 only if
    /// [`Choice::Optimal`] reached its limits.
    pub deployment_gap: f64,
    /// What is expected by references to all copies; `None` for other objectives than the footprint,
    /// for several hours, and if little is computed beside a plan ([`Compare`]) and nothing was to
    /// be chosen.
    pub copies: Option<Copies>,
    /// The manifests.
    pub plan: Plan,
    /// Links that got [`Request::capacity`] because the topology gives them none.
    pub assumed_capacities: usize,
    /// Whether no link has a capacity, so that utilizations are unknown.
    pub capacities_unknown: bool,
    /// What the plan is worth in the scenario's own hour and in each of [`Request::hours`]; empty if
    /// there are none. [`Outcome::instance`] has the mean of their traffic then.
    pub hours: Vec<Footprint>,
}

impl Outcome {
    /// Highest utilization of a link before and after redundancy elimination; `None` if no capacity
    /// is known.
    pub fn highest_utilization(&self) -> Option<[f64; 2]> {
        let highest = |at: usize| {
            self.evaluation
                .links
                .iter()
                .filter_map(|link| link.utilization.map(|both| both[at]))
                .max_by(f64::total_cmp)
        };
        Some([highest(0)?, highest(1)?])
    }
}

/// Makes a plan: builds the instance, chooses links for partial deployment, solves the program,
/// checks the solution with code that shares nothing with the solver, compares it with other
/// schemes, and writes manifests.
///
/// # Errors
/// Every error of [`Scenario::build`]; an unknown ingress; a number of links to deploy that is out
/// of range; link load without any capacity; a solver that fails or whose solution does not hold;
/// [`Error::Stopped`].
pub fn run(request: &Request, watch: &dyn Watch) -> Result<Outcome, Error> {
    let (mut instance, hours) = instances(request, watch)?;
    let links = &mut instance.network.links;
    let unknown = links.iter().filter(|link| link.capacity.is_none()).count();
    let capacities_unknown = request.capacity.is_none() && unknown == links.len();
    if let Some(capacity) = request.capacity {
        links.iter_mut().for_each(|link| link.capacity = link.capacity.or(Some(capacity)));
    } else if capacities_unknown && request.objective != Objective::Footprint {
        return Err(
            Error::from(TopologyError::NoCapacities).about_input(&request.scenario.topology.name)
        );
    }
    let options = request.options();
    // Devices are chosen by what they save, whatever the plan is for.
    let footprint = lp::Options { objective: Objective::Footprint, ..options };
    let solve = |instance: &Instance| -> Result<Solution, Error> {
        Ok(lp::solve(instance, &footprint, None, watch)?.0)
    };
    let whole = instance;
    let (part, site) = choose_devices(request, &whole, &solve, watch)?;
    let chosen = part.is_some();
    let instance = part.unwrap_or_else(|| whole.clone());
    watch.stage(Stage::Solve);
    // What is left free is left out of what is planned with.
    let reserving = |instance: &Instance| instance.clone().reserving(request.headroom);
    let planned = reserving(&instance)?;
    let mut copies = None;
    let (solution, warm, evaluation, hours) = if hours.is_empty() {
        let (mut solution, warm) = lp::solve(&planned, &options, None, watch)?;
        let more = request.comparison(&instance).is_some_and(|(_, more)| more);
        if options.objective == Objective::Footprint && (more || request.taken == Taken::Expected) {
            let (taken, found) = copies::choose(request, &instance, solution, watch)?;
            (solution, copies) = (taken, Some(found));
        }
        watch.stage(Stage::Check);
        let evaluation = evaluate::check_for(&instance, &solution, &options.objective)?;
        evaluation.holds(&instance)?;
        (solution, Some(warm), evaluation, Vec::new())
    } else {
        let reserved = hours.iter().map(reserving).collect::<Result<Vec<_>, Error>>()?;
        let solution = lp::solve_several(&reserved, request.aim, &options, watch)?;
        watch.stage(Stage::Check);
        let each = evaluate::check_hours(&hours, &solution, request.aim)?;
        let evaluation = evaluate::evaluate(&instance, &solution.cached)?;
        (solution, None, evaluation, each)
    };
    watch.proceed()?;
    let (mut schemes, mut verdict) = (Vec::new(), None);
    let mut upgrades = placement::upgrades(&planned, &solution);
    if let Some((which, more)) = request.comparison(&instance).filter(|_| hours.is_empty()) {
        watch.stage(Stage::Compare);
        (schemes, verdict) = compare(
            (&instance, chosen.then_some(&whole)),
            &solution,
            &options,
            (which, more, request.compare == Compare::All),
            watch,
        )?;
        if more {
            let solver = (&options, warm.as_ref());
            placement::try_upgrades(&planned, &solution, &mut upgrades, UPGRADES, solver, watch)?;
        }
    }
    let failures = under_failures(request, &instance, &site, &solution, &footprint, watch)?;
    watch.stage(Stage::Manifests);
    // As far as memory reaches, buckets have room for the traffic of any hour.
    let room = hours.len().max(1) as f64 / (1.0 - request.headroom);
    let plan = manifests(request, &instance, &solution, room)?;
    watch.proceed()?;
    watch.stage(Stage::Summary);
    let intact = Effect::of(&evaluation);
    let assumed_capacities = if request.capacity.is_some() { unknown } else { 0 };
    Ok(Outcome {
        instance,
        solution,
        evaluation,
        schemes,
        verdict,
        upgrades,
        deployment: site.deployment,
        deployment_gap: site.deployment_gap,
        purchase: site.purchase,
        copies,
        intact,
        failures,
        plan,
        assumed_capacities,
        capacities_unknown,
        hours,
    })
}

/// The manifests of a solution, whose buckets may be larger by this factor.
fn manifests(
    request: &Request,
    instance: &Instance,
    solution: &Solution,
    room: f64,
) -> Result<Plan, Error> {
    let old = request.against.as_ref();
    if request.cache_all {
        let allocation = Allocation::new(instance, solution)?.with_all(instance)?;
        let allocation = allocation.with_room(instance, room);
        return Ok(Plan::of_allocation(instance, &allocation, 1.0, old)?);
    }
    let options = manifest::Options { headroom: room, ..manifest::Options::default() };
    let plan = match old {
        Some(old) => Plan::after(old, instance, solution, &options),
        None => Plan::new(instance, solution, &options),
    }?;
    manifest::validate(&plan, instance)?;
    Ok(plan)
}

/// What is planned for, on the mean of all hours if there are several, and each of them.
fn instances(request: &Request, watch: &dyn Watch) -> Result<(Instance, Vec<Instance>), Error> {
    let mut hours = Vec::new();
    let mut instance = if request.hours.is_empty() {
        request.scenario.build(watch)?
    } else {
        if request.objective != Objective::Footprint
            || request.taken == Taken::Expected
            || request.deploy.is_some()
            || request.buy.is_some()
        {
            return Err(SolverError::OnlyFootprint.into());
        }
        hours = request.scenario.build_hours(&request.hours, watch)?;
        mean(&hours)?
    };
    if let Some(node) = &request.single {
        let at = find_ingress(&instance, node)?;
        hours.iter_mut().for_each(|hour| *hour = hour.single(at));
        instance = instance.single(at);
    }
    Ok((instance, hours))
}

/// Where encoders and decoders are.
#[derive(Default)]
struct Site {
    deployment: Vec<Deployed>,
    deployment_gap: f64,
    purchase: Option<Purchase>,
    /// Nodes with encoders and devices that are built, unless that is all of them.
    encoders: Option<BTreeSet<NodeId>>,
    decoders: Option<BTreeSet<DeviceId>>,
}

/// Chooses devices as the request says: the instance with only those, or none if all are built.
fn choose_devices(
    request: &Request,
    instance: &Instance,
    solve: Solve<'_>,
    watch: &dyn Watch,
) -> Result<(Option<Instance>, Site), Error> {
    let mut site = Site::default();
    if let Some(deploy) = request.deploy {
        watch.stage(Stage::Placement);
        (site.deployment, site.deployment_gap) = choose_links(instance, deploy, solve, watch)?;
        let devices: Vec<DeviceId> =
            site.deployment.iter().map(|deployed| deployed.device).collect();
        let part = placement::deployed(instance, &devices)?;
        site.decoders = Some(devices.into_iter().collect());
        return Ok((Some(part), site));
    }
    let Some(Buy { tariff, goal }) = request.buy else { return Ok((None, site)) };
    watch.stage(Stage::Placement);
    let aim = match goal {
        Goal::Budget(money) => placement::Aim::Budget(money),
        Goal::Reduction(share) => placement::Aim::Target(share * instance.footprint()),
    };
    let found = placement::purchase(instance, &tariff, aim, solve, watch)?;
    let node = |&ingress: &usize| instance.ingresses[ingress].node;
    site.encoders = Some(found.encoders.iter().map(node).collect());
    site.decoders = Some(found.decoders.iter().copied().collect());
    let part = found.apply(instance)?;
    site.purchase = Some(found);
    Ok((Some(part), site))
}

/// The plan under each single failure, if that is asked for.
fn under_failures(
    request: &Request,
    instance: &Instance,
    site: &Site,
    solution: &Solution,
    footprint: &lp::Options,
    watch: &dyn Watch,
) -> Result<Vec<Failure>, Error> {
    let Some(which) = request.failures else { return Ok(Vec::new()) };
    watch.stage(Stage::Failures);
    let anew = |rest: &Instance| -> Result<Solution, Error> {
        Ok(lp::solve(rest, footprint, None, &Unwatched)?.0)
    };
    let anew: Solve<'_> = &anew;
    let built = |node: NodeId, device: DeviceId| {
        site.encoders.as_ref().is_none_or(|encoders| encoders.contains(&node))
            && site.decoders.as_ref().is_none_or(|decoders| decoders.contains(&device))
    };
    let plan = InForce { instance, cached: &solution.cached, built: &built };
    let anew = (which == Failures::Anew).then_some(anew);
    failures::under(plan, &failures::candidates(instance), anew, watch)
}

/// These schemes beside a plan, and the verdict; with `more`, also at other loads. `whole` is the
/// instance with all devices, if some were chosen.
fn compare(
    (instance, whole): (&Instance, Option<&Instance>),
    solution: &Solution,
    options: &lp::Options,
    (which, more, lean): (&[Scheme], bool, bool),
    watch: &dyn Watch,
) -> Result<(Vec<Comparison>, Option<Verdict>), Error> {
    let footprint = lp::Options { objective: Objective::Footprint, ..*options };
    // The plan itself is one of the schemes; it is not solved again.
    let known = RefCell::new((options.objective == Objective::Footprint).then(|| solution.clone()));
    let solve_again = |variant: &Instance| {
        if std::ptr::eq(variant, instance)
            && let Some(solution) = known.borrow_mut().take()
        {
            return Ok(solution);
        }
        Ok(lp::solve(variant, &footprint, None, watch)?.0)
    };
    let schemes = baseline::compare_with(instance, which, &solve_again, watch)?;
    let smart = schemes.iter().find(|outcome| outcome.scheme == Scheme::SmartRe);
    let Some(smart) = smart.and_then(Standing::of) else { return Ok((schemes, None)) };
    let roughly = lp::Options { tolerance: options.tolerance.max(ROUGH), ..footprint };
    // Progress inside one solution would hide how many there are.
    let at_load = |busier: &Instance| -> Result<Solution, Error> {
        Ok(lp::solve(busier, &roughly, None, &Unwatched)?.0)
    };
    let at_load: Solve<'_> = &at_load;
    let mut verdict = verdict::judge(instance, whole, smart, more.then_some(at_load), watch)?;
    if lean && whole.is_none() {
        verdict.lean = verdict::lean(instance, smart, at_load, watch)?;
    }
    Ok((schemes, Some(verdict)))
}

/// The instance of hours with the mean of their volumes, and of their matches if these were measured.
fn mean(hours: &[Instance]) -> Result<Instance, Error> {
    let count = hours.len() as f64;
    let mut volumes = vec![0.0; hours[0].paths.len()];
    let mut pairs: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
    let mut copies = 0.0;
    let mut measured = true;
    for hour in hours {
        for (sum, path) in volumes.iter_mut().zip(&hour.paths) {
            *sum += path.volume / count;
        }
        let Profile::Measured(profile) = &hour.profile else {
            measured = false;
            continue;
        };
        copies += profile.copies / count;
        for &(p, q, found) in &profile.pairs {
            let sum = pairs.entry((p, q)).or_default();
            *sum = (sum.0 + found.count / count, sum.1 + found.bytes() / count);
        }
    }
    let instance = hours[0].clone().with_volumes(&volumes)?;
    if !measured {
        return Ok(instance);
    }
    let most = instance.mss.0;
    let pairs = pairs.into_iter().filter(|(_, (count, _))| *count > 0.0);
    let pairs = pairs
        .map(|((p, q), (count, bytes))| (p, q, Match { count, length: (bytes / count).min(most) }));
    instance.with_profile(Profile::Measured(Measured { pairs: pairs.collect(), copies }))
}

/// A plan for each ingress node alone.
#[derive(Clone, Debug)]
pub struct EachIngress {
    /// The whole instance.
    pub instance: Instance,
    /// For each of its ingress nodes, in order of [`Instance::stores`]: the schemes with the node's
    /// share of each device.
    pub schemes: Vec<Vec<Comparison>>,
}

/// Plans for each ingress node in turn, with its share of each device by volume (thesis, section 3.5,
/// figure 3.7). Only the scenario, the solver's settings and the comparison of the request count.
///
/// # Errors
/// As [`run`].
pub fn run_each_ingress(request: &Request, watch: &dyn Watch) -> Result<EachIngress, Error> {
    let instance = request.scenario.build(watch)?;
    watch.stage(Stage::EachIngress);
    let options = lp::Options { objective: Objective::Footprint, ..request.options() };
    // Progress inside one solution would hide which ingress it is for.
    let solve = |instance: &Instance| -> Result<Solution, Error> {
        Ok(lp::solve(instance, &options, None, &Unwatched)?.0)
    };
    let count = instance.store_count();
    let mut schemes = Vec::with_capacity(count);
    for slices in instance.stores() {
        watch.progress("ingresses", schemes.len() as u64, count as u64);
        watch.proceed()?;
        let alone = instance.single(slices.start);
        let (which, _) = request.comparison(&instance).unwrap_or((&Scheme::DIRECT, false));
        schemes.push(baseline::compare_with(&alone, which, &solve, &Unwatched)?);
    }
    watch.stage(Stage::Summary);
    Ok(EachIngress { instance, schemes })
}

/// Links to build, each with the reduction up to it, and the gap of the choice.
fn choose_links(
    instance: &Instance,
    deploy: Deploy,
    solve: Solve<'_>,
    watch: &dyn Watch,
) -> Result<(Vec<Deployed>, f64), Error> {
    let candidates = placement::interior(instance);
    let budget = deploy.links;
    if budget == 0 || budget > candidates.len() {
        return Err(DeviceError::Deployment { asked: budget, available: candidates.len() }.into());
    }
    let mut gap = 0.0;
    let order: Vec<DeviceId> = match deploy.choice {
        Choice::Ranked(strategy) => {
            let ranked = placement::rank(instance, strategy, &candidates)?;
            ranked.into_iter().take(budget).map(|ranked| ranked.device).collect()
        }
        Choice::Greedy => {
            let ranked = placement::greedy(instance, &candidates, budget, solve, watch)?;
            ranked.into_iter().map(|ranked| ranked.device).collect()
        }
        Choice::Optimal => {
            let best = placement::optimal(
                instance,
                &candidates,
                budget,
                &placement::Limits::default(),
                watch,
            )?;
            if !best.complete {
                gap = best.gap();
            }
            best.devices
        }
    };
    let counts: Vec<usize> = (1..=order.len()).collect();
    let steps = placement::curve(instance, &order, &counts, solve, watch)?;
    let whole = instance.footprint();
    let deployed = |(&device, step): (&DeviceId, &placement::Step)| Deployed {
        device,
        reduction: step.footprint.saved / whole,
    };
    Ok((order.iter().zip(&steps).map(deployed).collect(), gap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Text, scenario::TrafficSource};

    /// Four nodes in a row; traffic goes to one end, or to the other.
    fn request(matrix: &str) -> Request {
        let node = |id| format!(r#"{{"id":"{id}","population":1}}"#);
        let link = |(a, b)| format!(r#"{{"a":"{a}","b":"{b}","weight":1}}"#);
        let nodes = ["a", "b", "c", "d"].map(node).join(",");
        let links = [("a", "b"), ("b", "c"), ("c", "d")].map(link).join(",");
        let text = format!(r#"{{"name":"row","level":"pop","nodes":[{nodes}],"links":[{links}]}}"#);
        let mut scenario = Scenario::new(Text::new("row.json", text));
        scenario.traffic = TrafficSource::Matrix(Text::new("matrix", matrix));
        Request::new(scenario)
    }

    fn hour(request: &Request, matrix: &str) -> Hour {
        Hour {
            traffic: TrafficSource::Matrix(Text::new("matrix", matrix)),
            redundancy: request.scenario.redundancy.clone(),
        }
    }

    #[test]
    fn a_plan_for_several_hours_holds_in_each() {
        let (to_d, to_c) = ("a d 3\na c 1", "a c 3\na b 1");
        let mut request = request(to_d);
        request.scenario.provision.interior_memory = crate::Bytes(6e8);
        let alone = run(&request, &Unwatched).unwrap();
        request.hours = vec![hour(&request, to_c)];
        let both = run(&request, &Unwatched).unwrap();
        // Paths of either hour, with a byte where they have no traffic.
        assert_eq!((alone.instance.paths.len(), both.instance.paths.len()), (2, 3));
        assert_eq!((alone.hours.len(), both.hours.len()), (0, 2));
        assert!(both.solution.gap() < 1e-6);
        request.aim = Aim::Worst;
        let worst = run(&request, &Unwatched).unwrap();
        let least =
            |outcome: &Outcome| outcome.hours.iter().map(Footprint::reduction).fold(1.0, f64::min);
        assert!(least(&worst) >= least(&both) * (1.0 - 1e-6));
        assert!((least(&worst) - worst.solution.objective).abs() < 1e-6);
        // What is best for one hour is no worse there.
        let reduction = alone.evaluation.footprint.reduction();
        assert!(reduction >= both.hours[0].reduction() * (1.0 - 1e-6));
        request.objective = Objective::LinkLoad { capacity: None };
        assert!(run(&request, &Unwatched).is_err());
    }

    #[test]
    fn a_plan_for_the_edge_decodes_at_egresses_only() {
        let mut request = request("a d 3\na c 1");
        request.scenario.provision.interior_memory = crate::Bytes(6e8);
        let all = run(&request, &Unwatched).unwrap();
        request.scenario.edge_only = true;
        let edge = run(&request, &Unwatched).unwrap();
        let published = all.schemes.iter().find(|one| one.scheme == Scheme::EdgeOnly).unwrap();
        let saved = edge.evaluation.footprint.saved;
        assert!((saved - published.footprint.saved).abs() <= 1e-6 * saved, "{saved}");
        assert!(saved < all.evaluation.footprint.saved && saved > 0.0);
        for planned in edge.plan.paths() {
            let last = &edge.plan.devices()[planned.hops[0].index()].name;
            assert!(planned.hops.len() == 1 && !planned.ranges.is_empty());
            assert!(last.ends_with(&format!("-> {}", planned.egress)), "{last}");
        }
    }

    #[test]
    fn headroom_is_left_free() {
        let mut request = request("a d 3\na c 1");
        request.scenario.provision.interior_memory = crate::Bytes(6e8);
        let whole = run(&request, &Unwatched).unwrap();
        request.headroom = 0.25;
        let some = run(&request, &Unwatched).unwrap();
        let fullest = |outcome: &Outcome| {
            let devices = outcome.evaluation.devices.iter();
            devices.map(|device| device.memory.share()).fold(0.0, f64::max)
        };
        assert!((fullest(&whole) - 1.0).abs() < 1e-6 && fullest(&some) <= 0.75 + 1e-9);
        assert!(some.solution.objective < whole.solution.objective);
        // Buckets have the room.
        let bytes = |outcome: &Outcome| -> u64 {
            let paths = outcome.plan.paths().iter();
            paths.flat_map(|path| path.ranges.iter()).map(|range| range.bytes).sum()
        };
        assert!(bytes(&some) as f64 > 0.99 * bytes(&whole) as f64);
        request.headroom = 1.0;
        assert!(run(&request, &Unwatched).is_err());
    }
}
