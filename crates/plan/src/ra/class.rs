//! Content by the set of egresses that it goes to.

use crate::{Error, Network, NodeId, error::RouteError, traffic};

/// Content of an ingress that goes to the same egresses within an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Egresses, each once, sorted.
    pub egresses: Box<[NodeId]>,
    /// Bytes of one copy.
    pub bytes: f64,
    /// Copies to each egress, in the order of `egresses`; at least 1 on average over the bytes.
    pub copies: Box<[f64]>,
}

/// Classes of an ingress: listed, or in closed form.
#[derive(Clone, Debug, PartialEq)]
pub enum Classes {
    /// Each on its own.
    Listed(Vec<Class>),
    /// The thesis's synthetic traffic (section 6.5, "Synthetic Traces"). A byte has one duplicate
    /// with probability rho/(1 - rho). With probability `inter`, that one goes to another egress:
    /// the pair is drawn in proportion to the product of populations. Otherwise both go to one
    /// egress, as a byte without a duplicate does, drawn in proportion to its population.
    Gravity {
        /// Population per node of the network: 0 at the ingress and where no traffic leaves.
        population: Vec<f64>,
        /// Fraction of the traffic that is redundant, 0 to 0.5.
        rho: f64,
        /// Fraction of the duplicates that go to another egress, 0 to 1.
        inter: f64,
        /// Bytes that enter per interval, all copies.
        bytes: f64,
    },
}

impl Classes {
    /// Bytes of all copies per interval.
    pub fn bytes(&self) -> f64 {
        match self {
            Self::Gravity { population, bytes, .. } => {
                if population.iter().any(|&population| population > 0.0) { *bytes } else { 0.0 }
            }
            Self::Listed(classes) => {
                let of = |class: &Class| class.bytes * class.copies.iter().sum::<f64>();
                classes.iter().map(of).sum()
            }
        }
    }

    /// Multiplies all bytes.
    pub fn scale(&mut self, by: f64) {
        match self {
            Self::Gravity { bytes, .. } => *bytes *= by,
            Self::Listed(classes) => classes.iter_mut().for_each(|class| class.bytes *= by),
        }
    }

    /// Checks that numbers are in range and nodes exist.
    pub(crate) fn check(
        &self,
        ingress: NodeId,
        nodes: usize,
        name: impl Fn() -> String,
    ) -> Result<(), Error> {
        let range = |what, value, range| Err(RouteError::Range { what, value, range }.into());
        let bad = |value: f64| !(value >= 0.0 && value.is_finite());
        let to_itself = || Err(RouteError::ToItself { ingress: name() }.into());
        match self {
            Self::Gravity { population, rho, inter, bytes } => {
                if !(0.0..=0.5).contains(rho) {
                    return range(
                        "redundant fraction of the traffic (rho)",
                        *rho,
                        "0 to 0.5, because a byte has one duplicate at most",
                    );
                }
                if !(0.0..=1.0).contains(inter) {
                    return range("fraction of duplicates for another egress", *inter, "0 to 1");
                }
                if bad(*bytes) {
                    return range("traffic of an ingress in bytes", *bytes, "0 or more");
                }
                if let Some(&population) = population.iter().find(|&&population| bad(population)) {
                    return range("population", population, "0 or more");
                }
                if population.len() > nodes {
                    return Err(
                        RouteError::UnknownNode { node: population.len() - 1, nodes }.into()
                    );
                }
                if population.get(ingress.index()).is_some_and(|&population| population > 0.0) {
                    return to_itself();
                }
            }
            Self::Listed(classes) => {
                for class in classes {
                    let wrong =
                        |reason: String| Err(RouteError::Class { ingress: name(), reason }.into());
                    if let Some(egress) =
                        class.egresses.iter().find(|egress| egress.index() >= nodes)
                    {
                        return Err(RouteError::UnknownNode { node: egress.index(), nodes }.into());
                    }
                    if class.egresses.is_empty() {
                        return wrong("it has no egress".into());
                    }
                    if class.egresses.contains(&ingress) {
                        return to_itself();
                    }
                    if !class.egresses.is_sorted_by(|one, other| one < other) {
                        return wrong("its egresses are not sorted, or repeat".into());
                    }
                    if bad(class.bytes) {
                        return wrong(format!("{} bytes", class.bytes));
                    }
                    if class.copies.len() != class.egresses.len() {
                        return wrong(format!(
                            "{} egresses, but copies for {}",
                            class.egresses.len(),
                            class.copies.len()
                        ));
                    }
                    if let Some(copies) =
                        class.copies.iter().find(|&&copies| !(copies >= 1.0 && copies.is_finite()))
                    {
                        return wrong(format!(
                            "more is shared than sent: {copies} copies of each byte to an egress"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Every class with bytes. A class of a single egress comes before those of several.
    pub fn list(&self) -> Vec<Class> {
        let mut list = Vec::new();
        self.visit(|egresses, bytes, copies| {
            list.push(Class { egresses: egresses.into(), bytes, copies: copies.into() });
        });
        list
    }

    /// Calls `each` with egresses, bytes and copies of every class with bytes, in the order of
    /// [`Self::list`].
    pub(crate) fn visit(&self, mut each: impl FnMut(&[NodeId], f64, &[f64])) {
        let (population, rho, inter, bytes) = match self {
            Self::Listed(classes) => {
                for class in classes.iter().filter(|class| class.bytes > 0.0) {
                    each(&class.egresses, class.bytes, &class.copies);
                }
                return;
            }
            Self::Gravity { population, rho, inter, bytes } => (population, *rho, *inter, *bytes),
        };
        let ends: Vec<(NodeId, f64)> = NodeId::all()
            .zip(population.iter().copied())
            .filter(|&(_, population)| population > 0.0)
            .collect();
        let total: f64 = ends.iter().map(|end| end.1).sum();
        let squares: f64 = ends.iter().map(|end| end.1 * end.1).sum();
        let pairs = (total * total - squares) / 2.0;
        let duplicated = rho / (1.0 - rho);
        // A duplicate for another egress needs one.
        let inter = if ends.len() > 1 { inter } else { 0.0 };
        let unique = bytes * (1.0 - rho);
        let single = unique * (1.0 - duplicated * inter);
        let copies = (1.0 + duplicated - 2.0 * duplicated * inter) / (1.0 - duplicated * inter);
        if single > 0.0 {
            for &(end, population) in &ends {
                each(&[end], single * population / total, &[copies]);
            }
        }
        let shared = unique * duplicated * inter;
        if shared > 0.0 {
            for (at, &(one, first)) in ends.iter().enumerate() {
                for &(other, second) in &ends[at + 1..] {
                    each(&[one, other], shared * first * second / pairs, &[1.0, 1.0]);
                }
            }
        }
    }
}

/// Synthetic traffic of every endpoint, as [`Classes::Gravity`]. What enters is in proportion to
/// population and adds up to `bytes` per interval; nothing goes to endpoints of the same PoP.
///
/// # Errors
/// As [`traffic::gravity`].
pub fn gravity(
    network: &Network,
    rho: f64,
    inter: f64,
    bytes: f64,
) -> Result<Vec<(NodeId, Classes)>, Error> {
    let ends = traffic::populations(network)?;
    if ends.iter().all(|&(end, _)| network.nodes[end].pop == network.nodes[ends[0].0].pop) {
        return Err(crate::error::PathError::TooFewPops.into());
    }
    let total: f64 = ends.iter().map(|end| end.1).sum();
    let classes = |&(ingress, own): &(NodeId, f64)| {
        let mut population = vec![0.0; network.nodes.len()];
        for &(end, share) in &ends {
            if network.nodes[end].pop != network.nodes[ingress].pop {
                population[end] = share;
            }
        }
        (ingress, Classes::Gravity { population, rho, inter, bytes: bytes * own / total })
    };
    Ok(ends.iter().map(classes).collect())
}
