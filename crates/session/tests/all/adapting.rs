//! A session with a CPU budget: the reported cost of encoding decides the effort for the next
//! blocks.

use oncewire_codec::adapt::{CpuShare, DEPTH, Decision, HOLD, Reason};
use oncewire_kernels::random::SplitMix64;
use oncewire_session::{Config, Event, FlowId, Hello, Read, SMALLEST_LOG, Session, Settings};
use std::time::{Duration, Instant};

fn config(random: u64) -> Settings {
    let cpu_budget = Some(CpuShare::from_thousandths(100).unwrap());
    Config { log: 4 * SMALLEST_LOG, random: [random, 2, 3, 4], cpu_budget, ..Config::default() }
        .build()
        .unwrap()
}

/// Two ends with one flow, and a clock.
struct Pair {
    from: Session,
    to: Session,
    flow: FlowId,
    now: Instant,
    decisions: Vec<Decision>,
}

impl Pair {
    fn new() -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let mut from = Session::connect(config(1), None, now);
        from.attach(0, now);
        let mut hello = Vec::new();
        from.transmit(0, 1 << 20, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let to = Session::accept_new(config(2), None, &hello, now).unwrap();
        let mut pair = Pair { from, to, flow: FlowId(0), now, decisions: Vec::new() };
        pair.exchange(Duration::ZERO);
        pair.flow = pair.from.open(b"tcp:origin.example:80", b"", now).unwrap();
        pair
    }

    /// Both ends send everything they have; each block costs the first end `cost` CPU time.
    fn exchange(&mut self, cost: Duration) -> usize {
        let mut sent = 0;
        loop {
            let mut wire = Vec::new();
            self.from.transmit(0, 1, self.now, &mut wire);
            self.now += cost;
            self.from.spent(cost, self.now);
            sent += wire.len();
            self.to.receive(0, &wire, self.now);
            let mut back = Vec::new();
            self.to.transmit(0, 1 << 20, self.now, &mut back);
            self.to.spent(Duration::ZERO, self.now);
            self.from.receive(0, &back, self.now);
            while let Some(event) = self.from.poll_event() {
                if let Event::Effort(decision) = event {
                    self.decisions.push(decision);
                }
            }
            if wire.is_empty() && back.is_empty() {
                return sent;
            }
        }
    }

    /// Sends bytes and checks them at the other end; returns how many crossed the wire.
    fn send(&mut self, content: &[u8], cost: Duration) -> usize {
        let (mut written, mut got, mut sent) = (0, Vec::new(), 0);
        while got.len() < content.len() {
            written += self.from.write(self.flow, &content[written..]);
            sent += self.exchange(cost);
            while let Read::Data(chunk) = self.to.read(self.flow) {
                self.to.consumed(self.flow, chunk.len(), self.now);
                got.extend_from_slice(&chunk);
            }
            // Acknowledgements are delayed.
            self.now += Duration::from_millis(25);
            self.to.on_timeout(self.now);
            self.to.accept(self.flow, self.now);
        }
        assert!(got == content);
        sent
    }
}

/// Compressible text that hardly ever repeats.
fn words(seed: u64, len: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    let mut out = Vec::new();
    while out.len() < len {
        out.extend_from_slice(format!("{:03} ", random.below(1000)).as_bytes());
    }
    out.truncate(len);
    out
}

#[test]
fn the_effort_follows_the_cost_of_encoding() {
    let mut pair = Pair::new();
    let before = pair.send(&words(1, 500_000), Duration::ZERO);
    assert!(before < 300_000 && pair.decisions.is_empty(), "{before} {:?}", pair.decisions);

    // Each block costs the whole token bucket: all but the first are sent uncompressed.
    let expensive = pair.send(&words(2, 2_000_000), DEPTH);
    let last = *pair.decisions.last().unwrap();
    assert!(!last.to.search() && last.reason == Reason::Overdrawn, "{last}");
    assert!(expensive > 1_900_000, "{expensive}");
    let controller = pair.from.controller().unwrap();
    assert_eq!(controller.changes(), pair.decisions.len() as u64);
    assert_eq!(
        controller.usage().iter().map(|usage| usage.bytes).sum::<u64>(),
        pair.from.counters().sent_bytes
    );

    // After a pause the effort is restored, and repeats of what was sent uncompressed are found.
    pair.now += 20 * HOLD;
    let again = pair.send(&words(2, 2_000_000), Duration::ZERO);
    assert!(again < 100_000, "{again}");
    let last = *pair.decisions.last().unwrap();
    assert!(
        last.reason == Reason::Room && last.to == pair.from.controller().unwrap().effort(),
        "{last}"
    );
    assert_eq!(last.to.to_string(), "p = 32");
}
