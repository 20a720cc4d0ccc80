//! Content by the set of egresses that it goes to.

use crate::NodeId;

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
    /// Every class with bytes. A class of a single egress comes before those of several.
    pub fn list(&self) -> Vec<Class> {
        let (population, rho, inter, bytes) = match self {
            Self::Listed(classes) => {
                return classes.iter().filter(|class| class.bytes > 0.0).cloned().collect();
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
        let mut classes = Vec::new();
        let single = unique * (1.0 - duplicated * inter);
        let copies = (1.0 + duplicated - 2.0 * duplicated * inter) / (1.0 - duplicated * inter);
        if single > 0.0 {
            classes.extend(ends.iter().map(|&(end, population)| Class {
                egresses: [end].into(),
                bytes: single * population / total,
                copies: [copies].into(),
            }));
        }
        let shared = unique * duplicated * inter;
        if shared > 0.0 {
            for (at, &(one, first)) in ends.iter().enumerate() {
                classes.extend(ends[at + 1..].iter().map(|&(other, second)| Class {
                    egresses: [one, other].into(),
                    bytes: shared * first * second / pairs,
                    copies: [1.0, 1.0].into(),
                }));
            }
        }
        classes
    }
}
