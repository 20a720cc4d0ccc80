//! The study itself: packets in, a report out.

mod compare;
mod curve;
mod doubled;
mod pass;
mod plan;
mod population;
mod sizes;
mod verdict;

pub use plan::Part;

use crate::batch::{Batch, Direction, Kind, Packet};
use crate::results::{Accounting, Input, MatchRow, Progress, Report, Share};
use crate::service;
use crate::settings::Settings;
use oncewire_codec::ConfigError;
use oncewire_packet::{Dissector, Layer, Limits, Record, Skipped, Tally, Transport};
use pass::{Pass, Volume};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Why a study failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A parameter of an algorithm is invalid, or memory cannot be allocated.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A thread could not be started.
    #[error("cannot start threads for the study: {0}")]
    Threads(String),
    /// The sink of matches failed.
    #[error("cannot write the matches: {0}")]
    Matches(String),
    /// A thread of the study ended unexpectedly.
    #[error("a thread of the study ended unexpectedly; this is a bug")]
    Lost,
}

/// Receives all matches of the reference algorithm, batch by batch. An error ends the study.
pub type MatchSink = Box<dyn FnMut(&[MatchRow]) -> Result<(), String> + Send>;

/// Most payload bytes and packets of a batch. Threads synchronize once per batch.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_PACKETS: usize = 1 << 15;

/// Times are clamped to 146 years around 1970, so that their differences do not overflow. Times
/// beyond come from corrupt captures.
const TIME_MAX: i64 = 1 << 62;

/// The thread that measures.
type Worker = JoinHandle<Result<Pass, StudyError>>;

/// A running study. Packets are dissected on the caller's thread and measured on others.
pub struct Study {
    settings: Arc<Settings>,
    dissector: Dissector,
    batch: Batch,
    forward: SyncSender<Batch>,
    back: Receiver<Batch>,
    /// `None` once its error was returned.
    worker: Option<Worker>,
    /// The newest progress that was not asked for yet.
    news: Receiver<Progress>,
    input: Input,
    first: i64,
    last: i64,
    unused: HashMap<Skipped, Share>,
    /// Sums of `unused`, without lost fragments, which are only known at the end.
    unused_sum: Tally,
    tcp_payload: Share,
    tcp_empty: Share,
    udp: Share,
    headers: u64,
    payload: u64,
    missing: u64,
    trailer: u64,
    layers: BTreeMap<Layer, Share>,
}

impl Study {
    /// Starts a study that runs in one pass. `sink` receives every match of the reference
    /// algorithm.
    ///
    /// # Errors
    /// [`StudyError`] if a parameter is invalid.
    pub fn new(settings: Settings, sink: Option<MatchSink>) -> Result<Study, StudyError> {
        let parts = settings.parts(u64::MAX);
        Study::part(settings, parts.into_iter().next().unwrap_or_default(), sink)
    }

    /// Starts one part of a study ([`Settings::parts`]). Every part reads the whole trace.
    ///
    /// # Errors
    /// [`StudyError`] if a parameter is invalid.
    pub fn part(
        settings: Settings,
        part: Part,
        sink: Option<MatchSink>,
    ) -> Result<Study, StudyError> {
        let settings = Arc::new(settings);
        let mut pass = Pass::new(Arc::clone(&settings), part, sink)?;
        // One batch in work, one waiting, one being filled.
        let (forward, to_do) = sync_channel::<Batch>(1);
        let (done, back) = sync_channel::<Batch>(4);
        let (tell, news) = sync_channel::<Progress>(4);
        let worker = std::thread::Builder::new().name("study".into()).spawn(move || {
            for mut batch in to_do {
                pass.batch(&mut batch)?;
                batch.clear();
                let _ = done.try_send(batch);
                let _ = tell.try_send(pass.progress());
            }
            pass.finish()?;
            Ok(pass)
        });
        let worker = worker.map_err(|error| StudyError::Threads(error.to_string()))?;
        Ok(Study {
            settings,
            dissector: Dissector::new(Limits::default()),
            batch: Batch::default(),
            forward,
            back,
            worker: Some(worker),
            news,
            input: Input::default(),
            first: i64::MAX,
            last: i64::MIN,
            unused: HashMap::new(),
            unused_sum: Tally::default(),
            tcp_payload: Share::default(),
            tcp_empty: Share::default(),
            udp: Share::default(),
            headers: 0,
            payload: 0,
            missing: 0,
            trailer: 0,
            layers: BTreeMap::new(),
        })
    }

    /// Processes the next packet of the trace.
    ///
    /// # Errors
    /// [`StudyError`] if the measuring threads failed. The study has then ended.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), StudyError> {
        let record = &record.unsliced();
        let wire = record.wire_bytes();
        self.input.packets += 1;
        self.input.wire_bytes += u64::from(wire);
        self.input.captured_bytes += record.data.len() as u64;
        self.first = self.first.min(record.time);
        self.last = self.last.max(record.time);
        let inside = self.settings.inside.as_ref();
        let mut packet = Packet::other(record.time.clamp(-TIME_MAX, TIME_MAX), wire);
        match self.dissector.dissect(record) {
            Ok(found) => {
                let flow = found.flow();
                packet.flow_hash = flow.hash64();
                packet.flow = Some(flow);
                packet.direction = Direction::of_flow(&flow, inside);
                packet.service = service::service(flow.source_port, flow.destination_port);
                packet.missing = found.missing;
                // Earlier fragments included.
                packet.wire = u32::try_from(found.wire_len).unwrap_or(u32::MAX);
                let share = match found.transport {
                    Transport::Tcp { seq, flags, .. } => {
                        packet.kind = Kind::Tcp { seq, flags };
                        if found.payload.is_empty() && found.missing == 0 {
                            &mut self.tcp_empty
                        } else {
                            &mut self.tcp_payload
                        }
                    }
                    Transport::Udp { .. } => {
                        packet.kind = Kind::Udp;
                        &mut self.udp
                    }
                };
                share.packets += 1 + u64::from(found.fragments);
                share.bytes += found.wire_len;
                self.headers += u64::from(found.headers);
                self.payload += found.payload.len() as u64;
                self.missing += u64::from(found.missing);
                self.trailer += u64::from(found.trailer);
                let layers = found.layers.as_slice();
                for (nth, &layer) in layers.iter().enumerate() {
                    // An encapsulated packet has some of them again.
                    if layers[..nth].contains(&layer) {
                        continue;
                    }
                    let share = self.layers.entry(layer).or_default();
                    share.packets += 1;
                    share.bytes += found.wire_len;
                }
                for (packet, payload) in packet.pieces(found.payload) {
                    self.batch.push(packet, payload);
                    if self.batch.payload_bytes() >= BATCH_BYTES {
                        hand_over(&mut self.batch, &self.forward, &self.back, &mut self.worker)?;
                    }
                }
            }
            // Their bytes belong to the packet that completes the datagram, or are counted as lost
            // at the end.
            Err(Skipped::FragmentHeld | Skipped::FragmentLost) => {}
            Err(reason) => {
                if inside.is_some() {
                    packet.direction = Direction::Unknown;
                }
                // More than this packet, if it completed a datagram that is skipped.
                let counters = self.dissector.counters();
                let mut sum = counters.skipped();
                sum -= counters.fragment_lost;
                let share = self.unused.entry(reason).or_default();
                share.packets += sum.packets - self.unused_sum.packets;
                share.bytes += sum.bytes - self.unused_sum.bytes;
                packet.wire = u32::try_from(sum.bytes - self.unused_sum.bytes).unwrap_or(u32::MAX);
                self.unused_sum = sum;
                self.batch.push(packet, &[]);
            }
        }
        if self.batch.payload_bytes() >= BATCH_BYTES || self.batch.packets().len() >= BATCH_PACKETS
        {
            hand_over(&mut self.batch, &self.forward, &self.back, &mut self.worker)?;
        }
        Ok(())
    }

    /// What was found so far, if there is news of it.
    pub fn progress(&self) -> Option<Progress> {
        self.news.try_iter().last()
    }

    /// Bytes on the wire so far.
    pub fn wire_bytes(&self) -> u64 {
        self.input.wire_bytes
    }

    /// Ends a study of one part. `captures` are the names of the captures, `damaged` those that
    /// ended in an error, with its message.
    ///
    /// # Errors
    /// [`StudyError`] if the study ended early.
    pub fn finish(
        self,
        captures: Vec<String>,
        damaged: Vec<(String, String)>,
    ) -> Result<Report, StudyError> {
        Ok(self.finish_part()?.report(captures, damaged))
    }

    /// Ends a part of a study.
    ///
    /// # Errors
    /// [`StudyError`] if the study ended early.
    pub fn finish_part(mut self) -> Result<Found, StudyError> {
        let handed = hand_over(&mut self.batch, &self.forward, &self.back, &mut self.worker);
        let counters = *self.dissector.finish();
        let Study { ref settings, .. } = self;
        let inside = settings.inside.is_some();
        let Study { forward, worker, mut input, .. } = self;
        drop(forward);
        handed?;
        let mut pass = worker.ok_or(StudyError::Lost)?.join().map_err(|_| StudyError::Lost)??;
        let nowhere = if inside { Direction::Unknown } else { Direction::All };
        let volume = &mut pass.volumes[nowhere.index()];
        volume.packets += counters.fragment_lost.packets;
        volume.wire += counters.fragment_lost.bytes;

        if input.packets > 0 {
            input.start = Some(self.first);
            input.duration = self.last.saturating_sub(self.first) as f64 / 1e9;
        }
        let named = |name: &str, share: &Share| Share { name: name.to_owned(), ..*share };
        let of_bytes = |name: &str, bytes| Share { name: name.to_owned(), packets: 0, bytes };
        // Held fragments became part of used packets, were lost, or completed a packet that was
        // skipped for another reason.
        self.unused.remove(&Skipped::FragmentHeld);
        let lost = self.unused.entry(Skipped::FragmentLost).or_default();
        (lost.packets, lost.bytes) = (counters.fragment_lost.packets, counters.fragment_lost.bytes);
        let told = self
            .unused
            .values()
            .fold((0, 0), |sum, share| (sum.0 + share.packets, sum.1 + share.bytes));
        let of_unused = Share {
            name: "earlier fragments of packets not used".to_owned(),
            packets: counters.skipped().packets - told.0,
            bytes: counters.skipped().bytes - told.1,
        };
        let is_unsupported =
            |(reason, _): &(&Skipped, &Share)| matches!(reason, Skipped::UnsupportedLink(_));
        let unsupported =
            self.unused.iter().filter(is_unsupported).map(|(_, share)| share.bytes).sum();
        let mut unused: Vec<Share> =
            self.unused.iter().map(|(reason, share)| named(&reason.to_string(), share)).collect();
        unused.push(of_unused);
        unused.retain(|share| share.packets > 0);
        unused.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let accounting = Accounting {
            used: [
                ("TCP with payload", &self.tcp_payload),
                ("TCP without payload", &self.tcp_empty),
                ("UDP", &self.udp),
            ]
            .map(|(name, share)| named(name, share))
            .to_vec(),
            unused,
            bytes: vec![
                of_bytes("headers", self.headers),
                of_bytes("payload", self.payload),
                of_bytes("payload that was not captured", self.missing),
                of_bytes("padding and trailers", self.trailer),
            ],
            layers: self
                .layers
                .iter()
                .map(|(layer, share)| named(&layer.to_string(), share))
                .collect(),
            unsupported,
            hosts: crate::results::Hosts::default(),
        };
        Ok(Found { pass, input, accounting })
    }
}

/// The result of a part of a study.
pub struct Found {
    pass: Pass,
    input: Input,
    accounting: Accounting,
}

impl Found {
    /// Adds the result of another part of the same study. Returns `false`, and adds nothing, if the
    /// trace was not the same, such as a capture that is still being written.
    #[must_use]
    pub fn add(&mut self, other: Found) -> bool {
        let same = (self.input.packets, self.input.wire_bytes)
            == (other.input.packets, other.input.wire_bytes);
        if same {
            self.pass.outcomes.extend(other.pass.outcomes);
        }
        same
    }

    /// Notes that reading was interrupted.
    pub fn interrupted(&mut self) {
        self.input.partial = true;
    }

    /// The report. `captures` and `damaged` are as for [`Study::finish`].
    pub fn report(mut self, captures: Vec<String>, damaged: Vec<(String, String)>) -> Report {
        (self.input.captures, self.input.damaged) = (captures, damaged);
        self.pass.report(self.input, self.accounting)
    }
}

/// Hands a batch to the measuring threads and replaces it with an empty one. If the threads have
/// ended, returns their error.
fn hand_over(
    batch: &mut Batch,
    forward: &SyncSender<Batch>,
    back: &Receiver<Batch>,
    worker: &mut Option<Worker>,
) -> Result<(), StudyError> {
    if batch.is_empty() {
        return Ok(());
    }
    let full = std::mem::replace(batch, back.try_recv().unwrap_or_default());
    if forward.send(full).is_ok() {
        return Ok(());
    }
    match worker.take().map(JoinHandle::join) {
        Some(Ok(Err(error))) => Err(error),
        _ => Err(StudyError::Lost),
    }
}
