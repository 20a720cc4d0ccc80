//! A report from captures: the survey and all passes that a study takes.

use crate::results::{Progress, Report};
use crate::study::{MatchSink, Part, Study, StudyError};
use crate::{Settings, Survey};
use oncewire_packet::{CaptureError, CaptureReader, Dissector, Limits, Record};
use oncewire_report::format::without_number;
use std::io::{self, Read};
use std::time::Duration;

/// Most bytes of packets, as captured and not compressed, that are read a first time, so that caches
/// and tables are no larger than their content.
pub const SURVEY_UP_TO: u64 = 1_000_000_000;

/// What to study, and within which memory.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is measured.
    pub settings: Settings,
    /// The parts of the trace to study; all of it by default.
    pub sampling: Option<Sampling>,
    /// Memory that the algorithms of one pass may take, in bytes. Captures are read several times
    /// if all need more. Input that cannot be read again is measured in one pass.
    pub memory: u64,
}

/// A sample of a trace: the first `take` of every `every`, by time since its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// How much of each period is studied.
    pub take: Duration,
    /// The period. Not 0.
    pub every: Duration,
}

/// A capture to read.
pub trait Source {
    /// Why it cannot be opened.
    type Error;

    /// Its name for people.
    fn name(&self) -> String;

    /// Its stored size in bytes; `None` if it can be read only once, as a pipe.
    fn size(&self) -> Option<u64>;

    /// Whether it is left out if it is not a capture, because nobody named it.
    fn is_optional(&self) -> bool;

    /// Opens it, for each pass again.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open(&self) -> Result<Box<dyn Read + '_>, Self::Error>;
}

/// Follows a study while it reads.
pub trait Watch {
    /// Whether to stop reading; the report is then about what was read.
    fn is_canceled(&self) -> bool;

    /// How much was read in the first pass, and what was saved of it so far.
    fn progress(&self, _: Progress) {}

    /// Something that the report does not say.
    fn notice(&self, notice: Notice<'_>);
}

/// What happened while captures were read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A capture ends in the middle of a packet, as one does that is still being written.
    Truncated {
        /// Its name.
        name: &'a str,
        /// Where it ends.
        why: &'a CaptureError,
    },
    /// A file that nobody named is not a capture, and was left out.
    NotACapture {
        /// Its name.
        name: &'a str,
    },
    /// A later pass was canceled: some algorithms are missing.
    Canceled,
    /// The captures changed between two passes: results of a later one are missing.
    Changed,
}

/// A report, and which captures it does not have completely.
#[derive(Debug)]
pub struct Studied {
    /// The report.
    pub report: Report,
    /// Name and error of each capture that ended in one. The report has the packets before it.
    /// Captures that are only truncated are not among them.
    pub corrupt: Vec<(String, CaptureError)>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError<E> {
    /// A source cannot be opened, or the capture of packets failed.
    #[error("{0}")]
    Source(E),
    /// Reading a capture failed at its beginning.
    #[error("cannot read {name}: {error}")]
    Read {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// A source that was named is not a capture.
    #[error("cannot read the capture {name}: {error}")]
    NotACapture {
        /// Its name.
        name: String,
        /// What it looks like.
        error: CaptureError,
    },
    /// The study failed.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// None of the sources is a capture.
    #[error("none of these files is a capture")]
    NoCapture,
    /// No packet could be read, because the captures are corrupt from the beginning.
    #[error("no packet could be read: the captures are corrupt from the beginning")]
    Corrupt,
    /// There were no packets.
    #[error("the captures have no packets")]
    Empty,
    /// Reading was canceled before the first packet.
    #[error("interrupted before a packet was read")]
    Interrupted,
}

/// Stored size of all sources in bytes; `None` if one of them can be read only once.
pub fn stored<S: Source>(sources: &[S]) -> Option<u64> {
    sources.iter().map(Source::size).sum()
}

impl Settings {
    /// What the verdict needs, and the figures and algorithms that are asked for most.
    pub fn lean() -> Settings {
        Settings {
            figures: crate::FigureId::LEAN.into(),
            algorithms: crate::Algorithm::LEAN.to_vec(),
            sweeps: false,
            ..Settings::default()
        }
    }
}

impl Request {
    /// Reads the captures a first time, unless they are large or can be read only once, so that
    /// caches and tables are no larger than their content. Skips what it cannot read, which
    /// [`Request::run`] reports.
    pub fn survey<S: Source>(&mut self, sources: &[S], is_canceled: impl Fn() -> bool) {
        self.settings.survey = None;
        // Nothing compresses to more than its size; a compressed capture may be larger than stored.
        if sources.is_empty() || stored(sources).is_none_or(|stored| stored > SURVEY_UP_TO) {
            return;
        }
        let mut read = 0;
        let (mut survey, mut dissector) = (Survey::new(), Dissector::new(Limits::default()));
        for source in sources {
            let Ok(mut reader) =
                source.open().map_err(drop).and_then(|file| CaptureReader::new(file).map_err(drop))
            else {
                continue;
            };
            while let Some(Ok(record)) = reader.next() {
                survey.add(&mut dissector, &record, self.settings.inside.as_ref());
                read += record.data.len() as u64;
                if is_canceled() || read > SURVEY_UP_TO {
                    return;
                }
            }
        }
        self.settings.survey = Some(survey);
    }

    /// What is read once can be measured in one pass only.
    fn parts(&self, is_read_once: bool) -> Vec<Part> {
        self.settings.parts(if is_read_once { u64::MAX } else { self.memory })
    }

    /// How often [`Request::run`] will read the captures.
    pub fn passes<S: Source>(&self, sources: &[S]) -> usize {
        self.parts(stored(sources).is_none()).len()
    }

    fn pass(&self, part: Part, sink: Option<MatchSink>) -> Result<Pass, StudyError> {
        let settings = Settings { is_sample: self.sampling.is_some(), ..self.settings.clone() };
        let study = Study::part(settings, part, sink)?;
        Ok(Pass { study, sampler: self.sampling.map(Sampler::new) })
    }

    /// Studies captures. `sink` receives every match of the reference algorithm.
    ///
    /// # Errors
    /// [`RequestError`]. A capture that ends in an error is none.
    pub fn run<S: Source>(
        &self,
        sources: &[S],
        sink: Option<MatchSink>,
        watch: &impl Watch,
    ) -> Result<Studied, RequestError<S::Error>> {
        let mut parts = self.parts(stored(sources).is_none()).into_iter();
        let mut pass = self.pass(parts.next().unwrap_or_default(), sink)?;
        let (mut names, mut damaged, mut corrupt) = (Vec::new(), Vec::new(), Vec::new());
        for source in sources {
            if watch.is_canceled() {
                break;
            }
            let name = source.name();
            match pass.read(source, watch)? {
                End::Whole => names.push(name),
                End::Early(error) => {
                    names.push(name.clone());
                    damaged.push((name.clone(), reason(&error)));
                    match error {
                        why @ CaptureError::Cut { .. } => {
                            watch.notice(Notice::Truncated { name: &name, why: &why });
                        }
                        error => corrupt.push((name, error)),
                    }
                }
                End::NotACapture => watch.notice(Notice::NotACapture { name: &name }),
            }
        }
        if names.is_empty() && !watch.is_canceled() {
            return Err(RequestError::NoCapture);
        }
        let mut is_partial = watch.is_canceled();
        let mut found = pass.study.finish_part()?;
        for part in parts {
            let mut pass = self.pass(part, None)?;
            for source in sources {
                pass.read(source, watch)?;
            }
            if watch.is_canceled() {
                watch.notice(Notice::Canceled);
                is_partial = true;
                break;
            }
            if !found.add(pass.study.finish_part()?) {
                watch.notice(Notice::Changed);
            }
        }
        if is_partial {
            found.interrupted();
        }
        match checked(found.report(names, damaged)) {
            Err(RequestError::Empty) if is_partial => Err(RequestError::Interrupted),
            report => Ok(Studied { report: report?, corrupt }),
        }
    }

    /// Studies packets as they come. `capture` passes each of them to its argument, and returns what
    /// to call the input.
    ///
    /// # Errors
    /// [`RequestError`]; [`RequestError::Source`] if `capture` failed.
    pub fn run_live<E: From<StudyError>>(
        &self,
        sink: Option<MatchSink>,
        capture: impl FnOnce(&mut dyn FnMut(&Record<'_>) -> Result<(), E>) -> Result<String, E>,
    ) -> Result<Report, RequestError<E>> {
        let mut pass = self.pass(self.parts(true).into_iter().next().unwrap_or_default(), sink)?;
        let name = capture(&mut |record| Ok(pass.take(record)?)).map_err(RequestError::Source)?;
        checked(pass.study.finish_part()?.report(vec![name], Vec::new()))
    }
}

/// A report that has packets.
fn checked<E>(report: Report) -> Result<Report, RequestError<E>> {
    match (report.input.packets, report.input.damaged.is_empty()) {
        (0, true) => Err(RequestError::Empty),
        (0, false) => Err(RequestError::Corrupt),
        _ => Ok(report),
    }
}

/// Why a capture ended early, as its report says it.
pub fn reason(error: &CaptureError) -> String {
    match error {
        CaptureError::Io(error) => {
            format!("reading failed: {}; the packets before were read", without_number(error))
        }
        error => error.to_string(),
    }
}

/// The end of a capture.
enum End {
    Whole,
    /// It ended in an error. The study has the packets before it.
    Early(CaptureError),
    NotACapture,
}

/// One pass over the captures.
struct Pass {
    study: Study,
    sampler: Option<Sampler>,
}

impl Pass {
    fn read<S: Source>(
        &mut self,
        source: &S,
        watch: &impl Watch,
    ) -> Result<End, RequestError<S::Error>> {
        let file = source.open().map_err(RequestError::Source)?;
        let mut reader = match CaptureReader::new(file) {
            Ok(reader) => reader,
            // A canceled pipe ends anywhere.
            Err(_) if watch.is_canceled() => return Ok(End::Whole),
            Err(CaptureError::NotACapture { .. }) if source.is_optional() => {
                return Ok(End::NotACapture);
            }
            Err(error @ CaptureError::NotACapture { .. }) => {
                return Err(RequestError::NotACapture { name: source.name(), error });
            }
            Err(CaptureError::Io(error)) => {
                return Err(RequestError::Read { name: source.name(), error });
            }
            Err(error) => return Ok(End::Early(error)),
        };
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => {
                    self.take(&record)?;
                    if let Some(progress) = self.study.progress() {
                        watch.progress(progress);
                    }
                }
                Err(_) if watch.is_canceled() => break,
                Err(error) => return Ok(End::Early(error)),
            }
            if watch.is_canceled() {
                break;
            }
        }
        Ok(End::Whole)
    }

    fn take(&mut self, record: &Record<'_>) -> Result<(), StudyError> {
        if self.sampler.as_mut().is_none_or(|sampler| sampler.takes(record.time)) {
            self.study.push(record)?;
        }
        Ok(())
    }
}

/// Selects the packets of a sample.
struct Sampler {
    sampling: Sampling,
    first: Option<i64>,
}

impl Sampler {
    fn new(sampling: Sampling) -> Sampler {
        Sampler { sampling, first: None }
    }

    fn takes(&mut self, time: i64) -> bool {
        let first = *self.first.get_or_insert(time);
        let since = i128::from(time) - i128::from(first);
        since.rem_euclid(self.sampling.every.as_nanos().max(1) as i128)
            < self.sampling.take.as_nanos() as i128
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn a_sample_is_the_first_part_of_every_period() {
        let seconds = |seconds: i64| seconds * 1_000_000_000;
        let sampling = Sampling { take: Duration::from_secs(60), every: Duration::from_secs(600) };
        let mut sampler = Sampler::new(sampling);
        let at = [5, 64, 65, 604, 605, 664, 665, 4].map(|at| sampler.takes(seconds(at)));
        assert_eq!(at, [true, true, false, false, true, true, false, false]);
    }

    /// A capture in memory, that counts how often it is opened.
    struct Memory {
        name: &'static str,
        bytes: Vec<u8>,
        named: bool,
        opened: Cell<usize>,
    }

    impl Source for Memory {
        type Error = String;

        fn name(&self) -> String {
            self.name.into()
        }

        fn size(&self) -> Option<u64> {
            Some(self.bytes.len() as u64)
        }

        fn is_optional(&self) -> bool {
            !self.named
        }

        fn open(&self) -> Result<Box<dyn Read + '_>, String> {
            self.opened.set(self.opened.get() + 1);
            Ok(Box::new(&self.bytes[..]))
        }
    }

    #[derive(Default)]
    struct Notes(RefCell<Vec<String>>);

    impl Watch for Notes {
        fn is_canceled(&self) -> bool {
            false
        }

        fn notice(&self, notice: Notice<'_>) {
            self.0.borrow_mut().push(format!("{notice:?}"));
        }
    }

    /// A pcap file with UDP packets over raw IP.
    fn capture(packets: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            out.extend(word.to_le_bytes());
        }
        for nth in 0..packets {
            let payload = [nth as u8; 400];
            let len = 28 + payload.len() as u32;
            for word in [nth as u32, 0, len, len] {
                out.extend(word.to_le_bytes());
            }
            out.extend([0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
            out.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            let udp = 8 + payload.len() as u16;
            out.extend([0x1f, 0x90, 0x1f, 0x91, (udp >> 8) as u8, udp as u8, 0, 0]);
            out.extend(payload);
        }
        out
    }

    fn memory(name: &'static str, bytes: Vec<u8>, named: bool) -> Memory {
        Memory { name, bytes, named, opened: Cell::new(0) }
    }

    fn request(memory: u64) -> Request {
        let settings = Settings { cache: 1 << 20, threads: 1, ..Settings::lean() };
        Request { settings, sampling: None, memory }
    }

    #[test]
    fn captures_are_read_once_for_each_pass_and_once_before() {
        let whole = |memory_limit| {
            let sources = [memory("a", capture(20), true)];
            let mut request = request(memory_limit);
            request.survey(&sources, || false);
            let passes = request.passes(&sources);
            let found = request.run(&sources, None, &Notes::default()).unwrap();
            assert_eq!(sources[0].opened.get(), 1 + passes);
            (passes, found.report)
        };
        let (once, report) = whole(u64::MAX);
        let (often, same) = whole(0);
        assert!(once == 1 && often > 1, "{once} and {often}");
        assert_eq!((report.input.packets, same.input.packets), (20, 20));
        assert_eq!(report.verdict.savings, same.verdict.savings);
    }

    #[test]
    fn damage_is_reported_and_what_is_no_capture_is_left_out() {
        let mut cut = capture(3);
        cut.truncate(cut.len() - 1);
        let mut corrupt = capture(2);
        // A record of 2^32 - 1 bytes.
        let from = corrupt.len();
        corrupt.extend(capture(1)[24..].to_vec());
        corrupt[from + 8..from + 16].fill(0xff);
        let sources = [
            memory("cut", cut, true),
            memory("corrupt", corrupt, true),
            memory("readme", b"no capture of any kind".to_vec(), false),
        ];
        let notes = Notes::default();
        let found = request(u64::MAX).run(&sources, None, &notes).unwrap();
        assert_eq!(found.report.input.packets, 4);
        assert_eq!(found.report.input.captures, ["cut", "corrupt"]);
        assert_eq!(found.report.input.damaged.len(), 2);
        let corrupt: Vec<&str> = found.corrupt.iter().map(|(name, _)| &**name).collect();
        assert_eq!(corrupt, ["corrupt"]);
        let notes = notes.0.into_inner();
        assert!(notes[0].starts_with("Truncated { name: \"cut\""), "{notes:?}");
        assert_eq!(notes[1], "NotACapture { name: \"readme\" }");
    }

    #[test]
    fn no_packets_are_no_report() {
        let run = |bytes: Vec<u8>, named| {
            let sources = [memory("a", bytes, named)];
            request(u64::MAX).run(&sources, None, &Notes::default()).unwrap_err()
        };
        let text = b"no capture of any kind".to_vec();
        assert!(matches!(run(text.clone(), true), RequestError::NotACapture { .. }));
        assert!(matches!(run(text, false), RequestError::NoCapture));
        assert!(matches!(run(capture(0), true), RequestError::Empty));
        let cut = capture(1)[..30].to_vec();
        assert!(matches!(run(cut, true), RequestError::Corrupt));
    }
}
