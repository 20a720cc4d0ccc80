//! Text from outside: file names, host names, labels of a topology.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces each [`unprintable`] character by U+FFFD. The result fits on one line and cannot
/// control a terminal or reverse the text around it.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if text.contains(unprintable) {
        Cow::Owned(text.chars().map(|c| if unprintable(c) { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Whether a character is a control character, ends a line, is invisible or changes the direction
/// of text.
pub fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Columns of a terminal that text occupies. Wide characters occupy two.
pub fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

fn columns_of(c: char) -> usize {
    UnicodeWidthChar::width(c).unwrap_or(0)
}

/// Text of at most `width` columns. An ellipsis replaces what is cut off.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if columns(&out) + columns_of(c) >= width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Text in lines of at most `width` columns, the first after `first`, later ones indented below it.
/// Words wider than a line are broken. A percent sign stays with its number.
pub(crate) fn wrap(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(columns(first));
    let room = width.saturating_sub(indent.len()).max(1);
    let text = sanitize(text);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut words = text.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        while let Some(sign) = words.next_if(|next| next.starts_with('%')) {
            word = word + " " + sign;
        }
        if !line.is_empty() && columns(&line) + 1 + columns(&word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if columns(&line) + columns_of(c) > room {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    let starts = std::iter::once(first).chain(std::iter::repeat(&indent[..]));
    lines.iter().zip(starts).map(|(line, start)| format!("{start}{line}")).collect()
}

/// The text with its first letter in upper case.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(sanitize("plain.pcap"), "plain.pcap");
        assert_eq!(
            sanitize("a\x1b[31mb\r\nc\u{202e}d"),
            "a\u{fffd}[31mb\u{fffd}\u{fffd}c\u{fffd}d"
        );
    }

    #[test]
    fn words_are_wrapped_and_cut() {
        assert_eq!(wrap("- ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrap("", "abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrap("", "", 4), [""]);
        assert_eq!(wrap("", "of 12.3 %, so", 9), ["of", "12.3 %,", "so"]);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("plain", 5), "plain");
    }
}
