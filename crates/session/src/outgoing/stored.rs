//! What of the sending half a store keeps.

use super::Outgoing;
use crate::epoch::Epoch;
use crate::store::{Content, Unwritten, runs_of};
use oncewire_codec::{Encoder, Sharing};
use std::ops::Range;

impl Outgoing {
    /// What the store writes next.
    pub(crate) fn unwritten(&mut self) -> Option<Unwritten> {
        let sharing = self.template.shares();
        let encoder = self.log.as_ref().map(|log| log.encoder.as_deref());
        match encoder {
            // Without a log there is no content to copy.
            None => self.store.next(Some(|_| None)),
            Some(encoder) => self.store.next(encoder.map(|encoder| content_of(encoder, sharing))),
        }
    }

    /// Whether the driver has to be told that [`Outgoing::unwritten`] has something.
    pub(crate) fn has_news(&mut self) -> bool {
        self.store.take_news(self.is_lent)
    }

    /// What waits for the store is not written.
    pub(crate) fn forget_unwritten(&mut self) {
        self.store.clear();
    }

    pub(crate) fn has_store(&self) -> bool {
        self.store.has_store()
    }

    /// An epoch is durable in the store. Returns whether that is what EPOCH waits for.
    pub(crate) fn committed(&mut self, epoch: Epoch) -> bool {
        self.uncommitted.take_if(|waits| *waits == epoch).is_some()
    }

    /// EPOCH of the current epoch may be sent.
    pub(crate) fn is_committed(&self) -> bool {
        self.uncommitted.is_none()
    }

    /// The driver has no store any more.
    pub(crate) fn give_up_store(&mut self) {
        self.store.give_up();
        self.recall = None;
        self.uncommitted = None;
    }

    /// Copies what goes to the store while the encoder is here.
    pub(super) fn copy_to_store(&mut self) {
        let sharing = self.template.shares();
        if let Some(encoder) = self.log.as_ref().and_then(|log| log.encoder.as_deref()) {
            self.store.copy(content_of(encoder, sharing));
        }
    }
}

/// Copies a range of a sending log, and notes whose it is.
pub(super) fn content_of(encoder: &Encoder, sharing: Sharing) -> impl FnMut(Range<u64>) -> Content {
    move |range| {
        let bytes = encoder.content(range.clone())?.to_vec();
        Some((bytes, runs_of(encoder.owners(range), sharing)))
    }
}
