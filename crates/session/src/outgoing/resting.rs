//! Logs that go on: in another session; and without their ring, because memory is needed elsewhere or
//! the log changes its size. What both ends store of it stays then.

use super::log::{Known, SentLog};
use super::writing::Writing;
use super::{MOST_EPOCHS, Outgoing, add, geometry};
use crate::config::encoder_of;
use crate::encode_job::EncoderFailed;
use crate::epoch::{Epoch, Keep};
use crate::hello::LogState;
use crate::incoming::MOST_LEFT;
use crate::store::{Place, Places};
use oncewire_codec::Encoder;
use std::collections::VecDeque;

/// A log without a ring, of which everything was acknowledged, or all above a place was dropped.
pub(super) struct Resting {
    epoch: Epoch,
    key: u64,
    /// Where it goes on.
    end: Place,
    places: Places,
    /// Number of the next block.
    next: u64,
}

impl Outgoing {
    /// Whether the peer can go on with an empty ring, too.
    pub(crate) fn set_peer_goes_on(&mut self, goes_on: bool) {
        self.peer_goes_on = goes_on;
    }

    /// Whether the peer stores what it receives.
    pub(crate) fn peer_goes_on(&self) -> bool {
        self.peer_goes_on
    }

    /// Gives up the ring and its memory; and the log, too, unless both ends store it.
    pub(crate) fn release(&mut self) {
        let end = self.log.as_ref().filter(|log| log.blocks.is_empty());
        let end = end.map(|log| Place { offset: log.acknowledged, chain: log.acknowledged_chain });
        if !end.is_some_and(|end| self.rest_at(end)) && self.resting.is_none() {
            self.discard();
        }
    }

    /// Drops the ring, to go on at one of the log's places. Returns whether that is possible.
    fn rest_at(&mut self, end: Place) -> bool {
        if !self.store.has_store() || !self.peer_goes_on {
            return false;
        }
        let Some(mut log) = self.log.take_if(|log| log.encoder.is_some()) else { return false };
        let sharing = self.template.shares();
        if let Some(encoder) = &log.encoder {
            self.store.copy_all(MOST_LEFT, super::stored::content_of(encoder, sharing));
        }
        add(&mut self.past, log.known.stats);
        log.places.rewind(end.offset);
        self.uncommitted = None;
        self.resting = Some(Resting {
            epoch: log.epoch,
            key: log.key,
            end,
            places: log.places,
            next: log.first + log.blocks.len() as u64,
        });
        true
    }

    /// Whether the peer's decoder has this log, by its id.
    pub(crate) fn is_held(&self, peer: Epoch) -> bool {
        let resting = self.resting.as_ref().map_or(Epoch::NONE, |resting| resting.epoch);
        let own = if self.log.is_some() { self.epoch() } else { resting };
        own != Epoch::NONE && own.log == peer.log
    }

    /// The peer's decoder has this epoch: a log that rests and is not that is lost.
    pub(crate) fn check_resting(&mut self, peer: Epoch) {
        if self.resting.take_if(|resting| resting.epoch != peer).is_some() {
            self.store.drop_log();
        }
    }

    /// Goes on with an empty ring of `size` bytes where the log has ended, of which nothing is in
    /// flight. Returns `false` if either end does not store it, or if there is none.
    pub(crate) fn go_on(&mut self, size: u64) -> Result<bool, EncoderFailed> {
        if self.log.as_ref().is_some_and(|log| log.known.end > 0 && log.blocks.is_empty()) {
            self.release();
        }
        match self.resting.take() {
            Some(resting) if resting.epoch.number < MOST_EPOCHS && self.log.is_none() => {
                let number = resting.epoch.number + 1;
                self.begin_ring(resting, number, size).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Continues in a new epoch at the highest place that both ends have, of the peer's acknowledged
    /// offset and the places that it names. It holds all content from `held_from` on. If both store
    /// the log, and memory does not go back to such a place, it goes on there with an empty ring of
    /// `size` bytes. Returns `false` if there is none.
    pub(crate) fn resume_at(
        &mut self,
        peer: LogState,
        places: &[Place],
        held_from: u64,
        size: u64,
    ) -> Result<bool, EncoderFailed> {
        // Blocks that an earlier session did not deliver belong to flows that are gone.
        self.rescued.clear();
        if self.resume_in_ring(peer, places, held_from) {
            return Ok(true);
        }
        self.resume_empty(peer, places, size)
    }

    fn resume_in_ring(&mut self, peer: LogState, places: &[Place], held_from: u64) -> bool {
        let Some(log) = &mut self.log else { return false };
        if peer.epoch.log != log.epoch.log || peer.epoch.number > MOST_EPOCHS {
            return false;
        }
        let end = Place { offset: peer.acknowledged, chain: peer.chain };
        let shared = std::iter::once(&end).chain(places).filter(|place| place.offset >= held_from);
        let shared = shared.filter(|place| log.place_at(place.offset) == Some(**place));
        let Some(&to) = shared.max_by_key(|place| place.offset) else { return false };
        // Either end may have begun an epoch that the other has not heard of.
        let number = log.epoch.number.max(peer.epoch.number) + 1;
        let epoch = Epoch { number, ..log.epoch };
        log.stop_writing();
        let Some(encoder) = &mut log.encoder else { return false };
        if encoder.rewind(to.offset, epoch.seed()).is_err()
            && encoder.rewind_to(to.offset, epoch.seed()).is_err()
        {
            return false;
        }
        encoder.give_up_below(held_from);
        log.known = Known::of(encoder);
        log.first += log.blocks.len() as u64;
        log.blocks.clear();
        log.places.rewind(to.offset);
        (log.epoch, log.keep) = (epoch, Keep::Content(to.offset));
        (log.acknowledged, log.acknowledged_chain, log.chain) = (to.offset, to.chain, to.chain);
        self.store.rewind(epoch, to, log.capacity);
        if let Some(recall) = &mut self.recall {
            recall.rewind(to.offset);
        }
        self.uncommitted = self.store.has_store().then_some(epoch);
        true
    }

    /// As [`Outgoing::resume_at`] for a log that has no ring, or none that goes back to a place of
    /// both ends.
    pub(super) fn resume_empty(
        &mut self,
        peer: LogState,
        places: &[Place],
        size: u64,
    ) -> Result<bool, EncoderFailed> {
        let end = Place { offset: peer.acknowledged, chain: peer.chain };
        let shared = || std::iter::once(&end).chain(places);
        if let Some(log) = &self.log {
            let known = shared().filter(|place| log.place_at(place.offset) == Some(**place));
            if let Some(&to) = known.max_by_key(|place| place.offset)
                && log.epoch.log == peer.epoch.log
            {
                self.rest_at(to);
            }
        }
        let Some(mut resting) = self.resting.take() else { return Ok(false) };
        let is_place = |place: &Place| {
            *place == resting.end || resting.places.at(place.offset) == Some(*place)
        };
        let to = shared().filter(|place| is_place(place)).max_by_key(|place| place.offset);
        let number = resting.epoch.number.max(peer.epoch.number) + 1;
        match to.copied() {
            Some(to)
                if self.store.has_store()
                    && self.peer_goes_on
                    && resting.epoch.log == peer.epoch.log
                    && number <= MOST_EPOCHS =>
            {
                resting.places.rewind(to.offset);
                resting.end = to;
                self.begin_ring(resting, number, size).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn begin_ring(
        &mut self,
        resting: Resting,
        number: u64,
        size: u64,
    ) -> Result<(), EncoderFailed> {
        let Resting { epoch, key, end, places, next } = resting;
        let epoch = Epoch { number, ..epoch };
        let (mut encoder, most_domains) = self.new_encoder(epoch, key, size)?;
        encoder.begin_at(end.offset).map_err(EncoderFailed::new)?;
        self.geometry = geometry(size);
        self.store.rewind(epoch, end, size);
        if let Some(recall) = &mut self.recall {
            recall.begin_at(end.offset);
        }
        self.uncommitted = self.store.has_store().then_some(epoch);
        self.resets.clear();
        self.log = Some(SentLog {
            epoch,
            capacity: size,
            key,
            keep: Keep::Offset(end.offset),
            begin: end.offset,
            known: Known::of(&encoder),
            encoder: Some(Box::new(encoder)),
            most_domains,
            blocks: VecDeque::new(),
            first: next,
            acknowledged: end.offset,
            acknowledged_chain: end.chain,
            chain: end.chain,
            places,
            begins_again: false,
            writing: Writing::default(),
        });
        Ok(())
    }

    /// An encoder without content, and the most memory of its notes on domains.
    pub(super) fn new_encoder(
        &self,
        epoch: Epoch,
        key: u64,
        size: u64,
    ) -> Result<(Encoder, usize), EncoderFailed> {
        let builder = encoder_of(&self.template, size, self.contexts);
        let most_domains = builder.memory().domains;
        let mut encoder = builder
            .fingerprint_key(key)
            .checksum_seed(epoch.seed())
            .build()
            .map_err(EncoderFailed::new)?;
        if let Some(effort) = self.effort {
            encoder.set_effort(effort);
        }
        Ok((encoder, most_domains))
    }
}
