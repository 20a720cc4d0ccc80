//! `oncewire study`: the redundancy of captured traffic.

mod live;
mod outputs;
mod report;
mod score;
pub(crate) mod source;

use crate::args::StudyArgs;
use crate::failure::{Failure, Outcome, nearest, note};
use crate::progress;
use crate::setup::config_failure;
use indicatif::ProgressBar;
use oncewire_packet::{CaptureError, Record};
use oncewire_report::format;
use oncewire_trace::prefix::Prefixes;
use oncewire_trace::request::{self, Notice, RequestError, Watch};
use oncewire_trace::results::Progress;
use oncewire_trace::{Algorithm, FigureId, Request, Settings, StudyError};
use outputs::Outputs;
use source::{Counted, Source};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    let settings = settings(args)?;
    let mut request = Request { settings, sampling: args.sample, memory: args.memory };
    // Before the first file is opened: a signal must not leave an unfinished one.
    let cancel = source::cancel_on_signal();
    let outputs = Outputs::open(args, &captures)?;
    let hidden = ProgressBar::hidden();
    let is_canceled = || cancel.load(Ordering::Relaxed);
    request.survey(&readings(&sources, &hidden, &cancel), is_canceled);
    let unread = readings(&sources, &hidden, &cancel);
    let total = request::stored(&unread).filter(|_| args.interface.is_none());
    let bar = progress::bar(total.map(|total| total * request.passes(&unread) as u64));
    let (found, corrupt) = match &args.interface {
        Some(interface) => {
            let sink = outputs.sink();
            let found = request.run_live(sink, |push| {
                capture_live(interface, args.duration, &cancel, |record| {
                    bar.inc(record.data.len() as u64);
                    push(record)
                })
            });
            (found.map_err(failure)?, Vec::new())
        }
        None => {
            let readings = readings(&sources, &bar, &cancel);
            let watch = Watcher { bar: &bar, cancel: &cancel };
            let found = request.run(&readings, outputs.sink(), &watch).map_err(failure)?;
            (found.report, found.corrupt)
        }
    };
    bar.finish_and_clear();
    outputs.write(args, &found)?;
    incomplete(&corrupt)?;
    if found.input.partial {
        return Err(Failure::interrupted(
            "interrupted: the report covers what was read until then",
        ));
    }
    Ok(())
}

/// Reads from an interface. Returns what to call it.
fn capture_live(
    interface: &str,
    duration: Option<Duration>,
    cancel: &AtomicBool,
    take: impl FnMut(&Record<'_>) -> Outcome,
) -> Outcome<String> {
    let captured = live::capture(interface, duration, cancel, take)?;
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
    Ok(format!("interface {interface}"))
}

/// The failure after the report was written, if captures ended in an error: the report has the
/// packets before it.
fn incomplete(corrupt: &[(String, CaptureError)]) -> Outcome {
    let [(name, error), rest @ ..] = corrupt else { return Ok(()) };
    let more = match rest.len() {
        0 => String::new(),
        1 => "; 1 more capture is incomplete".to_owned(),
        more => format!("; {more} more captures are incomplete"),
    };
    let message = format!("{name}: {}{more}", request::reason(error));
    Err(match error {
        CaptureError::Io(_) => Failure::failed(message),
        _ => Failure::damaged(message),
    })
}

/// A source whose reading advances a progress bar.
struct Reading<'a> {
    source: &'a Source,
    bar: &'a ProgressBar,
    cancel: &'a Arc<AtomicBool>,
}

fn readings<'a>(
    sources: &'a [Source],
    bar: &'a ProgressBar,
    cancel: &'a Arc<AtomicBool>,
) -> Vec<Reading<'a>> {
    sources.iter().map(|source| Reading { source, bar, cancel }).collect()
}

impl request::Source for Reading<'_> {
    type Error = Failure;

    fn name(&self) -> String {
        self.source.name()
    }

    fn size(&self) -> Option<u64> {
        self.source.size()
    }

    fn is_optional(&self) -> bool {
        matches!(self.source, Source::Found(_))
    }

    fn open(&self) -> Outcome<Box<dyn Read + '_>> {
        let inner = self.source.open_until(self.cancel)?;
        Ok(Box::new(Counted { inner, bar: self.bar.clone() }))
    }
}

/// Says what happens while captures are read.
struct Watcher<'a> {
    bar: &'a ProgressBar,
    cancel: &'a AtomicBool,
}

impl Watch for Watcher<'_> {
    fn is_canceled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    fn progress(&self, progress: Progress) {
        let Progress { tunnel, packet_link, .. } = progress;
        let (name, saved) = match packet_link > tunnel {
            true => ("link", packet_link),
            false => ("tunnel", tunnel),
        };
        self.bar.set_message(format!("  {name} saves {} so far", format::share(saved)));
    }

    fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Truncated { name, why } => self.bar.suspend(|| note(&format!("{name}: {why}"))),
            Notice::NotACapture { name } => {
                progress::note(&format!("{name} is not a capture: skipped"));
            }
            Notice::Canceled => {
                note(
                    "some algorithms are missing from figures 1 and 2: their pass was interrupted",
                );
            }
            Notice::Changed => note(
                "the captures changed while they were read: results of a later pass are missing",
            ),
            _ => {}
        }
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Failure {
        match error {
            StudyError::Config(error) => config_failure(error),
            error => Failure::failed(error.to_string()),
        }
    }
}

fn failure(error: RequestError<Failure>) -> Failure {
    match error {
        RequestError::Source(failure) => failure,
        RequestError::Read { name, error } => Failure::io("read", name, &error),
        RequestError::Study(error) => error.into(),
        RequestError::NoCapture => Failure::damaged(
            "none of these files is a capture; name files that tcpdump or Wireshark wrote",
        ),
        error @ (RequestError::NotACapture { .. } | RequestError::Corrupt) => {
            Failure::damaged(error.to_string())
        }
        error @ RequestError::Interrupted => Failure::interrupted(error.to_string()),
        RequestError::Empty => Failure::failed(
            "the captures have no packets; check the capture filter, or capture for longer",
        ),
        error => Failure::failed(error.to_string()),
    }
}

fn settings(args: &StudyArgs) -> Outcome<Settings> {
    let defaults = if args.all { Settings::default() } else { Settings::lean() };
    let mut settings = Settings {
        // What is asked for by name is measured.
        sweeps: args.all || !args.figures.is_empty(),
        window: args.window,
        period: args.period,
        sampler: args.sampler.kind()?,
        shim: args.shim,
        cache: args.cache,
        inside: inside(args)?,
        figure_memory: args.figure_memory,
        pair_memory: args.pair_memory,
        show_content: args.show_content,
        price: args.price,
        link: args.link,
        threads: args.threads,
        ..defaults
    };
    if let Some(file) = &args.prefixes {
        settings.prefixes = prefixes(&read_text(file)?, &file.display().to_string())?;
    }
    let is_all = |names: &[String]| names.iter().any(|name| name == "all");
    if is_all(&args.figures) {
        settings.figures = FigureId::ALL.into();
    } else if !args.figures.is_empty() {
        let named = args.figures.iter().map(|name| {
            FigureId::named(name).ok_or_else(|| {
                unknown("figure", name, FigureId::ALL.into_iter().map(FigureId::name))
            })
        });
        settings.figures = named.collect::<Outcome<_>>()?;
    }
    if is_all(&args.algorithms) {
        settings.algorithms = Algorithm::ALL.to_vec();
    } else if !args.algorithms.is_empty() {
        let named = args.algorithms.iter().map(|name| {
            Algorithm::named(name).ok_or_else(|| {
                unknown("algorithm", name, Algorithm::ALL.into_iter().map(Algorithm::name))
            })
        });
        settings.algorithms = named.collect::<Outcome<_>>()?;
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
