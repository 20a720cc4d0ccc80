//! New plans during a run.

use std::{cell::Cell, rc::Rc};

use super::{
    Allocation, Observed, Replanner,
    spread::{self, Style},
};
use crate::{Error, Instance, LinkId, Unwatched, lp::WarmStart, measure::Measurement};

/// Makes new plans from what ingresses measure.
pub(super) struct Planner {
    pub(super) instance: Instance,
    pub(super) warm: Option<WarmStart>,
    /// Routes of the last plan that are not the instance's.
    pub(super) routes: Vec<(u32, Box<[LinkId]>)>,
    pub(super) style: Style,
    pub(super) made: Rc<Cell<u32>>,
}

impl Replanner for Planner {
    fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error> {
        let measured =
            Measurement { volumes: observed.volumes.clone(), profile: observed.profile.clone() };
        let mut instance = measured.apply(&self.instance)?;
        if self.routes != observed.routes {
            // Another program.
            self.warm = None;
            self.routes.clone_from(&observed.routes);
        }
        if !observed.routes.is_empty() {
            let device_of_link = instance.devices_of_links();
            let routes = observed.routes.iter().map(|(path, links)| (*path, &links[..]));
            instance = instance.rerouted(routes, &device_of_link);
            if instance.check_trees().is_err() {
                // Ingresses go on with the old manifests, as far as they suit the new routes.
                return Ok(None);
            }
        }
        let (allocation, warm) =
            spread::allocate(&instance, self.style, self.warm.as_ref(), &Unwatched)?;
        self.warm = Some(warm);
        self.made.set(self.made.get() + 1);
        Ok(Some(allocation))
    }
}
