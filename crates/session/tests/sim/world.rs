//! Two ends, the transports between them, and the applications at both.

use crate::profile::Profile;
use crate::rng::{Pool, Rng};
use crate::wire;
use oncewire_session::{Answer, Budget, Config, Ended, Event, FlowId, Hello, Logs, Read, Refused, ResetCode, Session, SessionId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Microseconds since the beginning.
type Time = u64;

const MS: Time = 1000;
const SECOND: Time = 1000 * MS;

/// The end that connects, and the one that answers.
pub(crate) const CLIENT: usize = 0;
const SERVER: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// Bytes arrive at an end of a transport.
    Arrive(usize, usize),
    /// An end notices that a transport is gone.
    Lost(usize, usize),
    Timer(usize),
    /// The connecting end makes a transport for a lane, in the given session of this world.
    Connect(usize, usize),
    /// An application opens its flow.
    Open(usize),
    /// The application at an end writes, or reads.
    Write(usize, usize),
    Read(usize, usize),
    /// It has taken so many bytes for good.
    Taken(usize, usize, usize),
    Reset(usize, usize),
    Fault,
    Begin,
    /// Faults are over.
    Calm,
    /// All is done: the session closes in order, and another begins.
    Next,
}

/// One direction of a transport.
#[derive(Default)]
struct Pipe {
    /// What is on its way; `None` is the end of the stream.
    flight: VecDeque<Option<Vec<u8>>>,
    bytes: usize,
    last: Time,
    free: Time,
    /// Nothing arrives any more.
    stalled: bool,
    /// What is sent from now on gets nowhere.
    dead: bool,
}

/// A transport.
struct Link {
    lane: usize,
    /// By direction: from the end that connects, to it.
    pipes: [Pipe; 2],
    delay: Time,
    /// Microseconds for each byte, in units of 1/256.
    per_byte: u64,
    window: usize,
    /// Whether each end still has it.
    held: [bool; 2],
    /// Bytes before the hello, at the answering end.
    early: Option<Vec<u8>>,
}

/// What one end of a flow sends, and how far it has come.
struct Half {
    content: Vec<u8>,
    written: usize,
    finished: bool,
    /// Read at the other end.
    got: usize,
    taken: usize,
    end_seen: bool,
    /// The writer waits for the other half to end.
    after: bool,
    piece: usize,
    write_gap: Time,
    read_gap: Time,
    /// The writer or the reader does nothing before this.
    stalled_until: Time,
    write_due: bool,
    read_due: bool,
}

struct SimFlow {
    opener: usize,
    at: Option<(SessionId, FlowId)>,
    /// By sending end.
    halves: [Half; 2],
    refused: bool,
    reset: Option<(usize, ResetCode)>,
    /// Ended with its session, or never begun.
    cut: bool,
    arrived: bool,
    reset_seen: bool,
}

#[derive(Default)]
struct End {
    session: Option<Session>,
    logs: Option<Logs>,
    links: Vec<Option<usize>>,
    armed: Option<Time>,
    /// Deadlines that came with nothing done.
    idle_timers: usize,
    established: bool,
    delivery: Option<(Budget, u64)>,
    sending: Option<(Budget, u64)>,
}

pub(crate) struct World {
    profile: Profile,
    rng: Rng,
    base: Instant,
    now: Time,
    jobs: BinaryHeap<Reverse<(Time, u64, Job)>>,
    sequence: u64,
    ends: [End; 2],
    links: Vec<Link>,
    flows: Vec<SimFlow>,
    names: HashMap<(SessionId, FlowId), usize>,
    lanes: usize,
    log: [u64; 2],
    max_flows: u64,
    delays: Vec<Time>,
    /// Sessions begun.
    generation: usize,
    calm: bool,
    calm_at: Time,
    trace: bool,
    steps: u64,
    /// Both logs are expected to be gone on with.
    expect_warm: bool,
    /// One in so many sendings is harmed, where they are.
    harm_rate: usize,
    /// Whether each end had a log to send with.
    had_log: [bool; 2],
    /// Steps that were taken, for the summary.
    pub(crate) summary: Summary,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) bytes: u64,
    pub(crate) flows: u64,
    pub(crate) sessions: u64,
    pub(crate) resumes: u64,
    pub(crate) failures: u64,
    pub(crate) warm: u64,
    pub(crate) epochs: u64,
    pub(crate) cut: u64,
    pub(crate) repeated: u64,
    pub(crate) waits: u64,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, more: Summary) {
        self.bytes += more.bytes;
        self.flows += more.flows;
        self.sessions += more.sessions;
        self.resumes += more.resumes;
        self.failures += more.failures;
        self.warm += more.warm;
        self.epochs += more.epochs;
        self.cut += more.cut;
        self.repeated += more.repeated;
        self.waits += more.waits;
    }
}

impl World {
    pub(crate) fn new(profile: Profile, seed: u64, trace: bool, base: Instant) -> World {
        let mut rng = Rng::new(seed ^ (profile as u64) << 56);
        let lanes = if rng.one_in(3) { 1 } else { 1 + rng.below(4) };
        let tiny = profile.tiny_log();
        let mut log = || if tiny { 1 << 20 } else { (1u64 << 20) + rng.next() % (3 << 20) };
        let log = [log(), log()];
        let mut delay = |most: usize| MS / 10 + rng.below(most) as Time * MS;
        let delays = [30, 300, 30, 10, 30, 300, 30, 30].into_iter().map(&mut delay).collect();
        let (documents, len) = (1 + rng.below(4), 1 + rng.below(if tiny { 400_000 } else { 120_000 }));
        let pool = Pool::new(&mut rng, documents, len);
        let many = rng.one_in(12);
        let flows = if many { 100 + rng.below(300) } else { 1 + rng.below(12) };
        let most = if many {
            3000
        } else if tiny {
            600_000
        } else {
            150_000
        };
        let spread = 1 + rng.below(8) as Time * SECOND;
        let mut world = World {
            profile,
            base,
            now: 0,
            jobs: BinaryHeap::new(),
            sequence: 0,
            ends: Default::default(),
            links: Vec::new(),
            flows: Vec::new(),
            names: HashMap::new(),
            lanes,
            log,
            max_flows: if rng.one_in(4) { 4 + rng.below(40) as u64 } else { 1000 },
            delays,
            generation: 0,
            calm: false,
            calm_at: spread + 2 * SECOND,
            trace,
            steps: 0,
            expect_warm: false,
            harm_rate: [2, 4, 20, 60][rng.below(4)],
            had_log: [false; 2],
            summary: Summary::default(),
            rng,
        };
        for index in 0..flows {
            let opener = world.rng.below(2);
            let first = world.half(&pool, most, spread);
            let second = world.half(&pool, most, spread);
            let mut halves = [first, second];
            if world.rng.one_in(3) {
                halves[world.rng.below(2)].after = true;
            }
            let refused = world.rng.one_in(20);
            let flow = SimFlow { opener, at: None, halves, refused, reset: None, cut: false, arrived: false, reset_seen: false };
            world.flows.push(flow);
            let at = world.rng.within(0..spread);
            world.at(at, Job::Open(index));
            if world.rng.one_in(10) {
                let (at, end) = (at + world.rng.within(0..2 * spread), world.rng.below(2));
                world.at(at, Job::Reset(index, end));
            }
        }
        world.at(0, Job::Begin);
        if profile.has_faults() {
            world.at(50 * MS, Job::Fault);
        }
        let calm_at = world.calm_at;
        world.at(calm_at, Job::Calm);
        world
    }

    fn half(&mut self, pool: &Pool, most: usize, spread: Time) -> Half {
        let rng = &mut self.rng;
        let mut content = pool.content(rng, most, self.profile.tiny_log());
        let piece = match rng.below(6) {
            0 => {
                content.truncate(2000);
                1
            }
            1 => 1 + rng.below(100),
            _ => 1 + rng.below(100_000),
        };
        // Small pieces in haste, or larger ones at leisure: either is over in time.
        let write_gap = if rng.one_in(2) { 0 } else { rng.within(0..20 * MS) };
        let read_gap = if rng.one_in(2) { 0 } else { rng.within(0..50 * MS) };
        let piece = if write_gap > 0 { piece.max(content.len() / 1000) } else { piece.max(content.len() / 4000) }.max(1);
        let stalled_until = if rng.one_in(8) { rng.within(0..3 * spread) } else { 0 };
        Half {
            content,
            written: 0,
            finished: false,
            got: 0,
            taken: 0,
            end_seen: false,
            after: false,
            piece,
            write_gap,
            read_gap,
            stalled_until,
            write_due: false,
            read_due: false,
        }
    }

    fn at(&mut self, time: Time, job: Job) {
        self.sequence += 1;
        self.jobs.push(Reverse((time.max(self.now), self.sequence, job)));
    }

    fn after(&mut self, delay: Time, job: Job) {
        self.at(self.now + delay, job);
    }

    fn instant(&self) -> Instant {
        self.base + Duration::from_micros(self.now)
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>10.3} ms  {}", self.now as f64 / MS as f64, what());
        }
    }

    /// Plays until everything is done, or it is clear that it never will be.
    pub(crate) fn run(&mut self) {
        let limit = self.calm_at + 400 * SECOND;
        while let Some(Reverse((time, _, job))) = self.jobs.pop() {
            assert!(time <= limit, "not done in time: {}", self.state());
            self.now = time;
            self.steps += 1;
            assert!(self.steps < 3_000_000, "too many steps: {}", self.state());
            self.job(job);
            if self.calm && self.is_done() {
                if self.profile.generations() > self.generation {
                    if !self.jobs.iter().any(|Reverse((.., job))| *job == Job::Next) {
                        self.after(SECOND, Job::Next);
                    }
                } else {
                    break;
                }
            }
        }
        assert!(self.is_done(), "nothing happens any more, and not all is done: {}", self.state());
        for end in 0..2 {
            if let Some(session) = self.ends[end].session.take() {
                self.tally(&session);
                drop(session.into_logs());
            }
            self.check_budgets(end);
        }
    }

    fn tally(&mut self, session: &Session) {
        let counters = session.counters();
        self.summary.bytes += counters.received_bytes;
        self.summary.resumes += counters.resumes;
        self.summary.failures += counters.failures;
        self.summary.warm += counters.warm_starts;
        self.summary.epochs += counters.epochs;
        self.summary.repeated += counters.repeated_bytes;
        self.summary.waits += counters.lane_waits;
    }

    /// All that was lent is back when no session is left.
    fn check_budgets(&self, end: usize) {
        for (budget, whole) in self.ends[end].delivery.iter().chain(&self.ends[end].sending) {
            assert_eq!(budget.left(), *whole, "budget of end {end} after its session");
        }
    }

    fn is_done(&self) -> bool {
        let flows = self.flows.iter().all(|flow| {
            flow.cut
                || (flow.at.is_some() && (flow.reset.is_some() || flow.halves.iter().all(|half| half.finished && half.end_seen)))
        });
        flows && self.ends.iter().all(|end| end.session.as_ref().is_some_and(Session::is_idle))
    }

    fn state(&self) -> String {
        let mut text = String::new();
        for (i, flow) in self.flows.iter().enumerate() {
            let done = flow.cut || flow.reset.is_some() || flow.halves.iter().all(|half| half.end_seen);
            if !done {
                let of = |half: &Half| {
                    let Half { written, finished, got, taken, end_seen, content, .. } = half;
                    format!("{written}/{} fin {finished} got {got} taken {taken} end {end_seen}", content.len())
                };
                let [client, server] = &flow.halves;
                text += &format!("\n  flow {i} {:?} by {}: {} | {}", flow.at.map(|at| at.1), flow.opener, of(client), of(server));
            }
        }
        for (end, state) in self.ends.iter().enumerate() {
            match &state.session {
                Some(session) => {
                    let up: Vec<bool> = (0..session.lanes()).map(|lane| session.is_up(lane)).collect();
                    let (idle, flows) = (session.is_idle(), session.flow_count());
                    text += &format!(
                        "\n  end {end}: up {up:?} links {:?} idle {idle} flows {flows} offsets {:?} ended {:?}\n    {:?}",
                        state.links,
                        session.offsets(),
                        session.ended(),
                        session.counters()
                    );
                }
                None => text += &format!("\n  end {end}: no session"),
            }
        }
        text
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Arrive(link, direction) => self.arrive(link, direction),
            Job::Lost(link, end) => self.lost(link, end),
            Job::Timer(end) => self.timer(end),
            Job::Connect(lane, generation) => self.connect(lane, generation),
            Job::Open(flow) => self.open(flow),
            Job::Write(flow, end) => self.write(flow, end),
            Job::Read(flow, end) => self.read(flow, end),
            Job::Taken(flow, end, len) => self.taken(flow, end, len),
            Job::Reset(flow, end) => self.reset(flow, end),
            Job::Fault => self.fault(),
            Job::Begin => self.begin(),
            Job::Calm => self.calm(),
            Job::Next => self.next(),
        }
    }

    // Sessions

    fn config(&mut self, end: usize) -> Config {
        let random = [self.rng.next(), self.rng.next(), 5, 6];
        let delivery = (4u64 << 20) + self.rng.next() % (8 << 20);
        let sending = 1 + self.rng.next() % (2 << 20);
        let config = Config {
            log: self.log[end],
            early: Budget::new(delivery / 2),
            delivery: Budget::new(delivery),
            sending: Budget::new(sending),
            max_flows: self.max_flows,
            lanes: self.lanes,
            keep_alive: Duration::from_secs(2),
            dead_after: Duration::from_secs(5),
            grace: Duration::from_secs(20),
            random,
            ..Config::default()
        };
        self.ends[end].delivery = Some((config.delivery.clone(), delivery));
        self.ends[end].sending = Some((config.sending.clone(), sending));
        config
    }

    fn begin(&mut self) {
        if self.ends[CLIENT].session.is_some() {
            return;
        }
        self.generation += 1;
        self.summary.sessions += 1;
        let config = self.config(CLIENT);
        let logs = self.ends[CLIENT].logs.take();
        self.say(|| format!("session {} begins, logs {}", self.generation, logs.is_some()));
        let session = Session::connect(config, logs, self.instant());
        let end = &mut self.ends[CLIENT];
        end.links = vec![None; session.lanes()];
        end.session = Some(session);
        end.established = false;
        self.connect(0, self.generation);
        self.settle(CLIENT);
    }

    /// All was done: the session closes, and the next begins with what both ends still have.
    fn next(&mut self) {
        if self.generation >= self.profile.generations() {
            return;
        }
        self.say(|| "close, and once more".into());
        let whole = self.profile.keeps_logs(CLIENT) && self.profile.keeps_logs(SERVER);
        self.expect_warm = whole && self.ends.iter().all(|end| end.session.as_ref().is_some_and(Session::is_established));
        for flow in &mut self.flows {
            if flow.cut {
                continue;
            }
            flow.at = None;
            (flow.reset, flow.arrived, flow.reset_seen) = (None, false, false);
            for half in &mut flow.halves {
                (half.written, half.got, half.taken) = (0, 0, 0);
                (half.finished, half.end_seen, half.write_due, half.read_due) = (false, false, false, false);
            }
        }
        let closer = self.rng.below(2);
        if let Some(session) = &mut self.ends[closer].session {
            session.close();
        }
        for index in 0..self.flows.len() {
            let delay = SECOND + self.rng.within(0..5 * SECOND);
            self.after(delay, Job::Open(index));
        }
        self.settle(closer);
    }

    /// The session of an end is over, or forgotten.
    fn forget(&mut self, end: usize, keep_logs: bool) {
        let Some(session) = self.ends[end].session.take() else { return };
        self.tally(&session);
        let id = session.id();
        self.had_log[end] = session.offsets().0 > 0;
        for lane in 0..self.ends[end].links.len() {
            if let Some(link) = self.ends[end].links[lane].take() {
                self.links[link].held[end] = false;
                let (delay, other) = (self.links[link].delay, 1 - end);
                self.after(delay, Job::Lost(link, other));
            }
        }
        for flow in &mut self.flows {
            if flow.at.is_some_and(|at| at.0 == id) && !flow.halves.iter().all(|half| half.end_seen) {
                self.summary.cut += u64::from(!flow.cut);
                flow.cut = true;
            }
        }
        let logs = session.into_logs();
        self.ends[end].logs = keep_logs.then_some(logs);
        self.check_budgets(end);
        if end == CLIENT {
            let delay = self.rng.within(MS..2 * SECOND);
            self.after(delay, Job::Begin);
        }
    }

    // Transports

    fn connect(&mut self, lane: usize, generation: usize) {
        let now = self.instant();
        let end = &mut self.ends[CLIENT];
        let Some(session) = end.session.as_mut().filter(|session| generation == self.generation && lane < session.lanes()) else {
            return;
        };
        if end.links[lane].is_some() || session.ended().is_some() {
            return;
        }
        let delay = self.delays[lane] / 2 + self.rng.within(0..self.delays[lane] + 1);
        let per_byte = 1 << self.rng.below(12);
        let window = if self.rng.one_in(2) { 1 + self.rng.below(3000) } else { 1 + self.rng.below(200_000) };
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

    /// Sends what a lane has, as far as its transport takes it.
    fn pump(&mut self, end: usize, lane: usize, all: bool) {
        let Some(link) = self.ends[end].links.get(lane).copied().flatten() else { return };
        let now = self.instant();
        loop {
            let room = self.links[link].window.saturating_sub(self.links[link].pipes[end].bytes);
            if room == 0 && !all {
                break;
            }
            let Some(session) = &mut self.ends[end].session else { break };
            let mut out = Vec::new();
            let limit = if all { usize::MAX / 2 } else { 1 + self.rng.below(room) };
            session.transmit(lane, limit, now, &mut out);
            if out.is_empty() {
                break;
            }
            assert!(all || out.len() <= limit + (80 << 10), "{} bytes at once, where {limit} were asked for", out.len());
            self.send(link, end, out);
        }
    }

    /// Bytes, which are whole messages, go onto a transport.
    fn send(&mut self, link: usize, end: usize, mut bytes: Vec<u8>) {
        if self.profile.corrupts() && !self.calm && self.rng.one_in(self.harm_rate) {
            self.harm(&mut bytes);
        }
        let (now, one) = (self.now, self.rng.one_in(2));
        let jitter = self.rng.within(0..MS);
        let link_state = &mut self.links[link];
        let pipe = &mut link_state.pipes[end];
        if pipe.dead {
            // It waits in a buffer for ever.
            pipe.bytes += bytes.len();
            return;
        }
        let mut rest = &bytes[..];
        let mut times = Vec::new();
        while !rest.is_empty() {
            let most = if one { rest.len() } else { rest.len().div_ceil(2).max(20) };
            let len = 1 + self.rng.below(most.min(rest.len()));
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

    /// Flips bits in a frame, or sends a DATA message again.
    fn harm(&mut self, bytes: &mut Vec<u8>) {
        let frames = wire::frames(bytes);
        if frames.is_empty() {
            return;
        }
        let (start, frame) = frames[self.rng.below(frames.len())].clone();
        if self.rng.one_in(3) {
            self.say(|| "a message is repeated".into());
            let again = bytes[start..frame.end].to_vec();
            bytes.splice(frame.end..frame.end, again);
        } else {
            self.say(|| "a frame is harmed".into());
            for _ in 0..1 + self.rng.below(3) {
                let at = frame.start + self.rng.below(frame.len());
                bytes[at] ^= 1 << self.rng.below(8);
            }
        }
    }

    fn arrive(&mut self, link: usize, direction: usize) {
        let end = 1 - direction;
        let pipe = &mut self.links[link].pipes[direction];
        if pipe.stalled {
            return;
        }
        let Some(chunk) = pipe.flight.pop_front() else { return };
        let len = chunk.as_ref().map_or(0, Vec::len);
        pipe.bytes -= len;
        if self.links[link].held[end] {
            match chunk {
                Some(chunk) => self.hear(link, end, &chunk),
                None => self.lost(link, end),
            }
        }
        // There is room for more.
        let lane = self.links[link].lane;
        if self.links[link].held[direction] && self.ends[direction].links.get(lane).copied().flatten() == Some(link) {
            self.pump(direction, lane, false);
            self.settle(direction);
        }
    }

    fn hear(&mut self, link: usize, end: usize, chunk: &[u8]) {
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
                    self.greeted(link, &hello, &rest);
                }
                Err(error) => panic!("an honest hello: {error}"),
            }
            return;
        }
        if self.ends[end].links.get(lane).copied().flatten() != Some(link) {
            return;
        }
        let Some(session) = &mut self.ends[end].session else { return };
        session.receive(lane, chunk, now);
        self.settle(end);
    }

    /// The answering end has a whole hello.
    fn greeted(&mut self, link: usize, hello: &Hello, rest: &[u8]) {
        let now = self.instant();
        let known = self.ends[SERVER].session.as_ref().is_some_and(|session| session.id() == hello.session);
        let answer = if known {
            let session = self.ends[SERVER].session.as_mut().expect("it is known");
            session.accept_lane(hello, now).map(|lane| assert_eq!(lane as u64, hello.lane))
        } else if hello.answer == Answer::New {
            // The peer has begun anew: what is left of its earlier session is over.
            if self.ends[SERVER].session.is_some() {
                let keep = self.profile.keeps_logs(SERVER);
                self.forget(SERVER, keep);
            }
            let config = self.config(SERVER);
            let logs = self.ends[SERVER].logs.take();
            self.say(|| format!("server session, logs {}", logs.is_some()));
            Session::accept_new(config, logs, hello, now).map(|session| {
                self.ends[SERVER].links = vec![None; session.lanes()];
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
                if !rest.is_empty() && self.ends[SERVER].links.get(lane).copied().flatten() == Some(link) {
                    self.hear(link, SERVER, rest);
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
                // It may have ended the session that it was for.
                self.settle(SERVER);
            }
        }
    }

    /// The end of the stream follows what is on its way.
    fn finish_sending(&mut self, link: usize, end: usize) {
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
        // Should it never arrive.
        self.after(30 * SECOND, Job::Lost(link, 1 - end));
    }

    /// An end notices that a transport is gone.
    fn lost(&mut self, link: usize, end: usize) {
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

    fn reconnect(&mut self, end: usize, lane: usize) {
        if end == CLIENT {
            let most = if self.calm { 200 * MS } else { [MS, 100 * MS, 2 * SECOND][self.rng.below(3)] };
            let delay = self.rng.within(0..most);
            self.after(delay, Job::Connect(lane, self.generation));
        }
    }

    /// Cuts a transport: what is on its way vanishes, and each end notices in its own time.
    fn cut(&mut self, link: usize) {
        self.say(|| format!("transport {link} is cut"));
        for direction in 0..2 {
            let keep = self.rng.below(self.links[link].pipes[direction].flight.len() + 1);
            let pipe = &mut self.links[link].pipes[direction];
            if keep == 0 {
                pipe.stalled = true;
            }
            // A part may still arrive.
            while pipe.flight.len() > keep {
                if let Some(Some(chunk)) = pipe.flight.pop_back() {
                    pipe.bytes -= chunk.len();
                }
            }
            pipe.dead = true;
            let most = if self.rng.one_in(4) { 8 * SECOND } else { 300 * MS };
            let delay = self.rng.within(0..most);
            self.after(delay, Job::Lost(link, direction));
        }
    }

    // Time

    /// After anything was done to a session: its events, its deadline.
    fn settle(&mut self, end: usize) {
        let mut events = 0;
        while let Some(event) = self.ends[end].session.as_mut().and_then(Session::poll_event) {
            events += 1;
            assert!(events < 100_000, "events without end");
            self.event(end, event);
        }
        if let Some(session) = &self.ends[end].session {
            if session.ended().is_some() {
                let why = session.ended().cloned();
                self.ended(end, &why.expect("it has"));
                return;
            }
            if let Some(deadline) = session.deadline() {
                let time = deadline.saturating_duration_since(self.base).as_micros() as u64;
                // A deadline in the past is checked when the timer fires.
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

    fn check(&self, end: usize) {
        let Some(session) = &self.ends[end].session else { return };
        let counters = session.counters();
        assert!(counters.failures == 0 || self.profile.corrupts(), "a frame failed that nobody harmed");
        let (log_end, low, _) = session.offsets();
        assert!(
            log_end - low <= counters.log_capacity / 4,
            "{} bytes unacknowledged of {}",
            log_end - low,
            counters.log_capacity
        );
        let (delivery, whole) = self.ends[end].delivery.as_ref().expect("a session has one");
        assert!(
            counters.delivery_waiting_bytes <= whole / 2 + whole - delivery.left(),
            "more waits for applications than was granted"
        );
        let (_, whole) = self.ends[end].sending.as_ref().expect("a session has one");
        let most = whole + counters.flows * 4096;
        assert!(counters.send_waiting_bytes <= most, "{} bytes wait for lanes", counters.send_waiting_bytes);
    }

    fn timer(&mut self, end: usize) {
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

    // Events

    fn flow_of(&self, end: usize, id: FlowId) -> Option<usize> {
        let session = self.ends[end].session.as_ref()?.id();
        self.names.get(&(session, id)).copied()
    }

    fn event(&mut self, end: usize, event: Event) {
        let now = self.instant();
        if !matches!(event, Event::Transmit(_) | Event::Readable(_) | Event::Writable(_)) {
            self.say(|| format!("end {end}: {event:?}"));
        }
        match event {
            Event::Established => {
                assert!(!std::mem::replace(&mut self.ends[end].established, true), "established twice");
                let lanes = self.ends[end].session.as_ref().map_or(0, Session::lanes);
                if end == CLIENT {
                    self.ends[CLIENT].links.truncate(lanes);
                    for lane in 1..lanes {
                        let delay = self.rng.within(0..50 * MS);
                        self.after(delay, Job::Connect(lane, self.generation));
                    }
                }
                if self.expect_warm && self.profile.warm_for_sure() {
                    let counters = self.ends[end].session.as_ref().map(Session::counters).expect("it is established");
                    assert!(counters.warm_starts == 1 || !self.had_log[end], "end {end} starts cold");
                }
            }
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
            Event::Opened(id, target) => {
                let index: usize = std::str::from_utf8(&target)
                    .ok()
                    .and_then(|target| target.split(':').nth(1)?.parse().ok())
                    .expect("a target of this simulation");
                let session = self.ends[end].session.as_mut().expect("it has events");
                let flow = &mut self.flows[index];
                assert_eq!(flow.at, Some((session.id(), id)), "a flow of another name");
                assert!(!std::mem::replace(&mut flow.arrived, true), "opened twice");
                if flow.refused {
                    session.reset(id, ResetCode::Refused);
                    flow.reset = flow.reset.or(Some((end, ResetCode::Refused)));
                    return;
                }
                session.accept(id, now);
                self.due_write(index, end, 0);
            }
            Event::Accepted(id) => assert!(self.flow_of(end, id).is_some_and(|flow| self.flows[flow].opener == end)),
            Event::Readable(id) => {
                if let Some(flow) = self.flow_of(end, id) {
                    let gap = self.flows[flow].halves[1 - end].read_gap;
                    self.due_read(flow, end, gap);
                }
            }
            Event::Writable(id) => {
                if let Some(flow) = self.flow_of(end, id) {
                    let gap = self.flows[flow].halves[end].write_gap;
                    self.due_write(flow, end, gap);
                }
            }
            Event::Reset(id, code) => {
                let index = self.flow_of(end, id).expect("a flow that exists");
                let flow = &mut self.flows[index];
                match flow.reset {
                    Some((by, expected)) => {
                        assert!(by != end, "its own reset comes back");
                        assert_eq!(code, expected, "another code");
                    }
                    None => {
                        assert_eq!(code, ResetCode::Busy, "a reset that nobody asked for");
                        flow.reset = Some((1 - end, code));
                    }
                }
                assert!(!std::mem::replace(&mut flow.reset_seen, true), "reset twice");
            }
            Event::GoingAway | Event::Report(_) | Event::Effort(_) | Event::Memory => {}
            Event::Ended(_) => {}
        }
    }

    fn ended(&mut self, end: usize, why: &Ended) {
        self.say(|| format!("end {end} has ended: {why}"));
        assert!(self.profile.may_end(why, self.generation), "the session of end {end} ended: {why:?} {}", self.state());
        let keep = self.profile.keeps_logs(end);
        self.forget(end, keep);
    }

    // Applications

    fn due_write(&mut self, flow: usize, end: usize, gap: Time) {
        let half = &mut self.flows[flow].halves[end];
        if !std::mem::replace(&mut half.write_due, true) {
            let until = half.stalled_until;
            self.at((self.now + gap).max(until), Job::Write(flow, end));
        }
    }

    fn due_read(&mut self, flow: usize, end: usize, gap: Time) {
        let half = &mut self.flows[flow].halves[1 - end];
        if !std::mem::replace(&mut half.read_due, true) {
            let until = half.stalled_until;
            self.at((self.now + gap).max(until), Job::Read(flow, end));
        }
    }

    /// The session and name of a flow that is still open at an end.
    fn live(&self, flow: usize, end: usize) -> Option<FlowId> {
        let (session, id) = self.flows[flow].at?;
        let same = self.ends[end].session.as_ref().is_some_and(|mine| mine.id() == session);
        (same && !self.flows[flow].cut).then_some(id)
    }

    fn open(&mut self, index: usize) {
        let now = self.instant();
        let opener = self.flows[index].opener;
        if self.flows[index].at.is_some() || self.flows[index].cut {
            return;
        }
        let filler = "x".repeat(self.rng.size(900));
        let target = format!("flow:{index}:{filler}");
        let end = &mut self.ends[opener];
        let opened = end.session.as_mut().map(|session| (session.open(target.as_bytes(), now), session.id()));
        match opened {
            Some((Ok(id), session)) => {
                self.say(|| format!("flow {index} is {id:?} of end {opener}"));
                self.flows[index].at = Some((session, id));
                self.names.insert((session, id), index);
                self.summary.flows += 1;
                self.due_write(index, opener, 0);
            }
            _ => self.after(300 * MS, Job::Open(index)),
        }
        self.settle(opener);
    }

    fn write(&mut self, index: usize, end: usize) {
        self.flows[index].halves[end].write_due = false;
        let Some(id) = self.live(index, end) else { return };
        let peer_done = self.flows[index].halves[1 - end].end_seen;
        let half = &mut self.flows[index].halves[end];
        if half.finished || (half.after && !peer_done) {
            return;
        }
        let session = self.ends[end].session.as_mut().expect("it is live");
        let mut again = false;
        loop {
            let piece = half.piece.min(half.content.len() - half.written);
            if piece == 0 {
                session.finish(id);
                half.finished = true;
                break;
            }
            let written = session.write(id, &half.content[half.written..][..piece]);
            half.written += written;
            if written < piece {
                // Writable will come, unless it was reset.
                break;
            }
            if half.write_gap > 0 {
                again = true;
                break;
            }
        }
        let gap = half.write_gap;
        if again {
            self.due_write(index, end, gap);
        }
        self.settle(end);
    }

    fn read(&mut self, index: usize, end: usize) {
        self.flows[index].halves[1 - end].read_due = false;
        let Some(id) = self.live(index, end) else { return };
        let now = self.instant();
        loop {
            let session = self.ends[end].session.as_mut().expect("it is live");
            let reset = self.flows[index].reset.is_some();
            let half = &mut self.flows[index].halves[1 - end];
            match session.read(id) {
                Read::Data(bytes) => {
                    assert!(!half.end_seen, "bytes after the end");
                    let expected = half.content[..half.written].get(half.got..half.got + bytes.len());
                    assert!(expected == Some(&bytes[..]), "flow {index}: wrong bytes at {} at end {end}", half.got);
                    half.got += bytes.len();
                    if half.read_gap > 0 {
                        let (gap, len) = (half.read_gap, bytes.len());
                        // They may be taken in parts.
                        let first = self.rng.below(len + 1);
                        self.after(gap / 2, Job::Taken(index, end, first));
                        self.after(gap, Job::Taken(index, end, len - first));
                        self.due_read(index, end, gap);
                        break;
                    }
                    half.taken += bytes.len();
                    session.consumed(id, bytes.len(), now);
                }
                Read::Finished => {
                    assert!(half.finished && half.got == half.content.len(), "an early end");
                    let first = !std::mem::replace(&mut half.end_seen, true);
                    if first && self.flows[index].halves[end].after {
                        self.due_write(index, end, 0);
                    }
                    break;
                }
                Read::Nothing => break,
                Read::Gone => {
                    assert!(reset || half.end_seen, "a flow is gone");
                    break;
                }
            }
        }
        self.settle(end);
    }

    fn taken(&mut self, index: usize, end: usize, len: usize) {
        let Some(id) = self.live(index, end) else { return };
        let now = self.instant();
        let half = &mut self.flows[index].halves[1 - end];
        half.taken += len;
        if half.taken <= half.got {
            self.ends[end].session.as_mut().expect("it is live").consumed(id, len, now);
        }
        self.settle(end);
    }

    fn reset(&mut self, index: usize, end: usize) {
        let Some(id) = self.live(index, end) else { return };
        let flow = &mut self.flows[index];
        if (end != flow.opener && !flow.arrived) || flow.reset.is_some() || flow.halves.iter().all(|half| half.end_seen) {
            return;
        }
        self.say(|| format!("end {end} resets flow {index}"));
        self.flows[index].reset = Some((end, ResetCode::TimedOut));
        self.ends[end].session.as_mut().expect("it is live").reset(id, ResetCode::TimedOut);
        self.settle(end);
    }

    // Faults

    fn held_links(&self) -> Vec<usize> {
        self.ends.iter().flat_map(|end| end.links.iter().flatten().copied()).collect()
    }

    fn fault(&mut self) {
        if self.calm {
            return;
        }
        let gap = self.profile.fault_gap(&mut self.rng) * MS;
        self.after(gap, Job::Fault);
        let links = self.held_links();
        let link = (!links.is_empty()).then(|| links[self.rng.below(links.len())]);
        match self.rng.below(8) {
            0..=1 if self.profile.restarts() => {
                let end = self.rng.below(2);
                let keep = self.profile.keeps_logs(end) && self.rng.one_in(2);
                self.say(|| format!("end {end} restarts, logs {keep}"));
                self.forget(end, keep);
            }
            2 if self.profile.restarts() => {
                let end = self.rng.below(2);
                if let Some(session) = &mut self.ends[end].session {
                    session.close();
                }
                self.settle(end);
            }
            0..=4 if self.profile.loses_lanes() => {
                if let Some(link) = link {
                    self.cut(link);
                }
            }
            5 if self.profile.loses_lanes() => {
                // Half dead: one direction stands still, and nobody is told.
                if let Some(link) = link {
                    let direction = self.rng.below(2);
                    self.say(|| format!("transport {link} stalls towards end {}", 1 - direction));
                    self.links[link].pipes[direction].stalled = true;
                }
            }
            6 if self.profile.shrinks() => {
                let end = self.rng.below(2);
                let log = (1 << 20) + self.rng.next() % (6 << 20);
                let now = self.instant();
                if let Some(session) = &mut self.ends[end].session {
                    session.set_log_limit(log, now);
                }
                self.say(|| format!("end {end} keeps logs of up to {log} bytes"));
                self.settle(end);
            }
            _ => {
                let end = self.rng.below(2);
                if let Some(session) = &mut self.ends[end].session {
                    session.ask_report();
                }
                self.settle(end);
            }
        }
    }

    /// No more faults. Whatever stands still because of one is replaced.
    fn calm(&mut self) {
        self.say(|| "calm".into());
        self.calm = true;
        let links = self.held_links();
        for link in links {
            let stalled = self.links[link].pipes.iter().any(|pipe| pipe.stalled);
            // Under TLS no harmed byte arrives; without, a message whose length was harmed may wait for ever.
            if self.profile.corrupts() && !stalled {
                self.cut(link);
            }
            self.links[link].window = self.links[link].window.max(20_000);
            let lane = self.links[link].lane;
            for end in 0..2 {
                if self.ends[end].links.get(lane).copied().flatten() == Some(link) {
                    self.pump(end, lane, false);
                    self.settle(end);
                }
            }
        }
    }
}
