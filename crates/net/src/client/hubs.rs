//! Which of a server's addresses to try first, if its name has several: those of hubs that do not
//! know each other's sessions and caches.

use crate::sync::lock;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

/// How long the hub that has the session, or had the last one, may take to answer before others are
/// asked. Longer than a lost SYN takes to be sent again, and a round trip through a satellite.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// The hub of the last session.
#[derive(Debug, Default)]
pub(super) struct Hubs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Where the last session was.
    last: Option<SocketAddr>,
    /// It refused or drains: others come first.
    left: bool,
}

impl Hubs {
    /// A session was established here.
    pub(super) fn stay(&self, address: SocketAddr) {
        *lock(&self.0) = Known { last: Some(address), left: false };
    }

    /// The hub takes no more sessions now.
    pub(super) fn leave(&self) {
        lock(&self.0).left = true;
    }

    /// The address to try before all others, if there is one and there are others, and these in
    /// order. That is where the session is (`own`), which no other hub knows, even one that takes no
    /// more sessions; without one, where the last was.
    pub(super) fn order(
        &self,
        mut addresses: Vec<SocketAddr>,
        own: Option<SocketAddr>,
    ) -> (Option<SocketAddr>, Vec<SocketAddr>) {
        let known = lock(&self.0);
        let wanted = own.or(known.last);
        let found = addresses.iter().position(|address| Some(*address) == wanted);
        match found {
            Some(at) if addresses.len() > 1 => {
                let last = addresses.remove(at);
                if own.is_some() || !known.left {
                    return (Some(last), addresses);
                }
                addresses.push(last);
                (None, addresses)
            }
            _ => (None, addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_stays_with_its_hub_until_that_refuses() {
        let [a, b, c] = [1, 2, 3].map(|host| SocketAddr::from(([192, 0, 2, host], 7077)));
        let hubs = Hubs::default();
        assert_eq!(hubs.order(vec![a, b, c], None), (None, vec![a, b, c]));
        hubs.stay(b);
        // Whatever order the name service has now.
        assert_eq!(hubs.order(vec![c, b, a], None), (Some(b), vec![c, a]));
        assert_eq!(hubs.order(vec![b], None), (None, vec![b]), "there is nothing to choose");
        assert_eq!(hubs.order(vec![a, c], None), (None, vec![a, c]), "it has moved");
        hubs.leave();
        assert_eq!(hubs.order(vec![b, a, c], None), (None, vec![a, c, b]));
        // A session that goes on there while it drains is nowhere else.
        assert_eq!(hubs.order(vec![a, b, c], Some(b)), (Some(b), vec![a, c]));
        hubs.stay(c);
        assert_eq!(hubs.order(vec![a, b, c], Some(b)), (Some(b), vec![a, c]));
        assert_eq!(hubs.order(vec![a, b, c], None), (Some(c), vec![a, b]));
    }
}
