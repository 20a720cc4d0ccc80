//! Reports on standard output.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::io::Write;

/// Writes one JSON document.
pub(crate) fn json(document: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(document)
        .map_err(|error| Failure::failed(format!("cannot write the report as JSON: {error}")))?;
    self::text(&format!("{text}\n"))
}

/// Writes text as it is.
pub(crate) fn text(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::report(&error))
}

/// 1 - bytes on the wire / bytes without; 0 if there were none.
pub(crate) fn savings(wire: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 1.0 - wire as f64 / whole as f64 }
}
