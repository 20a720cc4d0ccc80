//! The data of charts, in the page for `page.js`.

use crate::Chart;
use maud::{Markup, PreEscaped};
use std::fmt::Write;

/// Charts as JSON, without a character that could end the element around it.
pub(super) fn data(charts: &[&Chart]) -> Markup {
    let text = serde_json::to_string(charts).unwrap_or_else(|_| "[]".into());
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // These characters occur only in strings, where an escape means the same.
        if matches!(c, '<' | '>' | '&' | '\u{7f}') || !c.is_ascii() {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    PreEscaped(out)
}
