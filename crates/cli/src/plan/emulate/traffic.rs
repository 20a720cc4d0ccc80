//! Packets of captures, and what reports say about the packets that were carried.

use super::super::scenario;
use super::super::watch::Progress;
use super::Failed;
use crate::args::plan::EmulateArgs;
use crate::failure::{Failure, note};
use crate::format::count_of;
use crate::quantity::bytes;
use crate::study::source::Source;
use oncewire_packet::{CaptureReader, Dissected, Dissector, Limits, Nanos};
use oncewire_plan::emulate::workload::Mapped;
use oncewire_plan::emulate::{Captures, Outcome};
use oncewire_plan::{Error, Watch};

/// What the packets were, for the document.
pub(super) struct Traffic {
    pub(super) kind: Kind,
    /// Fraction of volumes, caches and speeds that was emulated.
    pub(super) scale: f64,
    /// Description.
    pub(super) words: String,
}

pub(super) enum Kind {
    Synthetic,
    Captures {},
}

impl Traffic {
    pub(super) fn describe(args: &EmulateArgs, outcome: &Outcome) -> Traffic {
        let (scale, epoch) = (outcome.scale, outcome.instance.epoch.0);
        let Some(captured) = outcome.captured else {
            let words = format!(
                "synthetic, {} epochs of {epoch} s, {} of the volume",
                args.epochs,
                tiny_share(scale)
            );
            return Traffic { kind: Kind::Synthetic, scale, words };
        };
        let from = |node| scenario::label(&outcome.instance.network, node);
        let words = format!(
            "{} from {}, {} in {:.1} s made to last {} epochs of {epoch} s; caches and speeds are scaled to {}",
            if args.capture.len() == 1 {
                "a capture".into()
            } else {
                format!("{} captures", args.capture.len())
            },
            captured.ingress.map_or_else(|| "where their sources are".into(), from),
            bytes(captured.bytes),
            captured.seconds,
            args.epochs,
            tiny_share(scale)
        );
        Traffic { kind: Kind::Captures {}, scale, words }
    }
}

fn tiny_share(share: f64) -> String {
    if share >= 0.01 { format!("{:.3} %", 100.0 * share) } else { format!("1/{:.0}", 1.0 / share) }
}

/// Capture files, read once per pass.
pub(in crate::plan) struct CaptureFiles<'a> {
    sources: Vec<Source>,
    watch: &'a Progress,
    /// Captures that ended in an error, in words; set by the first pass. The packets before the
    /// error count.
    damaged: Option<Vec<String>>,
}

impl<'a> CaptureFiles<'a> {
    pub(in crate::plan) fn new(sources: Vec<Source>, watch: &'a Progress) -> CaptureFiles<'a> {
        CaptureFiles { sources, watch, damaged: None }
    }

    pub(in crate::plan) fn into_damaged(self) -> Vec<String> {
        self.damaged.unwrap_or_default()
    }
}

impl Captures for CaptureFiles<'_> {
    type Error = Failed;

    fn each(
        &mut self,
        process: &mut dyn FnMut(Nanos, usize, &Dissected<'_>) -> Result<(), Error>,
    ) -> Result<(), Failed> {
        let mut damaged = Vec::new();
        for source in &self.sources {
            let mut dissector = Dissector::new(Limits::default());
            let invalid =
                |error| Failed::Reading(Failure::damaged(format!("{}: {error}", source.name())));
            let mut reader =
                CaptureReader::new(source.open().map_err(Failed::Reading)?).map_err(invalid)?;
            for count in 0u64.. {
                if count.is_multiple_of(4096) {
                    self.watch.proceed()?;
                }
                match reader.next() {
                    None => break,
                    Some(Ok(record)) => {
                        if let Ok(packet) = dissector.dissect(&record) {
                            process(record.time, record.data.len(), &packet)?;
                        }
                    }
                    Some(Err(error)) => {
                        damaged.push(format!("{}: {error}", source.name()));
                        break;
                    }
                }
            }
        }
        if self.damaged.is_none() {
            damaged.iter().for_each(|why| self.watch.suspend(|| note(why)));
            self.damaged = Some(damaged);
        }
        Ok(())
    }
}

/// Says how many packets of a capture were left out, and why.
pub(in crate::plan) fn mapping_notes(mapped: Option<&Mapped>, notes: &mut Vec<String>) {
    let Some(mapped) = mapped else { return };
    let left_out = [
        (mapped.nowhere, "have an address that lies behind no node"),
        (mapped.own_pop, "would leave in the PoP where they enter"),
        (mapped.no_path, "are between nodes without a path"),
        (mapped.too_large, "are too large for IP"),
    ];
    for (packets, why) in left_out {
        if packets > 0 {
            notes.push(format!(
                "{} packets of the captures {why}, and were left out.",
                count_of(packets)
            ));
        }
    }
}
