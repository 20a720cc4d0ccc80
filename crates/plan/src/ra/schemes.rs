//! The routes beside others, as far as there was time to compute those.

use super::{
    Cost, Routes, Scheme, heuristic,
    judge::Judged,
    steps::{Plain, Steps},
};
use crate::{Error, network::Link};

impl Steps<'_> {
    /// These routes and those that they are compared with.
    pub(super) fn schemes(
        &mut self,
        plain: Option<&Plain>,
        shortest: &Judged,
        routes: &Routes,
        judged: &Judged,
    ) -> Result<Vec<Scheme>, Error> {
        let mut schemes = self.own_schemes(shortest, judged);
        match plain.map(|plain| self.other_schemes(plain, routes)) {
            None => {}
            Some(Err(Error::Stopped)) => self.unfinished.schemes = true,
            Some(others) => drop(schemes.splice(2..2, others?)),
        }
        Ok(schemes)
    }

    /// Shortest paths, and these routes.
    pub(super) fn own_schemes(&self, shortest: &Judged, judged: &Judged) -> Vec<Scheme> {
        vec![
            self.scheme("SP", &shortest.copies),
            self.scheme("SP-RE", &shortest.loads),
            self.scheme("RA", &judged.loads),
        ]
    }

    /// Schemes over the routes for the least load without elimination, and the thesis's heuristic.
    fn other_schemes(&self, plain: &Plain, routes: &Routes) -> Result<Vec<Scheme>, Error> {
        let Self { request, ingresses, eliminates, watch, .. } = self;
        watch.proceed()?;
        let network = request.network;
        let each: Vec<f64> = network.links.iter().map(|link| self.each(link)).collect();
        let found = self.judge(&plain.routes)?;
        let ideal = heuristic::ideal(network, ingresses, &plain.routes, eliminates, *watch)?;
        let packets = heuristic::packets(network, ingresses, routes, eliminates, &each, *watch)?;
        Ok(vec![
            self.scheme("LP-SP", &found.copies),
            self.scheme("SP-Optimal", &ideal),
            self.scheme("LP-SP with RE", &found.loads),
            self.scheme("RA-Heuristic", &packets),
        ])
    }

    fn scheme(&self, name: &'static str, loads: &[f64]) -> Scheme {
        let links = &self.request.network.links;
        let footprint = loads.iter().zip(links).map(|(load, link)| load * self.each(link)).sum();
        Scheme { name, footprint, utilization: self.busiest(loads) }
    }

    /// What a byte costs on a link.
    fn each(&self, link: &Link) -> f64 {
        if self.request.cost == Cost::Latency { link.latency } else { 1.0 }
    }
}
