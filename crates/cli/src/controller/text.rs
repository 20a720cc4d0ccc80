//! Text of another process.

/// It as one line.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}
