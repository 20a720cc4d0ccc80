//! What packets make of a plan: by references to all copies.

use super::Request;
use crate::{
    Error, Instance, Solution, Watch,
    emulate::{
        Limits, Rules,
        spread::{Offers, Style},
    },
};

/// Which plan is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taken {
    /// The program's optimum, which counts each match with the first copy of its bytes.
    #[default]
    Optimum,
    /// The plan that is expected to save most if packets refer to all copies, as in nodes and in the
    /// emulator (`docs/PLANNERS.md`, "Copies"). For footprints of one hour only.
    Expected,
}

/// What plans are expected to save, as shares of the footprint, if packets refer to all copies and
/// devices do what they can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// The program's optimum.
    pub optimum: f64,
    /// The plan of which most is expected.
    pub best: f64,
    /// With which limits that one was made.
    pub limits: Limits,
    /// Whether it was taken.
    pub taken: bool,
}

/// The plan to take, given the program's optimum for an instance.
///
/// # Errors
/// Those of the solver; [`Error::Stopped`].
pub(super) fn choose(
    request: &Request,
    instance: &Instance,
    optimum: Solution,
    watch: &dyn Watch,
) -> Result<(Solution, Copies), Error> {
    let style =
        Style { headroom: request.headroom, cache_all: request.cache_all, rules: Rules::default() };
    let offers = Offers::new(instance, style, None, watch)?;
    let footprint = instance.footprint();
    let part = |saved: f64| if footprint > 0.0 { saved / footprint } else { 0.0 };
    let best = &offers.all[offers.expected()];
    let mut copies = Copies {
        optimum: part(offers.all[0].saved),
        best: part(best.saved),
        limits: best.limits,
        taken: request.taken == Taken::Expected,
    };
    if !copies.taken {
        // The tie-break may take one of which a little less is expected.
        copies.best = copies.best.max(copies.optimum);
        return Ok((optimum, copies));
    }
    // Bound and prices are those of all that devices have.
    let Solution { cached, objective, .. } = best.solution.clone();
    Ok((Solution { cached, objective, ..optimum }, copies))
}
