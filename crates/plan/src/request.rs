//! A plan from a request: the whole computation behind `oncewire plan`, without files and
//! arguments.

use std::cell::RefCell;

use crate::{
    BitRate, DeviceId, Error, Instance, Solution, Stage, Unwatched, Watch,
    baseline::{self, Comparison},
    error::{DeviceError, TopologyError},
    evaluate::{self, Evaluation},
    lp::{self, Method, Objective},
    manifest::{self, Plan},
    placement::{self, Strategy},
    scenario::{Scenario, find_ingress},
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
    /// Plan only for the traffic that enters at this node (id or unique label); each device serves
    /// it with that traffic's share of the device, by volume.
    pub single: Option<String>,
    /// Also compute the schemes of [`baseline::compare`].
    pub compare: bool,
    /// Keep as much as possible of this plan, which is in force.
    pub against: Option<Plan>,
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
            single: None,
            compare: true,
            against: None,
        }
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

/// Partial deployment: how many links get decoders, and how they are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deploy {
    /// Number of links, 1 to the number of [`placement::interior`] links.
    pub links: usize,
    /// How they are chosen.
    pub choice: Choice,
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
    /// SmartRE beside other schemes; empty unless [`Request::compare`] is set.
    pub schemes: Vec<Comparison>,
    /// Links with decoders in the order they were chosen; empty unless [`Request::deploy`] is set.
    pub deployment: Vec<Deployed>,
    /// How far the choice of links may be from the best, as a share; above 0 only if
    /// [`Choice::Optimal`] reached its limits.
    pub deployment_gap: f64,
    /// The manifests.
    pub plan: Plan,
    /// Links that got [`Request::capacity`] because the topology gives them none.
    pub assumed_capacities: usize,
    /// Whether no link has a capacity, so that utilizations are unknown.
    pub capacities_unknown: bool,
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
    let mut instance = request.scenario.build(watch)?;
    if let Some(node) = &request.single {
        instance = instance.single(find_ingress(&instance, node)?);
    }
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
    let solve = |instance: &Instance| -> Result<Solution, Error> {
        Ok(lp::solve(instance, &options, None, watch)?.0)
    };
    let (mut deployment, mut deployment_gap) = (Vec::new(), 0.0);
    if let Some(deploy) = request.deploy {
        watch.stage(Stage::Placement);
        (deployment, deployment_gap) = choose_links(&instance, deploy, &solve, watch)?;
        let devices: Vec<DeviceId> = deployment.iter().map(|deployed| deployed.device).collect();
        instance = placement::deployed(&instance, &devices)?;
    }
    watch.stage(Stage::Solve);
    let solution = solve(&instance)?;
    watch.stage(Stage::Check);
    let evaluation = evaluate::check_for(&instance, &solution, &options.objective)?;
    evaluation.holds(&instance)?;
    watch.proceed()?;
    let mut schemes = Vec::new();
    if request.compare {
        watch.stage(Stage::Compare);
        let footprint = lp::Options { objective: Objective::Footprint, ..options };
        // The plan itself is one of the schemes; it is not solved again.
        let known =
            RefCell::new((options.objective == Objective::Footprint).then(|| solution.clone()));
        let solve_again = |variant: &Instance| {
            if std::ptr::eq(variant, &instance)
                && let Some(solution) = known.borrow_mut().take()
            {
                return Ok(solution);
            }
            Ok(lp::solve(variant, &footprint, None, watch)?.0)
        };
        schemes = baseline::compare(&instance, &solve_again, watch)?;
    }
    watch.stage(Stage::Manifests);
    let options = manifest::Options::default();
    let plan = match &request.against {
        Some(old) => Plan::after(old, &instance, &solution, &options),
        None => Plan::new(&instance, &solution, &options),
    }?;
    manifest::validate(&plan, &instance)?;
    watch.proceed()?;
    watch.stage(Stage::Summary);
    let assumed_capacities = if request.capacity.is_some() { unknown } else { 0 };
    Ok(Outcome {
        instance,
        solution,
        evaluation,
        schemes,
        deployment,
        deployment_gap,
        plan,
        assumed_capacities,
        capacities_unknown,
    })
}

/// A plan for each ingress node alone.
#[derive(Clone, Debug)]
pub struct EachIngress {
    /// The whole instance.
    pub instance: Instance,
    /// For each of its ingress nodes, in order of [`Instance::stores`]: all schemes with the node's
    /// share of each device.
    pub schemes: Vec<Vec<Comparison>>,
}

/// Plans for each ingress node in turn, with its share of each device by volume (thesis, section 3.5,
/// figure 3.7). Only the scenario and the solver's settings of the request count.
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
        schemes.push(baseline::compare(&instance.single(slices.start), &solve, &Unwatched)?);
    }
    watch.stage(Stage::Summary);
    Ok(EachIngress { instance, schemes })
}

/// Links to build, each with the reduction up to it, and the gap of the choice.
fn choose_links(
    instance: &Instance,
    deploy: Deploy,
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
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
