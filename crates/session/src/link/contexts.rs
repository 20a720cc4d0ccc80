//! Frozen contexts of a link: from acknowledged content to frames that use them.
//!
//! Number 0 is built in and serves every domain from the first datagram on. Others belong to one domain
//! each. The sender trains them off the hot path and states where in the log their prefix is; it never
//! relies on the receiver deriving the same. A context is used only after the receiver has said that it
//! has it, and its number only again once no datagram on the path can have it.
//!
//! | context | event | next |
//! |---|---|---|
//! | none | a domain has enough new literals | training |
//! | training | it is made | announced: CONTEXT is sent |
//! | announced | CONTEXT_READY | ready: it is used |
//! | announced | CONTEXT_READY that refuses | none |
//! | ready | another one of its domain is ready, or its number is needed | retiring: not used any more |
//! | retiring | datagrams that used it are not accepted any more | none: CONTEXT_DROP is sent |
//! | any | another log | none |

use super::Sender;
use super::control::Control;
use super::replay::REPLAY_WINDOW;
use super::terms::{ContextTerms, MAX_CONTEXTS, MAX_PARTS};
use oncewire_codec::datagram::{
    DatagramDecoder, DatagramEncoder, FrozenContext, MAX_CODES, MAX_PREFIX, MAX_TRAINING, Training,
};
use oncewire_codec::{ChecksumSeed, Domain, Sharing};
use std::collections::VecDeque;
use std::ops::Range;

/// New literals of a domain after which a context is trained, in bytes.
pub const TRAIN_AFTER: u64 = 32 << 20;
/// Ranges of content that are remembered until they are acknowledged, and of each domain after.
const MAX_RANGES: usize = 4096;
/// Domains whose literals are counted. Of further ones the one that was active longest ago is
/// forgotten.
const MAX_DOMAINS: usize = 64;

/// Content to train a context from. It takes about 0.2 s: not for the thread that sends.
#[derive(Debug)]
pub struct TrainingJob {
    log: u64,
    domain: u64,
    seed: ChecksumSeed,
    content: Vec<u8>,
    /// Where the content lies in the log, in its order.
    ranges: Vec<Range<u64>>,
}

/// A context that was trained.
#[derive(Debug)]
pub struct TrainedContext {
    domain: u64,
    terms: ContextTerms,
    context: FrozenContext,
}

impl TrainingJob {
    /// Makes the context.
    pub fn run(self) -> TrainedContext {
        let TrainingJob { log, domain, seed, content, ranges } = self;
        let trained = Training::new(&content, MAX_PREFIX).finish();
        let mut parts = Vec::new();
        for segment in &trained.segments {
            place(segment, &ranges, &mut parts);
        }
        // The segments that are worth most come last.
        parts.drain(..parts.len().saturating_sub(MAX_PARTS));
        let mut prefix = Vec::new();
        for part in &parts {
            prefix.extend_from_slice(find(part, &ranges, &content));
        }
        let context = FrozenContext::new(&prefix, &trained.codes)
            .expect("training makes complete codes and a prefix of the most bytes");
        let checksum = seed.checksum(0, 0, &prefix);
        let terms = ContextTerms { log, number: 0, checksum, codes: trained.codes, parts };
        TrainedContext { domain, terms, context }
    }
}

/// Appends where a segment of content lies in the log.
fn place(segment: &Range<usize>, ranges: &[Range<u64>], parts: &mut Vec<Range<u64>>) {
    let mut at = 0;
    for range in ranges {
        let len = (range.end - range.start) as usize;
        let (from, to) = (segment.start.max(at), segment.end.min(at + len));
        if from < to {
            parts.push(range.start + (from - at) as u64..range.start + (to - at) as u64);
        }
        at += len;
    }
}

/// The content of a part of the log.
fn find<'a>(part: &Range<u64>, ranges: &[Range<u64>], content: &'a [u8]) -> &'a [u8] {
    let mut at = 0;
    for range in ranges {
        if range.start <= part.start && part.end <= range.end {
            let from = at + (part.start - range.start) as usize;
            return &content[from..from + (part.end - part.start) as usize];
        }
        at += (range.end - range.start) as usize;
    }
    &[]
}

/// Acknowledged literals of a domain.
#[derive(Debug, Default)]
struct Literals {
    domain: u64,
    /// Since the last training.
    new: u64,
    /// The newest, up to [`MAX_TRAINING`] bytes, in the order of acknowledgment.
    ranges: VecDeque<Range<u64>>,
    bytes: u64,
}

impl Literals {
    fn add(&mut self, range: Range<u64>) {
        let len = range.end - range.start;
        self.new += len;
        self.bytes += len;
        match self.ranges.back_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => self.ranges.push_back(range),
        }
        // Whole ranges, but the last one is cut.
        while self.bytes > MAX_TRAINING as u64 || self.ranges.len() > MAX_RANGES {
            let surplus = self.bytes.saturating_sub(MAX_TRAINING as u64);
            let Some(first) = self.ranges.front_mut() else { break };
            let len = first.end - first.start;
            let gone = if self.ranges.len() > MAX_RANGES { len } else { surplus.min(len) };
            let Some(first) = self.ranges.front_mut() else { break };
            first.start += gone;
            self.bytes -= gone;
            if first.is_empty() {
                self.ranges.pop_front();
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Announced,
    Ready,
    /// Datagrams below this counter may have used it.
    Retiring {
        last: u64,
    },
}

/// A context that the receiver has or will have.
#[derive(Debug)]
struct Entry {
    domain: u64,
    state: State,
    terms: ContextTerms,
    /// Counter of the datagram that used it last.
    used: u64,
}

/// The sender's contexts, of one log.
#[derive(Debug)]
pub(super) struct Contexts {
    log: u64,
    seed: ChecksumSeed,
    sharing: Sharing,
    after: u64,
    /// The domain of what is sent now.
    current: u64,
    /// Literals in flight: their ranges, in ascending order.
    sent: VecDeque<(Range<u64>, u64)>,
    /// The domain that was active last comes last.
    literals: Vec<Literals>,
    entries: Vec<Entry>,
    /// A domain whose context is in training.
    training: Option<u64>,
    messages: VecDeque<Control>,
}

impl Contexts {
    /// For the log of this number, whose checksums have this seed. A context is trained after `after`
    /// bytes of new literals.
    pub(super) fn new(log: u64, seed: ChecksumSeed, sharing: Sharing, after: u64) -> Contexts {
        Contexts {
            log,
            seed,
            sharing,
            after,
            current: 0,
            sent: VecDeque::new(),
            literals: Vec::new(),
            entries: Vec::new(),
            training: None,
            messages: VecDeque::new(),
        }
    }

    /// Domains that share content share contexts.
    fn key(&self, domain: Domain) -> u64 {
        if self.sharing == Sharing::All { 0 } else { domain.0 }
    }

    /// The number of the context for a datagram of this domain, with this counter.
    pub(super) fn choose(&mut self, domain: Domain, counter: u64) -> u8 {
        let domain = self.key(domain);
        self.current = domain;
        let is_ready = |entry: &&mut Entry| entry.domain == domain && entry.state == State::Ready;
        self.entries.iter_mut().find(is_ready).map_or(0, |entry| {
            entry.used = entry.used.max(counter);
            entry.terms.number
        })
    }

    /// Content of the domain chosen last was sent, which repeats little. Ranges come in ascending
    /// order.
    pub(super) fn sent(&mut self, range: Range<u64>) {
        let domain = self.current;
        match self.sent.back_mut() {
            Some((last, of)) if last.end == range.start && *of == domain => last.end = range.end,
            _ => self.sent.push_back((range, domain)),
        }
        if self.sent.len() > MAX_RANGES {
            self.sent.pop_front();
        }
    }

    /// The receiver has stored `range`.
    pub(super) fn acknowledged(&mut self, range: &Range<u64>) {
        let first = self.sent.partition_point(|(sent, _)| sent.end <= range.start);
        let mut found = Vec::new();
        for (sent, domain) in self.sent.range(first..) {
            if sent.start >= range.end {
                break;
            }
            found.push((sent.start.max(range.start)..sent.end.min(range.end), *domain));
        }
        for (part, domain) in found {
            self.literals_of(domain).add(part);
        }
        // What is older is overwritten soon, or was lost.
        while self
            .sent
            .front()
            .is_some_and(|(sent, _)| sent.end <= range.end && sent.start >= range.start)
        {
            self.sent.pop_front();
        }
    }

    fn literals_of(&mut self, domain: u64) -> &mut Literals {
        let literals = match self.literals.iter().position(|literals| literals.domain == domain) {
            Some(at) => self.literals.remove(at),
            None => {
                if self.literals.len() == MAX_DOMAINS {
                    self.literals.remove(0);
                }
                Literals { domain, ..Literals::default() }
            }
        };
        self.literals.push(literals);
        let last = self.literals.len() - 1;
        &mut self.literals[last]
    }

    /// What is to be trained, if a domain has enough new literals and a number is free. One at a time.
    pub(super) fn training(
        &mut self,
        encoder: &DatagramEncoder,
        counter: u64,
    ) -> Option<TrainingJob> {
        if self.training.is_some() {
            return None;
        }
        let after = self.after;
        let at = self.literals.iter().position(|literals| literals.new >= after)?;
        if self.entries.len() == usize::from(MAX_CONTEXTS) {
            self.retire_oldest(counter);
            return None;
        }
        let literals = &mut self.literals[at];
        literals.new = 0;
        let (mut content, mut ranges) = (Vec::new(), Vec::new());
        for range in &literals.ranges {
            if let Some(bytes) = encoder.content(range.clone()) {
                content.extend_from_slice(bytes);
                ranges.push(range.clone());
            }
        }
        self.training = Some(literals.domain);
        let (log, domain, seed) = (self.log, literals.domain, self.seed);
        Some(TrainingJob { log, domain, seed, content, ranges })
    }

    /// The context that was not used for longest is not used any more.
    fn retire_oldest(&mut self, counter: u64) {
        if self.entries.iter().any(|entry| matches!(entry.state, State::Retiring { .. })) {
            return;
        }
        let ready = self.entries.iter_mut().filter(|entry| entry.state == State::Ready);
        if let Some(oldest) = ready.min_by_key(|entry| entry.used) {
            oldest.state = State::Retiring { last: counter };
        }
    }

    /// A context was made: announces it, and gives it to the encoder.
    pub(super) fn trained(&mut self, trained: TrainedContext, encoder: &mut DatagramEncoder) {
        let TrainedContext { domain, mut terms, context } = trained;
        if terms.log != self.log || self.training != Some(domain) {
            return;
        }
        self.training = None;
        let is_used = |number: &u8| self.entries.iter().any(|entry| entry.terms.number == *number);
        let Some(number) = (1..=MAX_CONTEXTS).find(|number| !is_used(number)) else { return };
        terms.number = number;
        encoder.set_context(number, Some(&context));
        self.messages.push_back(Control::Context(terms.clone()));
        self.entries.push(Entry { domain, state: State::Announced, terms, used: 0 });
    }

    /// The receiver has answered. Datagrams before `counter` may have used the domain's context so far.
    pub(super) fn ready(
        &mut self,
        (log, number, is_taken): (u64, u8, bool),
        counter: u64,
        encoder: &mut DatagramEncoder,
    ) {
        let of = |entry: &Entry| entry.terms.number == number && entry.state == State::Announced;
        let Some(at) = self.entries.iter().position(of).filter(|_| log == self.log) else { return };
        if !is_taken {
            self.entries.remove(at);
            encoder.set_context(number, None);
            return;
        }
        let domain = self.entries[at].domain;
        for entry in &mut self.entries {
            if entry.domain == domain && entry.state == State::Ready {
                entry.state = State::Retiring { last: counter };
            }
        }
        self.entries[at].state = State::Ready;
    }

    /// Of datagrams below this counter it is known whether they arrived: those far below it are not
    /// accepted any more.
    pub(super) fn settled(&mut self, counter: u64, encoder: &mut DatagramEncoder) {
        let Contexts { log, entries, messages, .. } = self;
        entries.retain(|entry| match entry.state {
            State::Retiring { last } if counter >= last.saturating_add(REPLAY_WINDOW) => {
                let number = entry.terms.number;
                encoder.set_context(number, None);
                messages.push_back(Control::ContextDrop { log: *log, number });
                false
            }
            _ => true,
        });
    }

    /// There is a new connection: what was not answered is sent again.
    pub(super) fn connected(&mut self) {
        self.messages.retain(|message| matches!(message, Control::ContextDrop { .. }));
        for entry in self.entries.iter().filter(|entry| entry.state == State::Announced) {
            self.messages.push_back(Control::Context(entry.terms.clone()));
        }
    }

    /// Whether there is a message, or something to train.
    pub(super) fn has_work(&self) -> bool {
        let is_due = |literals: &Literals| literals.new >= self.after;
        !self.messages.is_empty() || (self.training.is_none() && self.literals.iter().any(is_due))
    }

    /// The next message to the other end.
    pub(super) fn message(&mut self) -> Option<Control> {
        self.messages.pop_front()
    }

    /// Memory in bytes, without that of the encoder.
    pub(super) fn memory(&self) -> usize {
        const RANGE: usize = size_of::<Range<u64>>();
        let domains: usize = self.literals.iter().map(|of| of.ranges.capacity() * RANGE).sum();
        let terms = self.entries.len() * (MAX_CODES + MAX_PARTS * RANGE);
        self.sent.capacity() * size_of::<(Range<u64>, u64)>() + domains + terms
    }
}

impl Sender {
    /// Content to train a context from, if there is enough. Run it on a thread of its own, and pass the
    /// result to [`Sender::trained`]. There is at most one at a time.
    pub fn training(&mut self) -> Option<TrainingJob> {
        let counter = self.next_counter();
        let log = self.log.as_mut().filter(|log| log.is_current)?;
        log.contexts.training(&log.encoder, counter)
    }

    /// A context was made; the next [`Sender::message`] announces it.
    pub fn trained(&mut self, trained: TrainedContext) {
        if let Some(log) = &mut self.log {
            log.contexts.trained(trained, &mut log.encoder);
        }
    }

    /// The other end has answered a CONTEXT: the number of its log, its own, and whether it was taken.
    pub fn context_ready(&mut self, log: u64, number: u8, is_taken: bool) {
        let counter = self.next_counter();
        if let Some(own) = &mut self.log {
            own.contexts.ready((log, number, is_taken), counter, &mut own.encoder);
        }
    }

    /// Trains a context after this many bytes of new literals of a domain, in logs from now on.
    pub fn train_after(mut self, bytes: u64) -> Sender {
        self.announcer.train_after = Some(bytes);
        self
    }
}

/// Takes a context that the other end has announced, for the log of this number. Returns the answer:
/// it refuses a context whose prefix the log does not have. `None` if it is of another log.
pub(super) fn receive(
    terms: &ContextTerms,
    log: u64,
    seed: ChecksumSeed,
    decoder: &mut DatagramDecoder,
) -> Option<Control> {
    let number = terms.number;
    if terms.log != log || !(1..=MAX_CONTEXTS).contains(&number) {
        return None;
    }
    let context = make(terms, seed, decoder);
    let is_taken = context.is_some();
    decoder.set_context(number, context.as_ref());
    Some(Control::ContextReady { log, number, is_taken })
}

fn make(
    terms: &ContextTerms,
    seed: ChecksumSeed,
    decoder: &DatagramDecoder,
) -> Option<FrozenContext> {
    let mut prefix = Vec::new();
    for part in &terms.parts {
        let bytes = decoder.content(part.clone())?;
        if prefix.len() + bytes.len() > MAX_PREFIX {
            return None;
        }
        prefix.extend_from_slice(bytes);
    }
    let is_right = terms.codes.len() <= MAX_CODES && seed.checksum(0, 0, &prefix) == terms.checksum;
    is_right.then(|| FrozenContext::new(&prefix, &terms.codes).ok()).flatten()
}
