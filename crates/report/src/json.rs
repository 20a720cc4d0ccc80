//! JSON documents for programs.

use serde::Serialize;

/// A document as indented JSON that ends with a newline. Numbers that are infinite or NaN are null.
///
/// # Errors
///
/// If the document has a map with keys that are not text.
pub fn document(document: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|text| text + "\n")
}
