//! What a status socket answers, as text.

use serde::Serialize;

/// The text of a status document.
pub(crate) fn render(document: impl Serialize) -> String {
    // In the order of the keys.
    let document = serde_json::to_value(document).expect("a status is plain data");
    format!("{document:#}\n")
}
