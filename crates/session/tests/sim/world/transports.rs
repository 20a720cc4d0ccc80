//! Transports between the ends: delay, loss, corruption, and the handshake that begins each.

use super::{Encoding, Job, Link, World};
use crate::script::{CLIENT, MS, SECOND, SERVER};
use crate::wire;
use oncewire_session::{Answer, Config, Divides, Hello, Refused, Session, WriteJob};

impl World {
    /// The client dials for a lane.
    pub(super) fn connect(&mut self, lane: usize, generation: usize) {
        let now = self.instant();
        let end = &mut self.ends[CLIENT];
        let Some(session) = end
            .session
            .as_mut()
            .filter(|session| generation == self.generation && lane < session.lanes())
        else {
            return;
        };
        if end.links[lane].is_some() || session.ended().is_some() {
            return;
        }
        let delay = self.dice.around(self.delays[lane]);
        let per_byte = 1 << self.dice.below(12);
        let window = match self.windows.get(self.links.len()) {
            Some(&window) => window,
            None if self.dice.one_in(2) => self.dice.up_to(3000),
            None => self.dice.up_to(200_000),
        };
        self.links.push(Link {
            lane,
            pipes: Default::default(),
            delay,
            per_byte,
            window: if self.calm { window.max(20_000) } else { window },
            held: [true, true],
            early: Some(Vec::new()),
        });
        let link = self.links.len() - 1;
        end.links[lane] = Some(link);
        session.attach(lane, now);
        self.say(|| format!("lane {lane} gets transport {link}, {delay} us, window {window}"));
        self.settle(CLIENT);
    }

    /// Sends what a lane has, as far as the window of its transport allows, or `all` of it.
    pub(super) fn pump(&mut self, end: usize, lane: usize, all: bool) {
        let Some(link) = self.ends[end].links.get(lane).copied().flatten() else { return };
        let now = self.instant();
        // The lane's task is busy with its block.
        if self.ends[end].encoding.as_ref().is_some_and(|encoding| encoding.link == link) && !all {
            return;
        }
        loop {
            let room = self.links[link].window.saturating_sub(self.links[link].pipes[end].bytes);
            if room == 0 && !all {
                break;
            }
            let Some(session) = &mut self.ends[end].session else { break };
            let mut out = Vec::new();
            let limit = if all { usize::MAX / 2 } else { self.dice.up_to(room) };
            if !all && self.dice.one_in(3) {
                if let Some(job) = session.fill(lane, limit, now, &mut out) {
                    let session = session.id();
                    self.summary.apart += 1;
                    self.ends[end].encoding = Some(Encoding { session, job, lane, link, out });
                    let most = if self.dice.one_in(8) { 500 * MS } else { 20 * MS };
                    let delay = self.dice.within(0..most);
                    self.after(delay, Job::Encoded(end));
                    break;
                }
                session.sent(lane, 0, now, &mut out);
            } else {
                session.transmit(lane, limit, now, &mut out);
            }
            if out.is_empty() {
                break;
            }
            assert!(
                all || out.len() <= limit + (80 << 10),
                "{} bytes at once, where at most {limit} were wanted",
                out.len()
            );
            self.send(link, end, out);
        }
    }

    /// A block was encoded without the session, which gets its encoder back.
    pub(super) fn encoded(&mut self, end: usize) {
        let now = self.instant();
        let Some(Encoding { session: id, mut job, lane, link, mut out }) =
            self.ends[end].encoding.take()
        else {
            return;
        };
        let divides = job.divides() == Divides::Must || self.dice.one_in(2);
        if divides {
            job.find()
        } else {
            job.run(&mut out)
        }
        let is_current = self.ends[end].links.get(lane).copied().flatten() == Some(link);
        self.summary.apart_lost += u64::from(!is_current);
        self.summary.overtaken += u64::from(divides && self.ends[end].writing.is_some());
        let Some(session) = self.ends[end].session.as_mut().filter(|session| session.id() == id)
        else {
            return;
        };
        if !divides {
            session.encoded(job, now, &mut out);
        } else if session.found(job, now) {
            let next = session.next_write(now);
            self.begin_write(end, next);
        }
        let Some(session) = &mut self.ends[end].session else { return };
        if is_current {
            session.sent(lane, 0, now, &mut out);
            if !out.is_empty() {
                self.send(link, end, out);
            }
        }
        self.settle(end);
        self.pump(end, lane, false);
        self.settle(end);
    }

    /// A frame is written while other things happen.
    fn begin_write(&mut self, end: usize, job: Option<WriteJob>) {
        let session = self.ends[end].session.as_ref().map(Session::id);
        self.ends[end].writing = session.zip(job);
        if self.ends[end].writing.is_some() {
            self.summary.written_apart += 1;
            let most = if self.dice.one_in(8) { 500 * MS } else { 20 * MS };
            let delay = self.dice.within(0..most);
            self.after(delay, Job::Written(end));
        }
    }

    /// A frame was written without the session, which gets its writer back.
    pub(super) fn written(&mut self, end: usize) {
        let now = self.instant();
        let Some((id, mut job)) = self.ends[end].writing.take() else { return };
        job.run();
        if let Some(session) = self.ends[end].session.as_mut().filter(|session| session.id() == id)
        {
            let next = session.written(job, now);
            self.begin_write(end, next);
            self.settle(end);
        }
    }

    /// Puts bytes, which are whole messages, on a transport.
    pub(super) fn send(&mut self, link: usize, end: usize, mut bytes: Vec<u8>) {
        self.count_reports(end, &bytes);
        if self.profile.corrupts() && !self.calm && self.dice.one_in(self.corruption_rate) {
            self.corrupt(&mut bytes);
        }
        self.corrupt_first(link, end, &mut bytes);
        let (now, split) = (self.now, self.dice.one_in(2));
        let jitter = self.dice.within(0..MS);
        let link_state = &mut self.links[link];
        let pipe = &mut link_state.pipes[end];
        if pipe.dead {
            // The bytes stay in the send buffer forever.
            pipe.bytes += bytes.len();
            return;
        }
        let mut rest = &bytes[..];
        let mut times = Vec::new();
        while !rest.is_empty() {
            let most = if split { rest.len().div_ceil(2).max(20) } else { rest.len() };
            let len = self.dice.up_to(most.min(rest.len()));
            let (chunk, more) = rest.split_at(len);
            rest = more;
            pipe.free = pipe.free.max(now) + (len as u64 * link_state.per_byte) / 2048;
            pipe.last = pipe.last.max(pipe.free + link_state.delay + jitter);
            pipe.flight.push_back(Some(chunk.to_vec()));
            pipe.bytes += len;
            times.push(pipe.last);
        }
        for time in times {
            self.at(time, Job::Arrive(link, end));
        }
    }

    /// Flips bits in a frame, or repeats a DATA message.
    pub(super) fn corrupt(&mut self, bytes: &mut Vec<u8>) {
        let frames = wire::frames(bytes);
        if frames.is_empty() {
            return;
        }
        let (start, frame) = frames[self.dice.below(frames.len())].clone();
        if self.dice.one_in(3) {
            self.say(|| "a message is repeated".into());
            let again = bytes[start..frame.end].to_vec();
            bytes.splice(frame.end..frame.end, again);
        } else {
            self.say(|| "a frame is corrupted".into());
            for _ in 0..1 + self.dice.below(3) {
                let at = frame.start + self.dice.below(frame.len());
                bytes[at] ^= 1 << self.dice.below(8);
            }
        }
    }

    /// Corrupts the first frame of a transport if [`Fault::Corrupt`] asks for it.
    fn corrupt_first(&mut self, link: usize, end: usize, bytes: &mut [u8]) {
        let pipe = &mut self.links[link].pipes[end];
        if self.ends[end].corrupt == 0 || pipe.corrupted {
            return;
        }
        if let Some((_, frame)) = wire::frames(bytes).into_iter().next() {
            pipe.corrupted = true;
            self.ends[end].corrupt -= 1;
            bytes[frame.end - 1] ^= 1;
            self.say(|| format!("the first frame of transport {link} is corrupted"));
        }
    }

    /// A chunk, or the end of the stream, arrives.
    pub(super) fn arrive(&mut self, link: usize, sender: usize) {
        let end = 1 - sender;
        let pipe = &mut self.links[link].pipes[sender];
        if pipe.stalled {
            return;
        }
        let Some(chunk) = pipe.flight.pop_front() else { return };
        let len = chunk.as_ref().map_or(0, Vec::len);
        pipe.bytes -= len;
        if self.links[link].held[end] {
            match chunk {
                Some(chunk) => self.received(link, end, &chunk),
                None => self.lost(link, end),
            }
        }
        // The sender has room for more.
        let lane = self.links[link].lane;
        if self.links[link].held[sender]
            && self.ends[sender].links.get(lane).copied().flatten() == Some(link)
        {
            self.pump(sender, lane, false);
            self.settle(sender);
        }
    }

    /// A chunk has arrived at an end.
    pub(super) fn received(&mut self, link: usize, end: usize, chunk: &[u8]) {
        let now = self.instant();
        let lane = self.links[link].lane;
        if end == SERVER
            && let Some(early) = &mut self.links[link].early
        {
            early.extend_from_slice(chunk);
            match Hello::read(early) {
                Ok(None) => {}
                Ok(Some((hello, used))) => {
                    let rest = early[used..].to_vec();
                    self.links[link].early = None;
                    self.answer(link, &hello, &rest);
                }
                Err(error) => panic!("a valid HELLO: {error}"),
            }
            return;
        }
        if self.ends[end].links.get(lane).copied().flatten() != Some(link) {
            return;
        }
        let Some(session) = &mut self.ends[end].session else { return };
        session.take_in(lane, &mut chunk.to_vec(), now);
        self.decode(end);
        self.settle(end);
    }

    /// Decodes what can be decoded. A third of the blocks are decoded while other things happen.
    pub(super) fn decode(&mut self, end: usize) {
        let now = self.instant();
        let Some(session) = &mut self.ends[end].session else { return };
        while let Some(mut job) = session.next_decode(now) {
            if !self.dice.one_in(3) {
                job.run();
                session.decoded(job, now);
                continue;
            }
            self.summary.decoded_apart += 1;
            self.ends[end].decoding = Some((session.id(), job));
            let most = if self.dice.one_in(8) { 500 * MS } else { 20 * MS };
            let delay = self.dice.within(0..most);
            return self.after(delay, Job::Decoded(end));
        }
    }

    /// A block was decoded without the session, which gets its decoder back.
    pub(super) fn decoded(&mut self, end: usize) {
        let now = self.instant();
        let Some((id, mut job)) = self.ends[end].decoding.take() else { return };
        job.run();
        if let Some(session) = self.ends[end].session.as_mut().filter(|session| session.id() == id)
        {
            session.decoded(job, now);
            self.decode(end);
            self.settle(end);
        }
    }

    /// The server has a complete HELLO.
    pub(super) fn answer(&mut self, link: usize, hello: &Hello, rest: &[u8]) {
        let now = self.instant();
        let known =
            self.ends[SERVER].session.as_ref().is_some_and(|session| session.id() == hello.session);
        let answer = if known {
            let session = self.ends[SERVER].session.as_mut().expect("it is known");
            session.accept_lane(hello, now).map(|lane| assert_eq!(lane as u64, hello.lane))
        } else if hello.answer == Answer::New {
            // The client begins another session, so its earlier one is over.
            if self.ends[SERVER].session.is_some() {
                let keep = self.profile.keeps_logs(SERVER);
                self.forget(SERVER, keep);
            }
            let config = self.config(SERVER);
            let logs = self.logs_for(SERVER, &config);
            self.say(|| format!("server session, logs {}", logs.is_some()));
            Session::accept_new(config, logs, hello, now).map(|session| {
                self.ends[SERVER].links = vec![None; session.lanes()];
                (self.ends[SERVER].begun, self.ends[SERVER].reports) = (self.now, 0);
                self.ends[SERVER].session = Some(session);
                self.ends[SERVER].established = false;
            })
        } else {
            let config = Config::default();
            Err(Refused(Box::new(hello.refuse(Answer::Unknown, "", &config))))
        };
        match answer {
            Ok(()) => {
                let lane = hello.lane as usize;
                if let Some(old) = self.ends[SERVER].links[lane].replace(link) {
                    self.links[old].held[SERVER] = false;
                    self.after(MS, Job::Lost(old, CLIENT));
                }
                self.settle(SERVER);
                if !rest.is_empty()
                    && self.ends[SERVER].links.get(lane).copied().flatten() == Some(link)
                {
                    self.received(link, SERVER, rest);
                }
                self.pump(SERVER, lane, false);
                self.settle(SERVER);
            }
            Err(Refused(hello)) => {
                self.say(|| format!("transport {link} is refused: {:?}", hello.answer));
                let mut out = Vec::new();
                hello.write(&mut out);
                self.send(link, SERVER, out);
                self.finish_sending(link, SERVER);
                // The HELLO may have ended the session.
                self.settle(SERVER);
            }
        }
    }

    /// Ends the stream after what is in flight.
    pub(super) fn finish_sending(&mut self, link: usize, end: usize) {
        let state = &mut self.links[link];
        state.held[end] = false;
        let pipe = &mut state.pipes[end];
        if pipe.dead {
            return;
        }
        pipe.last = pipe.last.max(self.now + state.delay);
        pipe.flight.push_back(None);
        let time = pipe.last;
        self.at(time, Job::Arrive(link, end));
        // In case it never arrives.
        self.after(30 * SECOND, Job::Lost(link, 1 - end));
    }

    /// An end notices that a transport is gone.
    pub(super) fn lost(&mut self, link: usize, end: usize) {
        if !std::mem::replace(&mut self.links[link].held[end], false) {
            return;
        }
        let lane = self.links[link].lane;
        let now = self.instant();
        if self.ends[end].links.get(lane).copied().flatten() != Some(link) {
            return;
        }
        self.say(|| format!("end {end} loses transport {link} of lane {lane}"));
        self.ends[end].links[lane] = None;
        if let Some(session) = &mut self.ends[end].session {
            session.detach(lane, now);
        }
        self.reconnect(end, lane);
        self.settle(end);
    }

    pub(super) fn reconnect(&mut self, end: usize, lane: usize) {
        if end == CLIENT {
            let most =
                if self.calm { 200 * MS } else { [MS, 100 * MS, 2 * SECOND][self.dice.below(3)] };
            let delay = self.dice.within(0..most);
            self.after(delay, Job::Connect(lane, self.generation));
        }
    }

    /// Cuts a transport: what is in flight is lost, and each end notices in its own time.
    pub(super) fn cut(&mut self, link: usize) {
        self.say(|| format!("transport {link} is cut"));
        for direction in 0..2 {
            let keep = self.dice.below(self.links[link].pipes[direction].flight.len() + 1);
            let pipe = &mut self.links[link].pipes[direction];
            if keep == 0 {
                pipe.stalled = true;
            }
            // Some chunks may still arrive.
            while pipe.flight.len() > keep {
                if let Some(Some(chunk)) = pipe.flight.pop_back() {
                    pipe.bytes -= chunk.len();
                }
            }
            pipe.dead = true;
            let most = if self.dice.one_in(4) { 8 * SECOND } else { 300 * MS };
            let delay = self.dice.within(0..most);
            self.after(delay, Job::Lost(link, direction));
        }
    }
}
