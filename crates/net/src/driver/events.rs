//! What a session says, as signals for tasks, and its deadlines.

use super::signals::{FlowSignals, OpenedFlow};
use super::{Driver, DriverState, Phase};
use crate::log_limit::LogLimit;
#[cfg(unix)]
use crate::store::PATIENCE;
use oncewire_session::{Ended, Event, FlowId, ResetCode, Session};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

impl Driver {
    pub(super) fn settle(&self, state: &mut DriverState) {
        let deadline = self.pass_events(state);
        let flows = state.session.as_ref().map_or(0, Session::flow_count);
        // Wakes one waiting opener per flow that has ended.
        for _ in flows..std::mem::replace(&mut state.flow_count, flows) {
            self.vacancy.notify_one();
        }
        if deadline.is_some_and(|deadline| state.timer_at.is_none_or(|at| deadline < at)) {
            state.timer_at = deadline;
            self.timer.notify_one();
        }
    }

    /// Turns events into signals. Returns the session's next deadline.
    fn pass_events(&self, state: &mut DriverState) -> Option<Instant> {
        let session = state.session.as_mut()?;
        while let Some(event) = session.poll_event() {
            match event {
                Event::Established => {
                    self.phase.send_if_modified(|phase| {
                        *phase == Phase::Handshake && {
                            *phase = Phase::Established;
                            true
                        }
                    });
                }
                Event::Transmit(lane) => state.lanes[lane].transmit.notify_one(),
                Event::Drop(lane) => {
                    state.lanes[lane].close.notify_one();
                    state.lanes[lane].transmit.notify_one();
                }
                Event::Opened { flow, target, owner } => {
                    let signals = FlowSignals::of(self.content.enter(&target));
                    session.watch(flow, signals.clone());
                    state.flows.insert(flow, signals);
                    self.note_forgotten(session.forgotten_domains());
                    // Fails only when the session is being given up.
                    let _ = self.opened.send(OpenedFlow { flow, target, owner });
                }
                Event::Accepted(flow) => {
                    if let Some(signals) = state.flows.get(&flow) {
                        let _ = signals.answer.set(Ok(()));
                        signals.answered.notify_one();
                    }
                }
                Event::Readable(flow) => {
                    if let Some(signals) = state.flows.get(&flow) {
                        signals.readable.notify_one();
                    }
                }
                Event::Writable(flow) => {
                    if let Some(signals) = state.flows.get(&flow) {
                        signals.writable.notify_one();
                    }
                }
                Event::Reset(flow, code) => {
                    if let Some(signals) = state.flows.remove(&flow) {
                        signals.set_reset(code);
                    }
                }
                Event::GoingAway => {
                    self.phase.send_if_modified(|phase| {
                        !matches!(phase, Phase::Over(_)) && {
                            *phase = Phase::GoingAway;
                            true
                        }
                    });
                }
                Event::Memory => {
                    if let Some(memory) = &self.memory {
                        memory.notify_one();
                    }
                }
                Event::Limited { .. } | Event::Effort(_) => self.log_change(&event),
                Event::Ended(why) => self.end(why, session, &mut state.flows),
                #[cfg(unix)]
                Event::Unwritten(side) => {
                    if let Some((store, number)) = self.store.get() {
                        store.ready(*number, side);
                    }
                }
                #[cfg(unix)]
                Event::Fetch { id, side, range } => {
                    if let Some((store, number)) = self.store.get() {
                        store.fetch(*number, id, side, range);
                    }
                }
                _ => {}
            }
        }
        #[cfg(unix)]
        let deadline = Driver::next_deadline(session, &mut state.commit_by);
        #[cfg(not(unix))]
        let deadline = session.deadline();
        deadline
    }

    /// When the session wants to be called again, which it does not say itself while it waits for
    /// the disk.
    #[cfg(unix)]
    fn next_deadline(session: &Session, commit_by: &mut Option<Instant>) -> Option<Instant> {
        if session.awaits_commit() {
            let by = *commit_by.get_or_insert_with(|| Instant::now() + PATIENCE);
            return Some(session.deadline().map_or(by, |deadline| deadline.min(by)));
        }
        *commit_by = None;
        session.deadline()
    }

    /// Logs what the session decided by itself, or its peer for it.
    fn log_change(&self, event: &Event) {
        match event {
            Event::Limited { from, to } => {
                info!(
                    peer = self.label(),
                    from,
                    to,
                    "the peer keeps a smaller cache from now on, because other sessions need its memory: the cache starts again, empty, if it is larger"
                );
            }
            Event::Effort(decision) => {
                info!(
                    peer = self.label(),
                    from = %decision.from,
                    to = %decision.to,
                    share_percent = 100.0 * decision.share(),
                    budget_percent = 100.0 * decision.budget.as_f64(),
                    "encoding effort changed to stay within --cpu-budget"
                );
            }
            _ => {}
        }
    }

    /// The session is over. Flows of which all has arrived are still delivered; the others are
    /// reset.
    fn end(
        &self,
        why: Ended,
        session: &mut Session,
        flows: &mut HashMap<FlowId, Arc<FlowSignals>>,
    ) {
        debug!(%why, "session over");
        for (flow, chunks) in session.take_undelivered() {
            if let Some(signals) = flows.get(&flow) {
                signals.set_rest(chunks);
            }
        }
        flows.retain(|_, signals| {
            if !signals.has_rest() {
                signals.set_reset(ResetCode::Failed);
            }
            signals.has_rest()
        });
        self.phase.send_replace(Phase::Over(why));
    }

    pub(super) async fn keep_time(driver: Arc<Driver>) {
        let mut phase = driver.phase.subscribe();
        loop {
            let deadline = {
                let mut state = driver.lock();
                let Some(session) = &mut state.session else { return };
                let now = Instant::now();
                if session.deadline().is_some_and(|deadline| deadline <= now) {
                    session.on_timeout(now);
                }
                #[cfg(unix)]
                if state.commit_by.take_if(|by| *by <= now).is_some()
                    && let Some(session) = &mut state.session
                {
                    warn!(
                        peer = driver.label(),
                        "the disk does not answer: this session's caches are in memory only"
                    );
                    session.give_up_store();
                }
                state.timer_at = driver.pass_events(&mut state);
                state.timer_at
            };
            // Past deadlines are retried after a millisecond, so that a fault cannot cause a busy
            // loop.
            let at = deadline.map(|at| at.max(Instant::now() + Duration::from_millis(1)));
            let sleep = async {
                match at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = driver.timer.notified() => {}
                over = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => {
                    let _ = over;
                    return;
                }
            }
        }
    }

    /// Warns when isolation domains were forgotten.
    pub(super) fn note_forgotten(&self, forgotten: u64) {
        static FORGOTTEN: LogLimit = LogLimit::new();
        if self.forgotten.swap(forgotten, Ordering::Relaxed) < forgotten
            && let Some(suppressed) = FORGOTTEN.pass()
        {
            warn!(
                peer = self.label(),
                forgotten,
                suppressed,
                "isolation domains were forgotten: one client has too many names at the proxy, or there are too many clients; what they had sent is not found again"
            );
        }
    }
}
