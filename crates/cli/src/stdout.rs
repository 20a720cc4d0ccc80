//! Output on standard output: JSON documents and text.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::io::Write;

/// Writes a JSON document.
pub(crate) fn json(document: &impl Serialize) -> Outcome {
    let text = oncewire_report::json::document(document)
        .map_err(|error| Failure::failed(format!("cannot write the report as JSON: {error}")))?;
    self::text(&text)
}

/// Fails if standard output was closed: the standard library has put `/dev/null` in its place.
pub(crate) fn check_open() -> Outcome {
    if oncewire_kernels::stdout_was_closed() {
        return Err(Failure::failed("cannot write to standard output: it is closed"));
    }
    Ok(())
}

/// Writes text.
pub(crate) fn text(text: &str) -> Outcome {
    check_open()?;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::report(&error))
}

/// Savings as a share: 1 - bytes on the wire / bytes without elimination. Zero without bytes.
pub(crate) fn savings(wire: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 1.0 - wire as f64 / whole as f64 }
}
