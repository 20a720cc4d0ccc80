//! Links and devices of a path, current or as an ingress knows them.

use crate::{
    DeviceId, Instance, LinkId, Path,
    error::{EmulationError, RouteFault},
};

/// The links of a path, and the devices on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Links in order.
    pub links: Box<[LinkId]>,
    /// The device that each link leads to, if any.
    pub devices: Box<[Option<DeviceId>]>,
}

impl Route {
    /// A route over these links; `of_link` says which device, if any, each link leads to.
    pub fn new(links: &[LinkId], of_link: &[Option<DeviceId>]) -> Self {
        Self { links: links.into(), devices: links.iter().map(|&link| of_link[link]).collect() }
    }

    /// A route by the devices that its links lead to.
    pub fn through(devices: Vec<Option<DeviceId>>) -> Self {
        Self { links: [].into(), devices: devices.into() }
    }

    /// The route of an instance's path, with the devices that decode for it.
    pub fn planned(path: &Path) -> Self {
        let mut devices = vec![None; path.links.len()];
        for hop in &path.hops {
            devices[hop.distance as usize - 1] = Some(hop.device);
        }
        Self { links: path.links.clone(), devices: devices.into() }
    }

    /// Links to a device, if it is on the route.
    pub fn distance(&self, device: DeviceId) -> Option<u32> {
        self.devices.iter().position(|&found| found == Some(device)).map(|at| at as u32 + 1)
    }

    /// Whether it has exactly these devices, in this order.
    pub fn meets(&self, devices: &[DeviceId]) -> bool {
        self.devices.iter().flatten().eq(devices)
    }
}

/// The routes of an ingress's paths, as it knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Numbers of the paths, ascending; none if they are counted from 0.
    ids: Option<Box<[u32]>>,
    routes: Vec<Route>,
    nowhere: Route,
}

impl Routes {
    /// Routes of paths that are counted from 0.
    pub fn all(routes: Vec<Route>) -> Self {
        Self { ids: None, routes, nowhere: Route::through(Vec::new()) }
    }

    /// Routes of paths with these numbers. Of a number that comes twice, one counts.
    pub fn numbered(mut routes: Vec<(u32, Route)>) -> Self {
        routes.sort_by_key(|&(path, _)| path);
        let (ids, routes): (Vec<u32>, Vec<Route>) = routes.into_iter().unzip();
        Self { ids: Some(ids.into()), ..Self::all(routes) }
    }

    /// The route of a path; one without links, if it has none.
    pub fn of(&self, path: u32) -> &Route {
        let at = match &self.ids {
            Some(ids) => ids.binary_search(&path).ok(),
            None => Some(path as usize),
        };
        at.and_then(|at| self.routes.get(at)).unwrap_or(&self.nowhere)
    }

    /// All, in order of their numbers.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Route> {
        self.routes.iter()
    }

    /// Replaces the route of a path of those that are counted from 0.
    pub(crate) fn set(&mut self, path: u32, route: Route) {
        self.routes[path as usize] = route;
    }
}

/// Whether a path may take these links: from its ingress to its egress, no node twice.
pub(crate) fn check(
    instance: &Instance,
    path: u32,
    links: &[LinkId],
) -> Result<(), EmulationError> {
    let Some(of) = instance.paths.get(path as usize) else {
        return Err(EmulationError::Index {
            what: "another route for path",
            index: path as usize,
            count: instance.paths.len(),
        });
    };
    let wrong = |fault| Err(EmulationError::Route { path, fault });
    let mut at = instance.ingresses[of.ingress as usize].node;
    let mut seen = std::collections::BTreeSet::from([at]);
    for &number in links {
        match instance.network.links.get(number.index()) {
            None => {
                let links = instance.network.links.len();
                return wrong(RouteFault::Link { link: number, links });
            }
            Some(link) if link.from != at => return wrong(RouteFault::Broken),
            Some(link) => at = link.to,
        }
        if !seen.insert(at) {
            return wrong(RouteFault::Loop);
        }
    }
    if at == of.egress { Ok(()) } else { wrong(RouteFault::Elsewhere) }
}
