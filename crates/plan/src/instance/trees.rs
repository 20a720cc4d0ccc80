//! Whether the paths of each ingress form a tree.

use super::Instance;
use crate::{LinkId, NodeId, error::PathError};

impl Instance {
    /// Whether the paths of each ingress form a tree: two of them that have separated do not join
    /// again. The overlap of two paths' caches is one range of hashes then (thesis, section 3.3),
    /// which the program and its solver, manifests and the emulator's ingresses rely on. They ask;
    /// [`evaluate`](mod@crate::evaluate) and the baselines do not need it.
    ///
    /// Linear in the links of all paths.
    ///
    /// # Errors
    /// [`PathError::NotATree`] with the first two paths that join again.
    pub fn check_trees(&self) -> Result<(), PathError> {
        // Of each node the link on which this ingress's paths reach it, and the first such path.
        let mut parents: Vec<Option<(u32, LinkId, usize)>> = vec![None; self.network.nodes.len()];
        for (number, path) in self.paths.iter().enumerate() {
            for &link in &path.links {
                let at = self.network.links[link].to;
                match parents[at] {
                    Some((ingress, known, first)) if ingress == path.ingress => {
                        if known != link {
                            return Err(self.not_a_tree(first, number, at));
                        }
                    }
                    _ => parents[at] = Some((path.ingress, link, number)),
                }
            }
        }
        Ok(())
    }

    fn not_a_tree(&self, first: usize, second: usize, at: NodeId) -> PathError {
        let name = |node: NodeId| self.network.nodes[node].id.clone();
        let ingress = self.ingresses[self.paths[first].ingress as usize].node;
        let egress = |path: usize| name(self.paths[path].egress);
        PathError::NotATree {
            ingress: name(ingress),
            first: egress(first),
            second: egress(second),
            at: name(at),
        }
    }
}
