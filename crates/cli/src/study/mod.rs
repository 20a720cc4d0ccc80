//! `oncewire study`: the redundancy of captured traffic.

mod live;
mod outputs;
mod report;
mod score;
pub(crate) mod source;

use crate::args::{Sampling, StudyArgs};
use crate::failure::{Failure, Outcome, nearest, note, without_number};
use crate::progress;
use crate::quantity::bytes;
use crate::setup::config_failure;
use oncewire_packet::{CaptureError, CaptureReader, Dissector, Limits, Record};
use oncewire_trace::prefix::Prefixes;
use oncewire_trace::{Algorithm, FigureId, Settings, Study, StudyError, Survey};
use outputs::Outputs;
use source::{Counted, Source};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest total size of captures, in bytes, that get every measurement by default. Takes minutes
/// at that size.
pub(crate) const ALL_UP_TO: u64 = 1_000_000_000;

/// Size limit of a file of prefixes, in bytes; larger than a full routing table.
const PREFIX_FILE_MAX: u64 = 256 << 20;

pub(crate) fn run(args: &StudyArgs) -> Outcome {
    if args.score {
        crate::output::clean_up_on_signal();
        return score::run(args);
    }
    if args.captures.is_empty() && args.interface.is_none() {
        return Err(Failure::usage(
            "no input: name captures, `-` for standard input, or --interface NAME",
        ));
    }
    let sources = source::sources(&args.captures)?;
    // Find errors before hours of reading.
    let captures = source::check(&sources)?;
    let mut settings = settings(args, &sources)?;
    // Before the first file is opened: a signal must not leave an unfinished one.
    let cancel = source::cancel_on_signal();
    let outputs = Outputs::open(args, &captures)?;
    settings.survey = survey(&sources, &settings, &cancel);
    // Input that cannot be read again is measured in one pass.
    let memory = if settings.survey.is_some() { args.memory } else { u64::MAX };
    let mut parts = settings.parts(memory).into_iter();
    let first = parts.next().unwrap_or_default();
    let mut study = Study::part(settings.clone(), first, outputs.sink()).map_err(failure)?;
    let (mut names, mut damaged, mut corrupt) = (Vec::new(), Vec::new(), Corrupt::default());
    let mut sampler = args.sample.map(Sampler::new);
    let total =
        sources.iter().map(Source::size).sum::<Option<u64>>().filter(|_| args.interface.is_none());
    let bar = progress::bar(total.map(|total| total * (parts.len() as u64 + 1)));
    if let Some(interface) = &args.interface {
        let captured = live::capture(interface, args.duration, &cancel, |record| {
            bar.inc(record.data.len() as u64);
            take(&mut study, &mut sampler, record)
        })?;
        if captured.lost > 0 {
            note(&format!(
                "{} packets were lost because they arrived faster than the study could process them; {} were captured. Choose \
                 fewer figures and algorithms, or study a file that tcpdump wrote",
                captured.lost, captured.packets
            ));
        }
        if captured.went_down {
            note(&format!("{interface} went down; the report covers what was captured until then"));
        }
        names.push(format!("interface {interface}"));
    } else {
        for source in &sources {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            match read(source, &bar, &cancel, &mut study, &mut sampler)? {
                Read::Whole => names.push(source.name()),
                Read::Truncated(why) => {
                    bar.suspend(|| note(&format!("{}: {why}", source.name())));
                    names.push(source.name());
                    damaged.push((source.name(), why));
                }
                Read::Corrupt(failure) => {
                    names.push(source.name());
                    damaged.push((source.name(), failure.message.clone()));
                    corrupt.add(&source.name(), failure);
                }
                Read::NotACapture => {
                    progress::note(&format!("{} is not a capture: skipped", source.name()))
                }
            }
        }
        if names.is_empty() && !cancel.load(Ordering::Relaxed) {
            return Err(Failure::damaged(
                "none of these files is a capture; name files that tcpdump or Wireshark wrote",
            ));
        }
    }
    let mut found = study.finish_part().map_err(failure)?;
    for part in parts {
        let mut study = Study::part(settings.clone(), part, None).map_err(failure)?;
        let mut sampler = args.sample.map(Sampler::new);
        for source in &sources {
            read(source, &bar, &cancel, &mut study, &mut sampler)?;
        }
        if cancel.load(Ordering::Relaxed) {
            note("some algorithms are missing from figures 1 and 2: their pass was canceled");
            break;
        }
        if !found.add(study.finish_part().map_err(failure)?) {
            note("the captures changed while they were read: results of a later pass are missing");
        }
    }
    bar.finish_and_clear();
    let found = found.report(names, damaged);
    if found.input.packets == 0 {
        if !found.input.damaged.is_empty() {
            return Err(Failure::damaged(
                "no packet could be read: the captures are corrupt from the beginning",
            ));
        }
        return Err(Failure::failed(
            "the captures have no packets; check the capture filter, or capture for longer",
        ));
    }
    outputs.write(args, &found)?;
    corrupt.outcome()
}

/// Captures that ended in an error. The report has the packets before it; the command fails after
/// it has written the report.
#[derive(Default)]
struct Corrupt {
    first: Option<Failure>,
    more: usize,
}

impl Corrupt {
    fn add(&mut self, name: &str, failure: Failure) {
        match self.first {
            Some(_) => self.more += 1,
            None => {
                let message = format!("{name}: {}", failure.message);
                self.first = Some(Failure { message, ..failure });
            }
        }
    }

    fn outcome(self) -> Outcome {
        let Some(first) = self.first else { return Ok(()) };
        let more = match self.more {
            0 => String::new(),
            1 => "; 1 more capture is incomplete".to_owned(),
            more => format!("; {more} more captures are incomplete"),
        };
        Err(Failure { message: first.message + &more, ..first })
    }
}

/// Reads captures that are files and not too large a first time. Ignores errors, which the second
/// pass reports.
fn survey(sources: &[Source], settings: &Settings, cancel: &AtomicBool) -> Option<Survey> {
    let stored = sources.iter().map(Source::size).sum::<Option<u64>>()?;
    if sources.is_empty() || stored > ALL_UP_TO {
        return None;
    }
    let (mut survey, mut dissector) = (Survey::new(), Dissector::new(Limits::default()));
    for source in sources {
        let Ok(mut reader) =
            source.open().map_err(drop).and_then(|file| CaptureReader::new(file).map_err(drop))
        else {
            continue;
        };
        while let Some(Ok(record)) = reader.next() {
            survey.add(&mut dissector, &record, settings.inside.as_ref());
            if cancel.load(Ordering::Relaxed) {
                return None;
            }
        }
    }
    Some(survey)
}

/// The end of a capture.
enum Read {
    Whole,
    /// It ended in the middle of a packet, as a capture does that is still running.
    Truncated(String),
    /// It ended with another error. The study has the packets before it.
    Corrupt(Failure),
    /// A file of a directory that is not a capture.
    NotACapture,
}

fn read(
    source: &Source,
    bar: &indicatif::ProgressBar,
    cancel: &Arc<AtomicBool>,
    study: &mut Study,
    sampler: &mut Option<Sampler>,
) -> Outcome<Read> {
    let counted = Counted { inner: source.open_until(cancel)?, bar: bar.clone() };
    let canceled = || cancel.load(Ordering::Relaxed);
    let mut reader = match CaptureReader::new(counted) {
        Ok(reader) => reader,
        // A canceled pipe ends anywhere.
        Err(_) if canceled() => return Ok(Read::Whole),
        Err(CaptureError::NotACapture { .. }) if matches!(source, Source::Found(_)) => {
            return Ok(Read::NotACapture);
        }
        Err(error @ CaptureError::NotACapture { .. }) => return Err(source.not_a_capture(&error)),
        Err(CaptureError::Io(error)) => return Err(Failure::io("read", source.name(), &error)),
        Err(error) => return Ok(ended(&error)),
    };
    while let Some(record) = reader.next() {
        match record {
            Ok(record) => take(study, sampler, &record)?,
            Err(_) if canceled() => break,
            Err(CaptureError::Io(error)) => {
                return Ok(Read::Corrupt(Failure::failed(format!(
                    "reading failed: {}; the packets before were read",
                    without_number(&error)
                ))));
            }
            Err(error) => return Ok(ended(&error)),
        }
        if canceled() {
            break;
        }
    }
    Ok(Read::Whole)
}

fn ended(error: &CaptureError) -> Read {
    match error {
        CaptureError::Cut { .. } => Read::Truncated(error.to_string()),
        _ => Read::Corrupt(Failure::damaged(error.to_string())),
    }
}

fn take(study: &mut Study, sampler: &mut Option<Sampler>, record: &Record<'_>) -> Outcome {
    if sampler.as_mut().is_none_or(|sampler| sampler.takes(record.time)) {
        study.push(record).map_err(failure)?;
    }
    Ok(())
}

/// Selects the parts of a trace to study, by time since its first packet.
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
        since.rem_euclid(self.sampling.every.as_nanos() as i128)
            < self.sampling.take.as_nanos() as i128
    }
}

fn failure(error: StudyError) -> Failure {
    match error {
        StudyError::Config(error) => config_failure(error),
        error => Failure::failed(error.to_string()),
    }
}

fn settings(args: &StudyArgs, sources: &[Source]) -> Outcome<Settings> {
    let stored = sources.iter().map(Source::size).sum::<Option<u64>>();
    let small = stored.is_some_and(|stored| stored <= ALL_UP_TO) && !sources.is_empty();
    let mut settings = Settings {
        window: args.window,
        period: args.period,
        sampler: args.sampler.kind()?,
        shim: args.shim,
        cache: args.cache,
        inside: inside(args)?,
        figure_memory: args.figure_memory,
        pair_memory: args.pair_memory,
        price: args.price,
        link: args.link,
        threads: args.threads,
        ..Settings::default()
    };
    if let Some(file) = &args.prefixes {
        settings.prefixes = prefixes(&read_text(file)?, &file.display().to_string())?;
    }
    settings.figures = if args.figures.iter().any(|name| name == "all") {
        FigureId::ALL.into()
    } else if !args.figures.is_empty() {
        let named = args.figures.iter().map(|name| {
            FigureId::named(name).ok_or_else(|| {
                unknown("figure", name, FigureId::ALL.into_iter().map(FigureId::name))
            })
        });
        named.collect::<Outcome<_>>()?
    } else if small {
        FigureId::ALL.into()
    } else {
        FigureId::LEAN.into()
    };
    settings.algorithms = if args.algorithms.iter().any(|name| name == "all") {
        Algorithm::ALL.to_vec()
    } else if !args.algorithms.is_empty() {
        let named = args.algorithms.iter().map(|name| {
            Algorithm::named(name).ok_or_else(|| {
                unknown("algorithm", name, Algorithm::ALL.into_iter().map(Algorithm::name))
            })
        });
        named.collect::<Outcome<_>>()?
    } else if small {
        Algorithm::ALL.to_vec()
    } else {
        Algorithm::LEAN.to_vec()
    };
    if !small
        && (args.figures.is_empty() || args.algorithms.is_empty())
        && std::io::stderr().is_terminal()
    {
        let about = stored.map_or("a trace of unknown length".to_owned(), |stored| {
            format!("{} of captures", bytes(stored))
        });
        note(&format!(
            "for {about}, the slowest figures and algorithms are skipped; add --figures all --algorithms all to include them"
        ));
    }
    Ok(settings)
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let hint = nearest(name, known.iter().copied())
        .map_or("; ".to_owned(), |nearest| format!("; did you mean {nearest}? "));
    Failure::usage(format!("there is no {what} {name}{hint}they are: all, {}", known.join(", ")))
}

/// The networks of `--inside`.
fn inside(args: &StudyArgs) -> Outcome<Option<Prefixes>> {
    if args.inside.is_empty() {
        return Ok(None);
    }
    // The user wrote no lines, so the error omits their numbers.
    let found = Prefixes::parse(&args.inside.join("\n"))
        .map_err(|error| Failure::usage(format!("--inside: {}", error.problem)))?;
    if found.is_empty() {
        return Err(Failure::usage(
            "--inside names no network; write prefixes such as 10.0.0.0/8,2001:db8::/32",
        ));
    }
    Ok(Some(found))
}

fn prefixes(text: &str, from: &str) -> Outcome<Option<Prefixes>> {
    Prefixes::parse(text).map(Some).map_err(|error| Failure::damaged(format!("{from}: {error}")))
}

fn read_text(file: &Path) -> Outcome<String> {
    use std::io::Read;
    let failed =
        |error: &std::io::Error| Failure::io("read the prefixes from", file.display(), error);
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| failed(&error))?;
    opened.take(PREFIX_FILE_MAX + 1).read_to_end(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > PREFIX_FILE_MAX {
        return Err(Failure::damaged(format!(
            "{} is too large for a file of prefixes",
            file.display()
        )));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sample_is_the_first_part_of_every_period() {
        let seconds = |seconds: i64| seconds * 1_000_000_000;
        let sampling = Sampling { take: Duration::from_secs(60), every: Duration::from_secs(600) };
        let mut sampler = Sampler::new(sampling);
        let at = [5, 64, 65, 604, 605, 664, 665, 4].map(|at| sampler.takes(seconds(at)));
        assert_eq!(at, [true, true, false, false, true, true, false, false]);
    }
}
