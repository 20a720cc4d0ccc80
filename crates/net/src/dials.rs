//! How many connections are being made at once, divided among peers and their domains.
//!
//! A look-up or an attempt to connect may take many seconds, if nobody answers. With one queue for
//! all, a peer that connects to such addresses would keep all others from connecting.

use crate::sync::lock;
use oncewire_session::Owner;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// At once for all sessions together, beyond [`RESERVED`] for each.
const COMMON: usize = 256;
/// At once for a session, whatever the others do.
const RESERVED: usize = 4;
/// At once for a session out of [`COMMON`]. A key has at most four sessions, so half of it for a key.
const MOST: usize = COMMON / 8;
/// At once for one domain of a session.
const MOST_OF_DOMAIN: usize = MOST / 2;
/// Of these, how many may be of [`RESERVED`].
const RESERVED_OF_DOMAIN: usize = RESERVED / 2;
/// Domains of a session that are noted before those that are done are looked for.
const LEAST_DOMAINS: usize = 64;

static COMMON_DIALS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(COMMON)));

/// The share of a domain.
#[derive(Debug)]
struct Share {
    all: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
}

/// The connections that one session's peer may have made at once.
#[derive(Debug)]
pub(crate) struct Dials {
    common: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    most: Arc<Semaphore>,
    domains: Mutex<Domains>,
}

/// Domains that are connecting or waiting to, and some that are done.
#[derive(Debug)]
struct Domains {
    shares: HashMap<Owner, Weak<Share>>,
    /// How many there may be before those that are done are forgotten.
    most: usize,
}

/// Permission to make one connection; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct DialPermit {
    _permits: [OwnedSemaphorePermit; 3],
    /// Keeps the domain's share while it is in use.
    _share: Arc<Share>,
}

impl Default for Dials {
    fn default() -> Dials {
        Dials::new(COMMON_DIALS.clone())
    }
}

impl Dials {
    fn new(common: Arc<Semaphore>) -> Dials {
        Dials {
            common,
            reserved: Arc::new(Semaphore::new(RESERVED)),
            most: Arc::new(Semaphore::new(MOST)),
            domains: Mutex::new(Domains { shares: HashMap::new(), most: LEAST_DOMAINS }),
        }
    }

    /// Waits until one more connection for this owner may be made. Waits only for the owner itself
    /// and its session, unless these have more than their reserved share in progress.
    ///
    /// # Errors
    /// Never: no semaphore is ever closed.
    pub(crate) async fn acquire(&self, owner: &Owner) -> Result<DialPermit, AcquireError> {
        let share = self.share(owner);
        let of_domain = share.all.clone().acquire_owned().await?;
        let reserved = async {
            let of_domain = share.reserved.clone().acquire_owned().await?;
            let of_session = self.reserved.clone().acquire_owned().await?;
            Ok([of_domain, of_session])
        };
        let common = async {
            let of_session = self.most.clone().acquire_owned().await?;
            let of_all = self.common.clone().acquire_owned().await?;
            Ok([of_session, of_all])
        };
        let [first, second] = tokio::select! {
            biased;
            permits = common => permits?,
            permits = reserved => permits?,
        };
        Ok(DialPermit { _permits: [of_domain, first, second], _share: share })
    }

    fn share(&self, owner: &Owner) -> Arc<Share> {
        let mut domains = lock(&self.domains);
        if let Some(share) = domains.shares.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        if domains.shares.len() >= domains.most {
            domains.shares.retain(|_, share| share.strong_count() > 0);
            domains.most = (2 * domains.shares.len()).max(LEAST_DOMAINS);
        }
        let share = Arc::new(Share {
            all: Arc::new(Semaphore::new(MOST_OF_DOMAIN)),
            reserved: Arc::new(Semaphore::new(RESERVED_OF_DOMAIN)),
        });
        domains.shares.insert(owner.clone(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        name.as_bytes().into()
    }

    /// Takes as many permits as there are without waiting, up to `most`.
    async fn take(dials: &Dials, owner: &Owner, most: usize) -> Vec<DialPermit> {
        let mut taken = Vec::new();
        while taken.len() < most {
            tokio::select! {
                biased;
                // Without the budget that would make a task wait after so many steps.
                permit = tokio::task::unconstrained(dials.acquire(owner)) => {
                    taken.push(permit.unwrap());
                }
                () = std::future::ready(()) => break,
            }
        }
        taken
    }

    #[tokio::test]
    async fn no_peer_and_no_domain_keeps_others_from_connecting() {
        let common = Arc::new(Semaphore::new(COMMON));
        let dials = || Dials::new(common.clone());
        let hostile: Vec<Dials> = (0..10).map(|_| dials()).collect();
        let mut held = Vec::new();
        // One domain of a peer leaves room for another one of it.
        let mut of_domain = take(&hostile[0], &owner("a"), 1000).await;
        assert_eq!(of_domain.len(), MOST_OF_DOMAIN);
        held.append(&mut of_domain);
        assert_eq!(take(&hostile[0], &owner("b"), 1).await.len(), 1);
        for peer in &hostile {
            for name in 0..100 {
                held.append(&mut take(peer, &owner(&name.to_string()), 1000).await);
            }
        }
        assert_eq!(common.available_permits(), 0);
        assert_eq!(held.len(), COMMON + hostile.len() * RESERVED, "all is in use, and no more");
        // Another peer connects at once, and whatever one of its domains does, so does another.
        let honest = dials();
        let first = take(&honest, &owner("a"), 1000).await;
        assert_eq!(first.len(), RESERVED_OF_DOMAIN);
        let second = take(&honest, &owner("b"), 1000).await;
        assert_eq!(second.len(), RESERVED - RESERVED_OF_DOMAIN);
        // What ends is available again, and little is kept of domains that are done.
        drop((held, first, second));
        assert_eq!(common.available_permits(), COMMON);
        assert_eq!(take(&honest, &owner("c"), 1000).await.len(), MOST_OF_DOMAIN);
        for name in 0..1000 {
            assert_eq!(take(&honest, &owner(&name.to_string()), 1).await.len(), 1);
        }
        assert!(lock(&honest.domains).shares.len() <= LEAST_DOMAINS);
    }
}
