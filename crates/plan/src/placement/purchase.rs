//! Which encoders and decoders to buy: for a budget, or for a target.

use microlp::{ComparisonOp, SolveOptions, SolveOutcome};

use super::*;
use crate::cost::Tariff;
use crate::evaluate::Evaluation;

impl Tariff {
    fn check(&self, instance: &Instance) -> Result<(), Error> {
        let set = Set::all(instance);
        let whole = set.cost(instance, self);
        if self.device >= 0.0 && self.memory >= 0.0 && whole.is_finite() && whole > 0.0 {
            return Ok(());
        }
        let what = "the price of all devices".into();
        Err(DeviceError::Range { what, value: whole, range: "above 0 and finite" }.into())
    }
}

/// What devices are bought for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// To save as much as possible for at most this money.
    Budget(f64),
    /// To save at least this many bytes times links per epoch for as little money as possible.
    Target(f64),
}

/// Devices to buy.
#[derive(Clone, Debug, PartialEq)]
pub struct Purchase {
    /// First ingress of each packet store that gets an encoder.
    pub encoders: Vec<usize>,
    /// Devices that are built.
    pub decoders: Vec<DeviceId>,
    /// Their price.
    pub cost: f64,
    /// Bytes times links saved per epoch with them.
    pub saved: f64,
    /// Price of the encoders and decoders that the plan with all devices uses.
    pub whole_cost: f64,
    /// What that plan saves.
    pub whole_saved: f64,
    /// Whether no cheaper set reaches the target, or none within the budget saves more: proven by
    /// branch and bound, to 10^-6. Otherwise the set was found by leaving out, step by step, what
    /// saves least for its price.
    pub proven: bool,
}

impl Purchase {
    /// The instance with these devices only. All of its traffic stays: what has no encoder is
    /// carried plain.
    ///
    /// # Errors
    /// None in practice, because devices are left out for all paths of an ingress.
    pub fn apply(&self, instance: &Instance) -> Result<Instance, Error> {
        let mut set = Set::none(instance);
        for &ingress in &self.encoders {
            set.encoders[instance.ingresses[ingress].store as usize] = true;
        }
        self.decoders.iter().for_each(|&device| set.decoders[device] = true);
        set.apply(instance)
    }
}

/// Variables up to which the best set is proven.
const EXACT: usize = 400;

/// Nodes of branch and bound until then.
const NODES: u64 = 400;

/// Share of the devices left out in one step.
const STEP: usize = 8;

/// Devices that are tried one by one in the end.
const TRIES: usize = 60;

/// Relative tolerance of a target.
const NEAR: f64 = 1e-6;

/// Chooses encoders and decoders. `solve` finds the best SmartRE of an instance for the footprint.
///
/// # Errors
/// Prices that are negative or add up to nothing; [`DeviceError::Target`] for a target that all
/// devices do not reach; [`DeviceError::Budget`] for one that buys no encoder with a decoder; those
/// of `solve`; [`Error::Stopped`].
pub fn purchase(
    instance: &Instance,
    tariff: &Tariff,
    aim: Aim,
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &dyn Watch,
) -> Result<Purchase, Error> {
    tariff.check(instance)?;
    let search = Search { instance, tariff, aim, solve, watch };
    let whole = search.value(&Set::all(instance))?;
    let whole_cost = whole.used.cost(instance, tariff);
    if let Aim::Target(target) = aim
        && whole.saved < target * (1.0 - NEAR)
    {
        let most = whole.saved / instance.footprint();
        return Err(DeviceError::Target { asked: target / instance.footprint(), most }.into());
    }
    let mut found = search.leave_out(whole.clone())?;
    let mut proven = false;
    if instance.hop_count() + instance.devices.len() + instance.store_count() <= EXACT
        && let Some(best) = search.exactly(found.as_ref().map(|found| &found.used))?
    {
        proven = true;
        let best = search.value(&best)?;
        if search.fits(&best) && found.as_ref().is_none_or(|found| search.better(&best, found)) {
            found = Some(best);
        }
    }
    let found = found.filter(|found| found.saved > 0.0 || matches!(aim, Aim::Target(_)));
    let Some(found) = found else {
        return Err(DeviceError::Budget { least: search.cheapest() }.into());
    };
    Ok(Purchase {
        encoders: instance
            .stores()
            .zip(&found.used.encoders)
            .filter(|(_, bought)| **bought)
            .map(|(slices, _)| slices.start)
            .collect(),
        decoders: DeviceId::all()
            .zip(&found.used.decoders)
            .filter(|(_, bought)| **bought)
            .map(|(device, _)| device)
            .collect(),
        cost: found.used.cost(instance, tariff),
        saved: found.saved,
        whole_cost,
        whole_saved: whole.saved,
        proven,
    })
}

/// Encoders by packet store, and decoders by device.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    encoders: Vec<bool>,
    decoders: Vec<bool>,
}

impl Set {
    fn none(instance: &Instance) -> Self {
        Self {
            encoders: vec![false; instance.store_count()],
            decoders: vec![false; instance.devices.len()],
        }
    }

    fn all(instance: &Instance) -> Self {
        Self {
            encoders: vec![true; instance.store_count()],
            decoders: vec![true; instance.devices.len()],
        }
    }

    fn apply(&self, instance: &Instance) -> Result<Instance, Error> {
        let store = |path: usize| instance.ingresses[instance.paths[path].ingress as usize].store;
        instance.restricted(|path, hop| {
            self.encoders[store(path) as usize] && self.decoders[hop.device]
        })
    }

    fn cost(&self, instance: &Instance, tariff: &Tariff) -> f64 {
        self.members().map(|member| member.cost(instance, tariff)).sum()
    }

    fn members(&self) -> impl Iterator<Item = Member> + '_ {
        let encoders = self.encoders.iter().enumerate().filter(|(_, bought)| **bought);
        let decoders = DeviceId::all().zip(&self.decoders).filter(|(_, bought)| **bought);
        encoders
            .map(|(store, _)| Member::Encoder(store))
            .chain(decoders.map(|(device, _)| Member::Decoder(device)))
    }

    fn put(&mut self, member: Member, bought: bool) {
        match member {
            Member::Encoder(store) => self.encoders[store] = bought,
            Member::Decoder(device) => self.decoders[device] = bought,
        }
    }
}

/// A device that can be bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Encoder(usize),
    Decoder(DeviceId),
}

impl Member {
    fn cost(self, instance: &Instance, tariff: &Tariff) -> f64 {
        match self {
            Self::Encoder(store) => tariff.encoder(instance, store),
            Self::Decoder(device) => tariff.decoder(instance, device),
        }
    }
}

/// What a set saves, and by which of its devices.
#[derive(Clone, Debug)]
struct Value {
    saved: f64,
    /// Those that do something.
    used: Set,
    /// Per packet store and per device.
    by_encoder: Vec<f64>,
    by_decoder: Vec<f64>,
}

impl Value {
    fn new(instance: &Instance, evaluation: &Evaluation) -> Self {
        let mut by_decoder = vec![0.0; instance.devices.len()];
        for (number, path) in instance.paths.iter().enumerate() {
            for (hop, at) in path.hops.iter().zip(instance.hop_range(number)) {
                by_decoder[hop.device] += f64::from(hop.saves) * evaluation.decoded_bytes[at];
            }
        }
        let by_encoder: Vec<f64> = instance
            .stores()
            .map(|slices| {
                evaluation.ingresses[slices].iter().map(|slice| slice.footprint.saved).sum()
            })
            .collect();
        let saved = evaluation.footprint.saved;
        // Less is what a solver leaves of nothing.
        let useful = |parts: &[f64]| parts.iter().map(|&part| part > 1e-9 * saved).collect();
        let used = Set { encoders: useful(&by_encoder), decoders: useful(&by_decoder) };
        Self { saved, used, by_encoder, by_decoder }
    }

    fn of(&self, member: Member) -> f64 {
        match member {
            Member::Encoder(store) => self.by_encoder[store],
            Member::Decoder(device) => self.by_decoder[device],
        }
    }
}

struct Search<'a> {
    instance: &'a Instance,
    tariff: &'a Tariff,
    aim: Aim,
    solve: &'a dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &'a dyn Watch,
}

impl Search<'_> {
    fn value(&self, set: &Set) -> Result<Value, Error> {
        self.watch.proceed()?;
        let part = set.apply(self.instance)?;
        let solution = (self.solve)(&part)?;
        Ok(Value::new(&part, &evaluate_solution(&part, &solution)?))
    }

    fn fits(&self, value: &Value) -> bool {
        match self.aim {
            Aim::Budget(budget) => value.used.cost(self.instance, self.tariff) <= budget,
            Aim::Target(target) => value.saved >= target * (1.0 - NEAR),
        }
    }

    /// Of two that fit.
    fn better(&self, one: &Value, other: &Value) -> bool {
        let cost = |value: &Value| value.used.cost(self.instance, self.tariff);
        match self.aim {
            Aim::Budget(_) => one.saved > other.saved,
            Aim::Target(_) => cost(one) < cost(other),
        }
    }

    /// Members of a set that saves something, least savings for their price first.
    fn least(&self, value: &Value) -> Vec<Member> {
        let worth = |member: Member| value.of(member) / member.cost(self.instance, self.tariff);
        let mut members: Vec<Member> = value.used.members().collect();
        members.sort_by(|&a, &b| worth(a).total_cmp(&worth(b)));
        members
    }

    /// Leaves out an eighth of the devices at a time as long as the target is reached, or until the
    /// budget is; then one at a time. For a budget, what still fits is then added again, best first.
    fn leave_out(&self, whole: Value) -> Result<Option<Value>, Error> {
        let mut best = whole;
        let mut left_out = Vec::new();
        loop {
            let members = self.least(&best);
            self.watch.progress("devices left", members.len() as u64, 0);
            if matches!(self.aim, Aim::Budget(_)) && self.fits(&best) || members.len() < 2 {
                break;
            }
            let mut set = best.used.clone();
            let step = (members.len() / STEP).max(1);
            for &member in &members[..step] {
                set.put(member, false);
                left_out.push((best.of(member), member));
                if let Aim::Budget(budget) = self.aim
                    && set.cost(self.instance, self.tariff) <= budget
                {
                    break;
                }
            }
            let value = self.value(&set)?;
            if matches!(self.aim, Aim::Target(_)) && !self.fits(&value) {
                break;
            }
            best = value;
        }
        match self.aim {
            Aim::Target(_) => {
                for member in self.least(&best).into_iter().take(TRIES) {
                    let mut set = best.used.clone();
                    set.put(member, false);
                    let value = self.value(&set)?;
                    if self.fits(&value) {
                        best = value;
                    }
                }
            }
            Aim::Budget(_) => {
                left_out.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (_, member) in left_out.into_iter().take(TRIES) {
                    let mut set = best.used.clone();
                    set.put(member, true);
                    let value = self.value(&set)?;
                    if self.fits(&value) && value.saved > best.saved {
                        best = value;
                    }
                }
            }
        }
        Ok(Some(best).filter(|best| self.fits(best)))
    }

    /// The least that buys an encoder and a decoder on a path of its.
    fn cheapest(&self) -> f64 {
        let instance = self.instance;
        let pairs = instance.paths.iter().flat_map(|path| {
            let store = instance.ingresses[path.ingress as usize].store as usize;
            let encoder = self.tariff.encoder(instance, store);
            let useful = path.hops.iter().filter(|hop| hop.saves > 0);
            useful.map(move |hop| encoder + self.tariff.decoder(instance, hop.device))
        });
        pairs.fold(f64::INFINITY, f64::min)
    }

    /// The best set by branch and bound, starting with `hint`; `None` if it was not found within the
    /// limits.
    fn exactly(&self, hint: Option<&Set>) -> Result<Option<Set>, Error> {
        let Self { instance, tariff, aim, .. } = *self;
        let on_paths = on_paths(instance);
        let candidates: Vec<DeviceId> =
            DeviceId::first(instance.devices.len()).filter(|&device| on_paths[device]).collect();
        let unit = Set::all(instance).cost(instance, tariff);
        let for_money = matches!(aim, Aim::Target(_));
        let price = |cost: f64| if for_money { -cost / unit } else { 0.0 };
        let mut model = Model::weighing(
            instance,
            Some((&candidates, candidates.len())),
            if for_money { 0.0 } else { 1.0 },
            |device| price(tariff.decoder(instance, device)),
        );
        let encoders: Vec<Variable> = (0..instance.store_count())
            .map(|store| model.problem.add_binary_var(price(tariff.encoder(instance, store))))
            .collect();
        for (number, path) in instance.paths.iter().enumerate() {
            let ingress = path.ingress as usize;
            let encoder = encoders[instance.ingresses[ingress].store as usize];
            let shares = instance.hop_range(number).map(|at| (model.cached[at], 1.0));
            model.problem.add_constraint(
                shares.chain([(encoder, -instance.coded(ingress))]),
                ComparisonOp::Le,
                0.0,
            );
        }
        match aim {
            Aim::Budget(budget) => {
                let decoders = model.built.iter();
                let decoders =
                    decoders.map(|&(device, built)| (built, tariff.decoder(instance, device)));
                let encoders = encoders.iter().enumerate();
                let encoders =
                    encoders.map(|(store, &built)| (built, tariff.encoder(instance, store)));
                let terms = decoders.chain(encoders).map(|(built, cost)| (built, cost / unit));
                model.problem.add_constraint(terms, ComparisonOp::Le, budget / unit);
            }
            Aim::Target(target) => {
                let (gains, _) = coefficients(instance);
                let terms = model.cached.iter().zip(&gains);
                let terms = terms.map(|(&share, gain)| (share, gain / model.scale));
                model.problem.add_constraint(terms, ComparisonOp::Ge, target / model.scale);
            }
        }
        let mut options = SolveOptions::default();
        options.node_limit = Some(NODES);
        options.tolerances.feasibility = FEASIBILITY;
        options.warm_start = hint.map(|hint| {
            let decoders =
                model.built.iter().map(|&(device, built)| (built, hint.decoders[device]));
            let encoders =
                encoders.iter().zip(&hint.encoders).map(|(&built, &bought)| (built, bought));
            decoders
                .chain(encoders)
                .map(|(built, bought)| (built, if bought { 1.0 } else { 0.0 }))
                .collect()
        });
        // Numbers that differ too much in size are no reason to fail: there is the other search.
        let Ok(outcome) = model.problem.solve_with(options) else { return Ok(None) };
        if !outcome.is_optimal() {
            return Ok(None);
        }
        let SolveOutcome::Solution(solution) = outcome else { return Ok(None) };
        let mut set = Set::none(instance);
        for (store, &built) in encoders.iter().enumerate() {
            set.encoders[store] = solution.var_value(built) > 0.5;
        }
        for &(device, built) in &model.built {
            set.decoders[device] = solution.var_value(built) > 0.5;
        }
        Ok(Some(set))
    }
}

#[cfg(test)]
mod tests;
