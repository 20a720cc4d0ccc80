//! What content is, by how it begins.

/// Most bytes of a content type that are kept.
const LONGEST: usize = 40;
/// Bytes by which content without a known beginning counts as text or not.
const JUDGED: usize = 64;

/// Beginnings of files and records, and their names.
const BEGINNINGS: [(&[u8], &str); 17] = [
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"%PDF-", "PDF"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xfeSMB", "SMB"),
    (b"\xffSMB", "SMB"),
    (b"SSH-", "SSH"),
    (b"<!DOCTYPE html", "HTML"),
    (b"<?xml", "XML"),
    (b"PACK", "git pack"),
];

/// The kind of content that begins here, if it says so: the type that an HTTP response states, or of
/// a file or record. What follows in its flow is of that kind, too.
pub(super) fn beginning(payload: &[u8]) -> Option<String> {
    if payload.starts_with(b"HTTP/1.") {
        return Some(content_type(payload).unwrap_or_else(|| "HTTP".to_owned()));
    }
    if let [20..=23, 3, 0..=4, _, _, ..] = payload {
        return Some("TLS".to_owned());
    }
    let known = BEGINNINGS.iter().find(|(begins, _)| payload.starts_with(begins));
    known.map(|(_, name)| (*name).to_owned())
}

/// The kind of content that does not say what it is.
pub(super) fn unnamed(payload: &[u8]) -> &'static str {
    let judged = &payload[..payload.len().min(JUDGED)];
    let printable = |byte: &&u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    let text = judged.iter().filter(printable).count();
    if 10 * text >= 9 * judged.len() { "other text" } else { "other binary" }
}

/// The value of `Content-Type` without parameters, in lower case.
fn content_type(payload: &[u8]) -> Option<String> {
    let lines = payload.split(|&byte| byte == b'\n').skip(1);
    for line in lines.take_while(|line| !matches!(line, [] | [b'\r'])) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        if line[..colon].eq_ignore_ascii_case(b"content-type") {
            let value = line[colon + 1..].split(|&byte| byte == b';').next()?.trim_ascii();
            let is_named = !value.is_empty() && value.iter().all(|byte| byte.is_ascii_graphic());
            let value = &value[..value.len().min(LONGEST)];
            return is_named.then(|| String::from_utf8_lossy(value).to_ascii_lowercase());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_says_what_it_is() {
        let response =
            |rest: &str| beginning(format!("HTTP/1.1 200 OK\r\n{rest}\r\n\r\nbody").as_bytes());
        let cases = [
            (response("Content-Type: text/HTML; charset=utf-8"), Some("text/html")),
            (response("content-type:application/json"), Some("application/json")),
            (response("Server: x"), Some("HTTP")),
            (response("Content-Type: a\u{1b}b"), Some("HTTP")),
            (beginning(b"\x1f\x8b\x08rest"), Some("gzip")),
            (beginning(&[23, 3, 3, 1, 0, 9]), Some("TLS")),
            (beginning(b"anything"), None),
            (beginning(b""), None),
        ];
        for (found, expected) in cases {
            assert_eq!(found.as_deref(), expected);
        }
        assert_eq!((unnamed(b"plain words"), unnamed(&[0; 9])), ("other text", "other binary"));
    }
}
