//! Objects as chunks with names.

use super::{HEADER, REFERENCE};
use crate::failure::{Failure, Outcome};
use oncewire_codec::sampler::{Sampler, Sampling};
use oncewire_kernels::Kernels;
use oncewire_packet::{CaptureReader, Dissector, FlowKey, Limits, Record};
use sha1::{Digest, Sha1};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Shortest and longest chunk, in bytes: T:4684.
pub(super) const SHORTEST: usize = 1024;
const LONGEST: usize = 2048;
/// Window and sampling period of markers: after the shortest chunk, one follows soon.
const WINDOW: usize = 32;
const PERIOD: usize = 512;
/// Markers found at once.
const MARKERS: usize = 256;
/// Longest object in bytes; a longer file or flow becomes several.
const OBJECT: usize = 16 << 20;
/// Time without packets after which a flow is over: T:4718.
const INACTIVE: u64 = 10_000_000_000;
/// Most flows of a capture at once. Beyond that, the one that waited longest is over.
const FLOWS: usize = 100_000;

pub(super) type Name = [u8; 20];

#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) name: Name,
    pub(super) len: u32,
}

#[derive(Debug)]
pub(super) struct Object {
    pub(super) chunks: Vec<Chunk>,
    pub(super) bytes: u64,
    /// Bytes of it in chunks that came before.
    repeated: u64,
    repeats: u64,
}

impl Object {
    /// Bytes that are sent for it if every repeat is found.
    pub(super) fn least(&self) -> u64 {
        let fresh = self.chunks.len() as u64 - self.repeats;
        self.bytes - self.repeated + HEADER * fresh + REFERENCE * self.repeats
    }
}

/// What crosses the link.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) objects: Vec<Object>,
    /// Names of chunks that crossed long before, and that the index has.
    pub(super) history: Vec<Name>,
    known: HashSet<Name>,
    pub(super) bytes: u64,
    pub(super) repeated: u64,
}

impl Trace {
    /// Appends an object.
    pub(super) fn push(&mut self, sampler: &dyn Sampler, bytes: &[u8]) {
        let (mut chunks, mut repeated, mut repeats) = (Vec::new(), 0, 0);
        cut(sampler, bytes, |bytes| {
            let chunk = Chunk { name: Sha1::digest(bytes).into(), len: bytes.len() as u32 };
            if !self.known.insert(chunk.name) {
                repeated += u64::from(chunk.len);
                repeats += 1;
            }
            chunks.push(chunk);
        });
        self.bytes += bytes.len() as u64;
        self.repeated += repeated;
        self.objects.push(Object { chunks, bytes: bytes.len() as u64, repeated, repeats });
    }

    /// Adds an object of the past.
    pub(super) fn push_history(&mut self, sampler: &dyn Sampler, bytes: &[u8]) {
        cut(sampler, bytes, |bytes| {
            let name = Sha1::digest(bytes).into();
            if self.known.insert(name) {
                self.history.push(name);
            }
        });
    }
}

/// Cuts content into chunks: at the first marker after the shortest length, or at the longest.
fn cut(sampler: &dyn Sampler, bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let kernels = Kernels::default();
    let mut markers = [0; MARKERS];
    let (mut from, mut start) = (0, 0);
    loop {
        let sampling = Sampling { kernels, block: bytes, window: WINDOW, period: PERIOD, from };
        let sampled = sampler.sample(sampling, &mut markers);
        for &marker in &markers[..sampled.count] {
            let marker = marker as usize;
            while marker > start + LONGEST {
                each(&bytes[start..start + LONGEST]);
                start += LONGEST;
            }
            if marker >= start + SHORTEST {
                each(&bytes[start..marker]);
                start = marker;
            }
        }
        if sampled.count < MARKERS {
            break;
        }
        from = sampled.resume;
    }
    bytes[start..].chunks(LONGEST).for_each(each);
}

/// Reads files and captures up to a number of bytes. Returns what they are, too.
pub(super) fn read(
    sampler: &dyn Sampler,
    paths: &[PathBuf],
    most: u64,
) -> Outcome<(Trace, String)> {
    let mut trace = Trace::default();
    let mut complete = true;
    for path in paths {
        let failed = |error: &io::Error| Failure::io("read", path.display(), error);
        let file = File::open(path).map_err(|error| failed(&error))?;
        // What is no capture is a file: objects of a proxy's cache, or releases.
        complete &= match CaptureReader::new(file) {
            Ok(capture) => flows(sampler, path, capture, most, &mut trace)?,
            Err(_) => {
                let file = File::open(path).map_err(|error| failed(&error))?;
                whole(sampler, file, most, &mut trace).map_err(|error| failed(&error))?
            }
        };
    }
    if trace.bytes == 0 {
        return Err(Failure::failed("the input has no content"));
    }
    let names = match paths {
        [one] => one.display().to_string(),
        many => format!("{} files", many.len()),
    };
    Ok((trace, if complete { names } else { format!("{names}, the beginning") }))
}

/// A file is an object. Returns whether all of it was read.
fn whole(sampler: &dyn Sampler, mut file: File, most: u64, trace: &mut Trace) -> io::Result<bool> {
    loop {
        let left = most.saturating_sub(trace.bytes).min(OBJECT as u64);
        let mut bytes = Vec::new();
        (&mut file).take(left).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(left > 0 || file.read(&mut [0])? == 0);
        }
        trace.push(sampler, &bytes);
    }
}

struct Flow {
    bytes: Vec<u8>,
    last: u64,
}

/// The packets of a flow are an object, until none came for ten seconds. Returns whether all were
/// read.
fn flows(
    sampler: &dyn Sampler,
    path: &Path,
    mut capture: CaptureReader<File>,
    most: u64,
    trace: &mut Trace,
) -> Outcome<bool> {
    let mut dissector = Dissector::new(Limits::default());
    let mut flows: HashMap<FlowKey, Flow> = HashMap::new();
    let (mut waiting, mut oldest, mut complete) = (0, 0, true);
    while let Some(record) = capture.next() {
        let record: Record<'_> = match record {
            Ok(record) => record,
            Err(error) => {
                let words = format!("{}: {error}; what was read before is used", path.display());
                crate::progress::note(&words);
                complete = false;
                break;
            }
        };
        let Ok(packet) = dissector.dissect(&record) else { continue };
        if packet.payload.is_empty() {
            continue;
        }
        let now = u64::try_from(record.time).unwrap_or(0);
        if now.saturating_sub(oldest) > INACTIVE || flows.len() >= FLOWS {
            let full = flows.len() >= FLOWS;
            let mut over: Vec<(u64, FlowKey)> = flows
                .iter()
                .filter(|(_, flow)| full || now.saturating_sub(flow.last) > INACTIVE)
                .map(|(key, flow)| (flow.last, *key))
                .collect();
            over.sort_unstable_by_key(|(last, _)| *last);
            for (_, key) in over {
                if let Some(flow) = flows.remove(&key) {
                    waiting -= flow.bytes.len() as u64;
                    trace.push(sampler, &flow.bytes);
                }
            }
            oldest = now;
        }
        let flow = flows.entry(packet.flow()).or_insert(Flow { bytes: Vec::new(), last: now });
        if flow.bytes.len() + packet.payload.len() > OBJECT
            || now.saturating_sub(flow.last) > INACTIVE
        {
            waiting -= flow.bytes.len() as u64;
            trace.push(sampler, &flow.bytes);
            flow.bytes.clear();
        }
        flow.last = now;
        flow.bytes.extend_from_slice(packet.payload);
        waiting += packet.payload.len() as u64;
        if trace.bytes + waiting >= most {
            complete = false;
            break;
        }
    }
    let mut rest: Vec<Flow> = flows.into_values().collect();
    rest.sort_by(|a, b| (a.last, &a.bytes).cmp(&(b.last, &b.bytes)));
    for flow in rest {
        trace.push(sampler, &flow.bytes);
    }
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_family::SamplerKind;

    #[test]
    fn chunks_are_one_to_two_kilobytes_and_follow_content() {
        let content = super::super::synthetic::content(1, 300_000);
        for kind in ["modp", "maxp"] {
            let sampler = SamplerKind::named(kind).expect("a name").boxed();
            let mut lens = Vec::new();
            let mut all = Vec::new();
            cut(&*sampler, &content, |chunk| {
                lens.push(chunk.len());
                all.extend_from_slice(chunk);
            });
            assert_eq!(all, content, "{kind}");
            let (last, others) = lens.split_last().expect("chunks");
            assert!(others.iter().all(|len| (SHORTEST..=LONGEST).contains(len)), "{kind}");
            assert!(*last <= LONGEST);
            let cut_by_markers = others.iter().filter(|len| **len < LONGEST).count();
            assert!(2 * cut_by_markers > others.len(), "{kind}: {cut_by_markers}");
            // Content that moved has the same chunks, but for the first ones.
            let mut trace = Trace::default();
            trace.push(&*sampler, &content);
            trace.push(&*sampler, &content[777..]);
            assert_eq!(trace.objects[0].repeated, 0);
            assert!(trace.objects[1].repeated > 280_000, "{kind}: {}", trace.objects[1].repeated);
        }
    }

    #[test]
    fn short_and_empty_objects() {
        let sampler = SamplerKind::named("modp").expect("a name").boxed();
        let mut trace = Trace::default();
        for bytes in [&b""[..], b"x", b"x", &[0; 5000]] {
            trace.push(&*sampler, bytes);
        }
        let lens: Vec<usize> = trace.objects.iter().map(|object| object.chunks.len()).collect();
        assert_eq!(lens, [0, 1, 1, 3]);
        assert_eq!(trace.repeated, 1 + 2048);
        assert_eq!(trace.objects[2].least(), REFERENCE);
    }
}
