//! What a driver with a store calls. [`crate::store`] has the rules.

use super::*;
use crate::config::Config;

/// Ranges that wait to be told to the peer.
const MOST_GONE: usize = 64;

impl Logs {
    /// Logs that were stored, for a session with `config` and the same peer as before. Without
    /// one of a side, that side begins an empty log.
    pub fn restored(config: &Config, logs: impl IntoIterator<Item = FinishedLog>) -> Logs {
        let mut outgoing =
            Outgoing::new(config.encoder.clone(), config.log, config.contexts, config.store);
        let mut incoming = Incoming::new(config.log, config.contexts, config.store.is_some());
        for FinishedLog(log) in logs {
            match log {
                Finished::Sending(log) => outgoing.restore(log),
                Finished::Receiving(log) => incoming.restore(log),
            }
        }
        Logs { outgoing, incoming }
    }

    /// As [`Session::unwritten`], after the session.
    pub fn unwritten(&mut self, side: Side) -> Option<Unwritten> {
        match side {
            Side::Sending => self.outgoing.unwritten(),
            Side::Receiving => self.incoming.unwritten(),
        }
    }

    /// As [`Session::give_up_store`], after the session.
    pub fn give_up_store(&mut self) {
        self.outgoing.give_up_store();
        self.incoming.give_up_store();
    }
}

impl Session {
    /// What the driver's store does next with the log of a side, if the session has a store
    /// ([`Config::store`](crate::Config::store)). Call it after [`Event::Unwritten`] until it
    /// returns `None`, or later: what it returns is a copy, and what the driver has not asked for
    /// yet waits in the log, until the ring overwrites it. `None` also says that the log is out with
    /// a job; the event comes again.
    pub fn unwritten(&mut self, side: Side) -> Option<Unwritten> {
        match side {
            Side::Sending => self.outgoing.unwritten(),
            Side::Receiving => self.incoming.unwritten(),
        }
    }

    /// An epoch of the sending log is durable: what [`Unwritten::Begin`] or [`Unwritten::Rewind`]
    /// said. Only now it is told to the peer, and content of it is sent, so that a crash cannot
    /// make this end use the number twice. Nothing happens if it is not the current one.
    pub fn committed(&mut self, epoch: Epoch) {
        if self.outgoing.committed(epoch) {
            self.wake_where(|_| true);
        }
    }

    /// Whether content waits for [`Session::committed`]. A driver whose disk hangs then gives the
    /// store up.
    pub fn awaits_commit(&self) -> bool {
        !self.outgoing.is_committed()
    }

    /// The store has failed: from now on the logs are in memory only, and nothing waits for it.
    pub fn give_up_store(&mut self) {
        self.outgoing.give_up_store();
        self.incoming.give_up_store();
        self.preparing.clear();
        self.forget_recalls();
        self.wake_where(|_| true);
    }

    /// The driver does not store a range of the log of a side, and keeps what lies below: nothing of
    /// it is asked for. The peer is told what it may not refer to on this end's disk.
    pub fn give_up(&mut self, side: Side, range: std::ops::Range<u64>) {
        match side {
            Side::Sending => self.outgoing.refuse(range),
            Side::Receiving if self.outgoing.peer_goes_on() && self.ended.is_none() => {
                // What the peer is not told costs a handshake each time.
                let has_room = self.gone.len() < MOST_GONE;
                match self.gone.last_mut().filter(|(_, end)| *end == range.start) {
                    Some((_, end)) => *end = range.end,
                    None if has_room => self.gone.push((range.start, range.end)),
                    None => {}
                }
                self.wake(0);
            }
            Side::Receiving => {}
        }
    }

    /// Whether the driver still stores the logs.
    pub fn has_store(&self) -> bool {
        self.outgoing.has_store() && self.incoming.has_store()
    }

    /// Raises [`Event::Unwritten`] where there is something new.
    pub(super) fn note_unwritten(&mut self) {
        if self.outgoing.has_news() {
            self.events.push_back(Event::Unwritten(Side::Sending));
        }
        if self.incoming.has_news() {
            self.events.push_back(Event::Unwritten(Side::Receiving));
        }
    }
}
