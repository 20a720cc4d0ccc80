//! The two formats that `pack` writes: ours, and frames of zstd.

use super::encode_failure;
use crate::args::PackArgs;
use crate::failure::{Failure, Outcome};
use crate::quantity::size;
use clap::ValueEnum;
use oncewire_codec::pack::{CONTEXTS, Header, Summary};
use oncewire_codec::zstd_frames::{self, ContentChecksum, MAX_BLOCK, MAX_WINDOW, ZstdWriter};
use oncewire_codec::{Entropy, FrameWriter, Tokens};

/// A format, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    Oncewire,
    Zstd,
}

/// Fails if there is an option that the format cannot do.
pub(super) fn check(args: &PackArgs, entropy: Entropy) -> Outcome {
    if args.format == FormatName::Oncewire {
        return Ok(());
    }
    let refuse = |reason: &str| Err(Failure::usage(format!("--format zstd {reason}")));
    if !args.base.is_empty() {
        return refuse("has no base files; omit --base, or see zstd's own --patch-from");
    }
    if args.store.store.is_some() {
        return refuse("goes on from nothing; omit --store");
    }
    if args.inside.is_on() {
        return refuse("cannot express repeats inside compressed content; omit --inside on");
    }
    if args.cpu_budget.is_some() {
        return refuse("cannot keep to a CPU budget; omit --cpu-budget");
    }
    if !matches!(entropy, Entropy::Coded { .. }) {
        return refuse("has an entropy stage of its own; omit --entropy, and choose a --level");
    }
    if let Some(block) = args.block.filter(|&block| block > MAX_BLOCK as u64) {
        return refuse(&format!(
            "has blocks of at most {}; --block {} is more",
            size(MAX_BLOCK as u64),
            size(block)
        ));
    }
    if let Some(cache) = args.cache.filter(|&cache| cache > MAX_WINDOW) {
        return refuse(&format!(
            "finds repeats up to {} back; --cache {} is more",
            size(MAX_WINDOW),
            size(cache)
        ));
    }
    Ok(())
}

/// What comes before and after the blocks.
pub(super) enum Container {
    Oncewire(Header),
    Zstd {
        /// How far back matches lie at most, in bytes.
        window: u64,
        /// Length of the content in bytes, if it is certain.
        len: Option<u64>,
        checksum: ContentChecksum,
    },
}

impl Container {
    pub(super) fn header(&self) -> Vec<u8> {
        match self {
            Container::Oncewire(header) => header.to_bytes(),
            Container::Zstd { window, len, .. } => {
                let window = len.map_or(*window, |len| len.min(*window));
                zstd_frames::header(window, *len)
            }
        }
    }

    pub(super) fn trailer(&self, summary: &Summary) -> Vec<u8> {
        match self {
            Container::Oncewire(_) => summary.trailer().to_vec(),
            Container::Zstd { checksum, .. } => zstd_frames::end(checksum).to_vec(),
        }
    }

    /// The checksum of all content, if the format has one.
    pub(super) fn checksum(&mut self) -> Option<&mut ContentChecksum> {
        match self {
            Container::Oncewire(_) => None,
            Container::Zstd { checksum, .. } => Some(checksum),
        }
    }
}

/// Writes blocks.
#[expect(clippy::large_enum_variant, reason = "there are four")]
pub(super) enum Writer {
    Oncewire(FrameWriter),
    Zstd(ZstdWriter),
}

impl Writer {
    /// A writer of the format for each context, of which `writers` are ours.
    pub(super) fn all(
        writers: Vec<FrameWriter>,
        format: FormatName,
        entropy: Entropy,
    ) -> Outcome<[Writer; CONTEXTS]> {
        let writer = |writer| {
            if format == FormatName::Oncewire {
                return Ok(Writer::Oncewire(writer));
            }
            let zstd = ZstdWriter::new(entropy).expect("other stages were refused");
            zstd.map(Writer::Zstd)
                .map_err(|error| Failure::failed(format!("cannot encode: {error}")))
        };
        let writers: Vec<Writer> = writers.into_iter().map(writer).collect::<Outcome<_>>()?;
        Ok(writers.try_into().unwrap_or_else(|_| unreachable!("one was asked for each context")))
    }

    /// Appends blocks with `position` bytes of content before them, of which `content` begins with
    /// the first, to `out`.
    pub(super) fn write(
        &mut self,
        tokens: &[Tokens],
        content: &[u8],
        position: u64,
        context: usize,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match self {
            Writer::Oncewire(writer) => {
                let mut rest = content;
                for tokens in tokens {
                    let (block, next) = rest.split_at(tokens.block_len());
                    rest = next;
                    writer.write(tokens, block, context).map_err(encode_failure)?.append_to(out);
                }
                Ok(())
            }
            Writer::Zstd(writer) => writer
                .write(tokens, content, position, out)
                .map_err(|error| Failure::failed(format!("cannot encode: {error}"))),
        }
    }
}
