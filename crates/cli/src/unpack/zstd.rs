//! Files of zstd frames, as `pack --format zstd` writes them.

use super::{Source, is_binary};
use crate::args::UnpackArgs;
use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output};
use crate::quantity::binary;
use oncewire_codec::zstd_frames;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Largest window that libzstd can hold, as a power of two.
const MOST_LOG: u32 = if cfg!(target_pointer_width = "64") { 31 } else { 30 };

/// Decodes all frames of `input`, of which `source` has the beginning. Memory is that of the window,
/// of at most `--max-cache`, rounded up to a power of two. Returns the output, and the window of the
/// first frame in bytes.
///
/// # Errors
/// [`Failure::damaged`] for anything but whole frames of zstd.
pub(super) fn run(
    args: &UnpackArgs,
    input: &mut Input,
    source: &mut Source,
    destination: Destination,
    to_terminal: bool,
    mut progress: impl FnMut(u64),
) -> Outcome<(Output, u64)> {
    let name = input.name.clone();
    if !args.base.is_empty() {
        return Err(Failure::usage(format!(
            "{name} is a zstd file, which has no base; omit --base"
        )));
    }
    let failed =
        |code| Failure::failed(format!("cannot start zstd: {}", zstd_safe::get_error_name(code)));
    let mut context = DCtx::try_create()
        .ok_or_else(|| Failure::failed("not enough memory for zstd's decoder"))?;
    let log = args.max_cache.max(1).next_power_of_two().ilog2().clamp(10, MOST_LOG);
    context.set_parameter(DParameter::WindowLogMax(log)).map_err(failed)?;
    while source.bytes().len() < zstd_frames::HEADER_MAX && source.refill(input, None)? > 0 {}
    let window = zstd_frames::stated_window(source.bytes()).unwrap_or(0);
    let refuse = |code: usize, written: u64| {
        let kept = match (&args.output, written) {
            (Some(_), _) => "nothing was written",
            (None, 0) => "there was no output",
            (None, _) => "the output so far is not verified",
        };
        match zstd_safe::get_error_name(code) {
            TOO_LARGE => Failure::damaged(format!(
                "{name} needs a window of {}, more than the {} allowed; if you trust it, raise --max-cache, up to 2G",
                binary(window),
                binary(1 << log)
            )),
            reason => Failure::damaged(format!(
                "cannot unpack {name}: {}; {kept}",
                reason.trim_end_matches('.').to_lowercase()
            )),
        }
    };
    let mut output: Option<Output> = None;
    let mut destination = Some(destination);
    let mut buffer = vec![0; DCtx::out_size()];
    loop {
        let mut given = InBuffer::around(source.bytes());
        let mut taken = OutBuffer::around(&mut buffer[..]);
        let hint = context.decompress_stream(&mut taken, &mut given);
        let (consumed, len) = (given.pos(), taken.pos());
        let hint = hint.map_err(|code| refuse(code, output.as_ref().map_or(0, Output::written)))?;
        let content = &buffer[..len];
        if to_terminal && is_binary(content) {
            return Err(super::binary_to_terminal());
        }
        // Not earlier: an input that cannot be decoded must not leave a file.
        if let Some(destination) = destination.take() {
            output = Some(destination.open()?);
        }
        let open = output.as_mut().expect("it was just opened");
        open.write(content)?;
        source.consume(consumed);
        progress(consumed as u64);
        // At the end of a frame, all is there; before, a full buffer may not be all.
        if !source.bytes().is_empty() || (len == buffer.len() && hint != 0) {
            continue;
        }
        if source.refill(input, output.as_mut())? == 0 {
            if hint == 0 {
                break;
            }
            let written = output.as_ref().map_or(0, Output::written);
            return Err(Failure::damaged(format!(
                "{name} is truncated: it ends after {written} bytes of content, inside a zstd frame"
            )));
        }
    }
    Ok((output.expect("it was opened in the first step"), window))
}

/// libzstd's name for a window beyond the limit.
const TOO_LARGE: &str = "Frame requires too much memory for decoding";
