//! A driver whose session's logs are on disk, too.

use super::Driver;
use crate::keys::PublicKey;
use crate::store::{ContentStore, Holder};
use oncewire_session::{Session, Side};
use std::sync::{Arc, Weak};

impl Driver {
    /// Keeps the logs of its session on disk.
    pub(crate) fn keep_on_disk(self: &Arc<Driver>, store: &ContentStore) {
        let holder: Weak<Driver> = Arc::downgrade(self);
        let number = store.register(holder);
        let _ = self.store.set((store.clone(), number));
        self.wake_store();
    }

    /// The store asks for what came before it could: without the peer's key, nothing is written.
    pub(super) fn wake_store(&self) {
        if let Some((store, number)) = self.store.get() {
            for side in [Side::Sending, Side::Receiving] {
                store.ready(*number, side);
            }
        }
    }
}

impl Holder for Driver {
    fn call(&self, act: &mut dyn FnMut(&mut Session)) {
        self.with(act);
    }

    fn has_session(&self) -> bool {
        self.lock().session.is_some()
    }

    fn peer(&self) -> Option<PublicKey> {
        self.peer.get().copied()
    }

    fn decode(&self) {
        self.decode_here();
    }
}
