//! A world: two ends, the transports between them, and the applications at both, in simulated time.

mod applications;
mod disks;
mod faults;
mod sessions;
mod transports;

use crate::dice::Dice;
use crate::profile::Profile;
use crate::script::{Fault, FlowScript, HalfScript, MS, SECOND, Script, Time};
use crate::wire;
use oncewire_session::{
    Budget, Counters, DecodeJob, EncodeJob, FlowId, Logs, ResetCode, Session, SessionId, WriteJob,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// A chunk arrives: transport, sending end.
    Arrive(usize, usize),
    /// An end notices that a transport is gone: transport, end.
    Lost(usize, usize),
    /// A block of an end was encoded.
    Encoded(usize),
    /// A frame of an end was written.
    Written(usize),
    /// A block of an end was decoded.
    Decoded(usize),
    /// The deadline of an end's session.
    Timer(usize),
    /// The client dials for a lane, in the given session of this world.
    Connect(usize, usize),
    /// An application opens its flow.
    Open(usize),
    /// The application at an end writes, or reads: flow, end.
    Write(usize, usize),
    Read(usize, usize),
    /// It has consumed bytes: flow, end, length.
    Consumed(usize, usize, usize),
    /// It resets the flow.
    Reset(usize, usize),
    /// A fault of the script, by its index.
    Fault(usize),
    /// The client begins a session.
    Begin,
    /// The driver of an end asks what is to be written, and something becomes durable.
    Drain(usize),
    Disk(usize),
    /// It has read what a session asked for, by the number of the request; and it reads what was
    /// stored before a restart.
    Fetched(usize, u64),
    Hook(usize),
    /// Faults are over.
    Calm,
    /// Everything is done: the session closes, and another begins.
    Next,
}

/// One direction of a transport.
#[derive(Default)]
struct Pipe {
    /// Chunks in flight; `None` is the end of the stream.
    flight: VecDeque<Option<Vec<u8>>>,
    bytes: usize,
    /// When the last chunk arrives, and when the sender has put it on the wire.
    last: Time,
    free: Time,
    /// Nothing arrives any more.
    stalled: bool,
    /// Nothing that is sent from now on arrives.
    dead: bool,
    /// A frame was corrupted by [`Fault::Corrupt`].
    corrupted: bool,
}

/// A transport.
struct Link {
    lane: usize,
    /// By sending end.
    pipes: [Pipe; 2],
    delay: Time,
    /// Microseconds per byte, in units of 1/2048.
    per_byte: u64,
    window: usize,
    /// Whether each end still has it.
    held: [bool; 2],
    /// At the server, bytes that arrived before the HELLO was complete.
    early: Option<Vec<u8>>,
}

/// One direction of a flow.
struct Half {
    script: HalfScript,
    written: usize,
    finished: bool,
    /// Bytes that the other end has read, and consumed.
    got: usize,
    consumed: usize,
    end_seen: bool,
    write_due: bool,
    read_due: bool,
}

impl Half {
    fn new(script: HalfScript) -> Half {
        Half {
            script,
            written: 0,
            finished: false,
            got: 0,
            consumed: 0,
            end_seen: false,
            write_due: false,
            read_due: false,
        }
    }
}

struct SimFlow {
    opener: usize,
    at: Option<(SessionId, FlowId)>,
    /// By sending end.
    halves: [Half; 2],
    refused: bool,
    reset: Option<(usize, ResetCode)>,
    /// Its session ended before it did, or it was never opened.
    cut: bool,
    arrived: bool,
    reset_seen: bool,
}

/// One end: its session and what survives it.
#[derive(Default)]
struct End {
    session: Option<Session>,
    logs: Option<Logs>,
    disk: disks::Disk,
    /// By lane.
    links: Vec<Option<usize>>,
    /// When the timer is set to.
    armed: Option<Time>,
    /// Timers in a row after which the deadline was still in the past.
    idle_timers: usize,
    established: bool,
    /// Budgets of the session, and their sizes.
    delivery: Option<(Budget, u64)>,
    sending: Option<(Budget, u64)>,
    /// Transports on which a frame is still to be corrupted: [`Fault::Corrupt`].
    corrupt: usize,
    /// The last session had sent something, so it has a log to continue.
    had_log: bool,
    /// A block that is being encoded while other things happen.
    encoding: Option<Encoding>,
    /// A frame that is being written while other things happen, and its session.
    writing: Option<(SessionId, WriteJob)>,
    /// A block that is being decoded while other things happen, and its session.
    decoding: Option<(SessionId, DecodeJob)>,
    /// When the session began, and the REPORTs that it has sent.
    begun: Time,
    reports: u64,
}

/// A job of a session, and what is to be sent before its frame.
struct Encoding {
    session: SessionId,
    job: EncodeJob,
    lane: usize,
    link: usize,
    out: Vec<u8>,
}

pub(crate) struct World {
    profile: Profile,
    /// Which ends have a store.
    stores: [bool; 2],
    dice: Dice,
    base: Instant,
    now: Time,
    jobs: BinaryHeap<Reverse<(Time, u64, Job)>>,
    sequence: u64,
    ends: [End; 2],
    links: Vec<Link>,
    flows: Vec<SimFlow>,
    names: HashMap<(SessionId, FlowId), usize>,
    lanes: usize,
    logs: [u64; 2],
    max_flows: u64,
    domains: usize,
    contexts: [usize; 2],
    delays: Vec<Time>,
    windows: Vec<usize>,
    faults: Vec<Fault>,
    corruption_rate: usize,
    /// Sessions begun.
    generation: usize,
    calm: bool,
    calm_at: Time,
    trace: bool,
    steps: u64,
    /// Both ends are expected to continue their logs.
    expect_warm: bool,
    pub(crate) summary: Summary,
}

/// What happened in a world.
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
    /// Blocks that were encoded while other things happened, and how many of them found that their
    /// transport was gone.
    pub(crate) apart: u64,
    pub(crate) apart_lost: u64,
    /// Frames that were written while other things happened, and those whose search took place
    /// meanwhile.
    pub(crate) written_apart: u64,
    pub(crate) overtaken: u64,
    /// Blocks that were decoded while other things happened.
    pub(crate) decoded_apart: u64,
    /// Ends that were killed, and logs that came back from disk.
    pub(crate) crashes: u64,
    pub(crate) restored: u64,
    /// Bytes that were read from disk at both ends, and requests that failed or hung.
    pub(crate) recalled: u64,
    pub(crate) lost_reads: u64,
    pub(crate) matched: u64,
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
        self.apart += more.apart;
        self.apart_lost += more.apart_lost;
        self.written_apart += more.written_apart;
        self.overtaken += more.overtaken;
        self.decoded_apart += more.decoded_apart;
        self.crashes += more.crashes;
        self.restored += more.restored;
        self.recalled += more.recalled;
        self.lost_reads += more.lost_reads;
        self.matched += more.matched;
    }
}

impl World {
    pub(crate) fn new(script: Script, trace: bool, base: Instant) -> World {
        let mut world = World {
            profile: script.profile,
            stores: script.stores,
            dice: script.dice,
            base,
            now: 0,
            jobs: BinaryHeap::new(),
            sequence: 0,
            ends: Default::default(),
            links: Vec::new(),
            flows: Vec::new(),
            names: HashMap::new(),
            lanes: script.lanes,
            logs: script.logs,
            max_flows: script.max_flows,
            domains: script.domains,
            contexts: script.contexts,
            delays: script.delays,
            windows: script.windows,
            faults: Vec::new(),
            corruption_rate: script.corruption_rate,
            generation: 0,
            calm: false,
            calm_at: script.calm_at,
            trace,
            steps: 0,
            expect_warm: false,
            summary: Summary::default(),
        };
        for (index, flow) in script.flows.into_iter().enumerate() {
            let FlowScript { opener, at, halves, refused, reset } = flow;
            world.at(at, Job::Open(index));
            if let Some((at, end)) = reset {
                world.at(at, Job::Reset(index, end));
            }
            let halves = halves.map(Half::new);
            world.flows.push(SimFlow {
                opener,
                at: None,
                halves,
                refused,
                reset: None,
                cut: false,
                arrived: false,
                reset_seen: false,
            });
        }
        for (index, (at, fault)) in script.faults.into_iter().enumerate() {
            world.faults.push(fault);
            world.at(at, Job::Fault(index));
        }
        world.at(0, Job::Begin);
        world.at(script.calm_at, Job::Calm);
        world
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

    /// Prints a line of the trace.
    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>10.3} ms  {}", self.now as f64 / MS as f64, what());
        }
    }

    /// Runs until everything is done. Panics if the session breaks a guarantee, or things do not
    /// get done.
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
        assert!(
            self.is_done(),
            "nothing happens any more, but not everything is done: {}",
            self.state()
        );
        for end in 0..2 {
            if let Some(session) = self.ends[end].session.take() {
                self.tally(&session);
                drop(session.into_logs());
            }
            self.check_budgets(end);
        }
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Arrive(link, sender) => self.arrive(link, sender),
            Job::Lost(link, end) => self.lost(link, end),
            Job::Encoded(end) => self.encoded(end),
            Job::Written(end) => self.written(end),
            Job::Decoded(end) => self.decoded(end),
            Job::Timer(end) => self.timer(end),
            Job::Connect(lane, generation) => self.connect(lane, generation),
            Job::Open(flow) => self.open(flow),
            Job::Write(flow, end) => self.write(flow, end),
            Job::Read(flow, end) => self.read(flow, end),
            Job::Consumed(flow, end, len) => self.consumed(flow, end, len),
            Job::Reset(flow, end) => self.reset(flow, end),
            Job::Fault(index) => self.fault(self.faults[index]),
            Job::Begin => self.begin(),
            Job::Drain(end) => self.drain(end),
            Job::Disk(end) => self.durable(end),
            Job::Fetched(end, number) => self.fetched(end, number),
            Job::Hook(end) => self.hook(end),
            Job::Calm => self.calm(),
            Job::Next => self.next(),
        }
    }

    fn tally(&mut self, session: &Session) {
        let counters = session.counters();
        self.summary.bytes += counters.received_bytes;
        self.summary.matched += counters.matched_bytes;
        self.summary.resumes += counters.resumes;
        self.summary.failures += counters.failures;
        self.summary.warm += counters.warm_starts;
        self.summary.epochs += counters.epochs;
        self.summary.repeated += counters.repeated_bytes;
        self.summary.waits += counters.lane_waits;
        self.summary.recalled += counters.recalled_bytes;
    }

    /// Without a session, everything was released.
    fn check_budgets(&self, end: usize) {
        for (budget, whole) in self.ends[end].delivery.iter().chain(&self.ends[end].sending) {
            assert_eq!(budget.available(), *whole, "budget of end {end} after its session");
        }
    }

    fn is_done(&self) -> bool {
        let flows = self.flows.iter().all(|flow| {
            flow.cut
                || (flow.at.is_some()
                    && (flow.reset.is_some()
                        || flow.halves.iter().all(|half| half.finished && half.end_seen)))
        });
        let [Some(client), Some(server)] = self.ends.each_ref().map(|end| end.session.as_ref())
        else {
            return false;
        };
        // Each end has reported its last change.
        let known = |to: &Session, from: &Session| {
            to.peer_report().is_some_and(|(report, _)| agree(report, &from.counters()))
        };
        flows
            && client.is_idle()
            && server.is_idle()
            && known(client, server)
            && known(server, client)
    }

    /// Counts the REPORTs in what an end sends: at most one a second.
    fn count_reports(&mut self, end: usize, bytes: &[u8]) {
        let state = &mut self.ends[end];
        state.reports += wire::of_kind(wire::REPORT, bytes);
        let (reports, age) = (state.reports, self.now - state.begun);
        assert!(reports <= age / SECOND, "{reports} REPORTs in {age} us");
    }

    fn state(&self) -> String {
        let mut text = String::new();
        for (i, flow) in self.flows.iter().enumerate() {
            let done =
                flow.cut || flow.reset.is_some() || flow.halves.iter().all(|half| half.end_seen);
            if !done {
                let of = |half: &Half| {
                    let Half { written, finished, got, consumed, end_seen, script, .. } = half;
                    let len = script.content.len();
                    format!(
                        "{written}/{len} fin {finished} got {got} consumed {consumed} end {end_seen}"
                    )
                };
                let [client, server] = &flow.halves;
                text += &format!(
                    "\n  flow {i} {:?} by {}: {} | {}",
                    flow.at.map(|at| at.1),
                    flow.opener,
                    of(client),
                    of(server)
                );
            }
        }
        for (end, state) in self.ends.iter().enumerate() {
            match &state.session {
                Some(session) => {
                    let up: Vec<bool> =
                        (0..session.lanes()).map(|lane| session.is_up(lane)).collect();
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
}

/// Whether two reports are of the same state. A report changes what it counts of the wire, and
/// memory is given back late.
pub(crate) fn agree(one: &Counters, other: &Counters) -> bool {
    let same = |counters: &Counters| Counters {
        wire_sent_bytes: 0,
        wire_received_bytes: 0,
        padding_bytes: 0,
        rtt_us: 0,
        span_stalls: 0,
        memory_bytes: 0,
        ..*counters
    };
    same(one) == same(other)
}
