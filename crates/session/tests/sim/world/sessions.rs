//! Sessions of both ends: how they begin and end, their events and timers, and what must hold at
//! any time.

use super::{Half, Job, World};
use crate::script::{CLIENT, MS, SECOND, SERVER};
use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{Budget, Config, Ended, Event, ResetCode, Session, Settings, StoreKey};
use std::time::Duration;

impl World {
    pub(super) fn config(&mut self, end: usize) -> Settings {
        let random = [self.dice.next(), self.dice.next(), 5, 6];
        let delivery = (4 << 20) + self.dice.below(8 << 20) as u64;
        let sending = self.dice.up_to(2 << 20) as u64;
        let pad = [0, 0, 64, 10_000][(random[0] >> 32) as usize % 4];
        if self.profile.stored() > 0 && self.dice.one_in(3) {
            // Memory may be less now, or more.
            self.logs[end] = (1 << 20) + self.dice.below(2 << 20) as u64;
        }
        let sharing = match self.domains {
            1 => Sharing::All,
            2 => Sharing::None,
            _ => Sharing::Chunks,
        };
        let config = Config {
            log: self.logs[end],
            early: Budget::new(delivery / 2),
            delivery: Budget::new(delivery),
            sending: Budget::new(sending),
            max_flows: self.max_flows,
            lanes: self.lanes,
            contexts: self.contexts[end],
            pad,
            encoder: EncoderBuilder::default().sharing(sharing),
            keep_alive: Duration::from_secs(2),
            dead_after: Duration::from_secs(5),
            grace: Duration::from_secs(20),
            random,
            store: self.stores[end].then_some(StoreKey([7, end as u64])),
            stored: if self.stores[end] { self.profile.stored() } else { 0 },
            ..Config::default()
        };
        self.ends[end].delivery = Some((config.delivery.clone(), delivery));
        self.ends[end].sending = Some((config.sending.clone(), sending));
        config.build().expect("parameters in range")
    }

    pub(super) fn begin(&mut self) {
        if self.ends[CLIENT].session.is_some() {
            return;
        }
        self.generation += 1;
        self.summary.sessions += 1;
        let config = self.config(CLIENT);
        let logs = self.logs_for(CLIENT, &config);
        self.say(|| format!("session {} begins, logs {}", self.generation, logs.is_some()));
        let session = Session::connect(config, logs, self.instant());
        let end = &mut self.ends[CLIENT];
        end.links = vec![None; session.lanes()];
        (end.begun, end.reports) = (self.now, 0);
        end.session = Some(session);
        end.established = false;
        self.connect(0, self.generation);
        self.settle(CLIENT);
    }

    /// Everything is done: the session closes, and the next one carries the same flows again.
    pub(super) fn next(&mut self) {
        if self.generation >= self.profile.generations() {
            return;
        }
        self.say(|| "the session closes, for another one".into());
        let whole = self.profile.keeps_logs(CLIENT) && self.profile.keeps_logs(SERVER);
        self.expect_warm = whole
            && self
                .ends
                .iter()
                .all(|end| end.session.as_ref().is_some_and(Session::is_established));
        for flow in &mut self.flows {
            if flow.cut {
                continue;
            }
            flow.at = None;
            (flow.reset, flow.arrived, flow.reset_seen) = (None, false, false);
            for half in &mut flow.halves {
                *half = Half::new(std::mem::take(&mut half.script));
            }
        }
        let closer = self.dice.below(2);
        if let Some(session) = &mut self.ends[closer].session {
            session.close();
        }
        for index in 0..self.flows.len() {
            let delay = SECOND + self.dice.within(0..5 * SECOND);
            self.after(delay, Job::Open(index));
        }
        self.settle(closer);
    }

    /// The session of an end is over, or lost in a restart.
    pub(super) fn forget(&mut self, end: usize, keep_logs: bool) {
        let Some(session) = self.ends[end].session.take() else { return };
        self.tally(&session);
        let id = session.id();
        self.ends[end].had_log = session.offsets().0 > 0;
        for lane in 0..self.ends[end].links.len() {
            if let Some(link) = self.ends[end].links[lane].take() {
                self.links[link].held[end] = false;
                let (delay, other) = (self.links[link].delay, 1 - end);
                self.after(delay, Job::Lost(link, other));
            }
        }
        for flow in &mut self.flows {
            if flow.at.is_some_and(|at| at.0 == id) && !flow.halves.iter().all(|half| half.end_seen)
            {
                self.summary.cut += u64::from(!flow.cut);
                flow.cut = true;
            }
        }
        let mut logs = session.into_logs();
        if self.stores[end] && keep_logs {
            self.keep(end, &mut logs);
        }
        self.ends[end].logs = keep_logs.then_some(logs);
        self.check_budgets(end);
        if end == CLIENT {
            let delay = self.dice.within(MS..2 * SECOND);
            self.after(delay, Job::Begin);
        }
    }

    /// After any call of a session: handles its events and sets the timer.
    pub(super) fn settle(&mut self, end: usize) {
        let mut events = 0;
        while let Some(event) = self.ends[end].session.as_mut().and_then(Session::poll_event) {
            events += 1;
            assert!(events < 100_000, "events without end");
            self.event(end, event);
        }
        if let Some(session) = &self.ends[end].session {
            if session.ended().is_some() {
                let why = session.ended().cloned();
                self.ended(end, &why.expect("it has ended"));
                return;
            }
            if let Some(deadline) = session.deadline() {
                // Not before it.
                let left = deadline.saturating_duration_since(self.base);
                let time = left.as_nanos().div_ceil(1000) as u64;
                // The timer checks for deadlines in the past.
                if self.ends[end].armed.is_none_or(|armed| time < armed) {
                    self.ends[end].armed = Some(time);
                    self.at(time, Job::Timer(end));
                }
            }
        }
        if self.steps.is_multiple_of(8) {
            self.check(end);
        }
    }

    /// What must hold at any time.
    pub(super) fn check(&self, end: usize) {
        let Some(session) = &self.ends[end].session else { return };
        let counters = session.counters();
        assert!(
            counters.failures == 0 || self.profile.fails_frames(),
            "a frame failed that was not corrupted"
        );
        let (log_end, acknowledged, _) = session.offsets();
        assert!(
            log_end - acknowledged <= counters.log_capacity / 4,
            "{} bytes unacknowledged of {}",
            log_end - acknowledged,
            counters.log_capacity
        );
        let (delivery, whole) = self.ends[end].delivery.as_ref().expect("a session has one");
        assert!(
            counters.delivery_waiting_bytes <= whole / 2 + whole - delivery.available(),
            "more bytes wait for applications than were granted"
        );
        let (_, whole) = self.ends[end].sending.as_ref().expect("a session has one");
        let most = whole + counters.flows * 4096;
        assert!(
            counters.send_waiting_bytes <= most,
            "{} bytes wait to be sent",
            counters.send_waiting_bytes
        );
    }

    pub(super) fn timer(&mut self, end: usize) {
        self.ends[end].armed = None;
        let now = self.instant();
        let Some(session) = &mut self.ends[end].session else { return };
        if session.deadline().is_some_and(|deadline| deadline <= now) {
            session.on_timeout(now);
            let still = session.deadline().is_some_and(|deadline| deadline <= now);
            let idle = &mut self.ends[end].idle_timers;
            *idle = if still { *idle + 1 } else { 0 };
            assert!(*idle < 2, "a deadline stays in the past: {}", self.state());
        }
        self.settle(end);
    }

    pub(super) fn event(&mut self, end: usize, event: Event) {
        let now = self.instant();
        if !matches!(
            event,
            Event::Transmit(_) | Event::Readable(_) | Event::Writable(_) | Event::Unwritten(_)
        ) {
            self.say(|| format!("end {end}: {event:?}"));
        }
        match event {
            Event::Established => {
                assert!(
                    !std::mem::replace(&mut self.ends[end].established, true),
                    "established twice"
                );
                if self.profile.stored() > 0 {
                    self.after(MS, Job::Hook(end));
                }
                let lanes = self.ends[end].session.as_ref().map_or(0, Session::lanes);
                if end == CLIENT {
                    self.ends[CLIENT].links.truncate(lanes);
                    for lane in 1..lanes {
                        let delay = self.dice.within(0..50 * MS);
                        self.after(delay, Job::Connect(lane, self.generation));
                    }
                }
                if self.expect_warm && self.profile.warm_for_sure() {
                    let counters = self.ends[end]
                        .session
                        .as_ref()
                        .map(Session::counters)
                        .expect("it is established");
                    assert!(
                        counters.warm_starts == 1 || !self.ends[end].had_log,
                        "end {end} starts cold"
                    );
                }
            }
            Event::Unwritten(_) => self.unwritten(end),
            Event::Fetch { id, side, range } => self.fetch(end, id, side, range),
            Event::Transmit(lane) => self.pump(end, lane, false),
            Event::Drop(lane) => {
                self.pump(end, lane, true);
                if let Some(link) = self.ends[end].links.get_mut(lane).and_then(Option::take) {
                    self.finish_sending(link, end);
                    if let Some(session) = &mut self.ends[end].session {
                        session.detach(lane, now);
                    }
                    self.reconnect(end, lane);
                }
            }
            Event::Opened { flow: id, target, .. } => {
                let index: usize = std::str::from_utf8(&target)
                    .ok()
                    .and_then(|target| target.split(':').nth(1)?.parse().ok())
                    .expect("a target of this simulation");
                let session = self.ends[end].session.as_mut().expect("a session has events");
                let flow = &mut self.flows[index];
                assert_eq!(flow.at, Some((session.id(), id)), "another flow");
                assert!(!std::mem::replace(&mut flow.arrived, true), "opened twice");
                if flow.refused {
                    session.reset(id, ResetCode::Refused);
                    flow.reset = flow.reset.or(Some((end, ResetCode::Refused)));
                    return;
                }
                session.accept(id, now);
                self.due_write(index, end, 0);
            }
            Event::Accepted(id) => {
                assert!(self.flow_of(end, id).is_some_and(|flow| self.flows[flow].opener == end))
            }
            Event::Readable(id) => {
                if let Some(flow) = self.flow_of(end, id) {
                    let gap = self.flows[flow].halves[1 - end].script.read_gap;
                    self.due_read(flow, end, gap);
                }
            }
            Event::Writable(id) => {
                if let Some(flow) = self.flow_of(end, id) {
                    let gap = self.flows[flow].halves[end].script.write_gap;
                    self.due_write(flow, end, gap);
                }
            }
            Event::Reset(id, code) => {
                let index = self.flow_of(end, id).expect("a flow that exists");
                let flow = &mut self.flows[index];
                match flow.reset {
                    Some((by, expected)) => {
                        assert!(by != end, "an end gets its own reset");
                        assert_eq!(code, expected, "another code");
                    }
                    None => {
                        assert_eq!(code, ResetCode::Busy, "an unexpected reset");
                        flow.reset = Some((1 - end, code));
                    }
                }
                assert!(!std::mem::replace(&mut flow.reset_seen, true), "reset twice");
            }
            _ => {}
        }
    }

    pub(super) fn ended(&mut self, end: usize, why: &Ended) {
        self.say(|| format!("end {end} has ended: {why}"));
        assert!(
            self.profile.may_end(why, self.generation),
            "the session of end {end} ended: {why:?} {}",
            self.state()
        );
        let keep = self.profile.keeps_logs(end);
        self.forget(end, keep);
    }
}
