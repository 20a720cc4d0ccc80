//! Messages of HTTP/1.1, and outlines of TLS, SMB, SMTP, rsync and DNS. Headers and framing are
//! realistic, but a real peer would not accept these messages.

use crate::tcp::Message;
use flate2::Compression;
use flate2::write::GzEncoder;
use oncewire_kernels::random::Xoshiro;
use std::io::Write;

/// Nanoseconds per millisecond.
pub(crate) const MS: u64 = 1_000_000;

fn say(from_client: bool, pause: u64, bytes: impl Into<Vec<u8>>) -> Message {
    Message { from_client, pause, bytes: bytes.into() }
}

/// The media type for a file name, and whether servers would compress it.
pub(crate) fn media_type(name: &str) -> (&'static str, bool) {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" | "htm" => ("text/html; charset=utf-8", true),
        "css" => ("text/css", true),
        "js" | "mjs" => ("application/javascript", true),
        "json" | "map" => ("application/json", true),
        "xml" => ("application/xml", true),
        "svg" => ("image/svg+xml", true),
        "png" => ("image/png", false),
        "jpg" | "jpeg" => ("image/jpeg", false),
        "gif" => ("image/gif", false),
        "pdf" => ("application/pdf", false),
        "gz" | "tgz" | "zip" | "xz" | "bz2" | "deb" | "whl" | "mo" => {
            ("application/octet-stream", false)
        }
        _ => ("text/plain; charset=utf-8", true),
    }
}

/// `bytes`, compressed with gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3 + 64), Compression::new(6));
    encoder.write_all(bytes).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

/// An HTTP client.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    pub(crate) agent: &'static str,
    /// Value of the session cookie.
    pub(crate) session: u64,
}

/// User agents of the site.
pub(crate) const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:125.0) Gecko/20100101 Firefox/125.0",
    "curl/8.5.0",
];

/// An object on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource<'a> {
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    /// Hash of the name. Determines how the object may be cached, encoded and framed.
    pub(crate) identity: u64,
    /// The server's clock, seconds since the Unix epoch.
    pub(crate) now: u64,
}

/// A server's caching rules for an object, by its identity: the header, and whether there is an
/// entity tag.
fn cacheability(identity: u64) -> (&'static str, bool) {
    match identity % 16 {
        0..6 => ("Cache-Control: public, max-age=86400\r\n", true),
        6..9 => ("Cache-Control: max-age=600\r\n", true),
        9..11 => ("Cache-Control: no-cache\r\n", true),
        11 => ("Cache-Control: no-store\r\n", false),
        12 | 13 => ("Cache-Control: private, max-age=0\r\n", false),
        _ => ("", false),
    }
}

/// A request for `resource`; conditional if the client has it (`has`) and the server gave it a tag.
pub(crate) fn request(browser: &Browser, resource: Resource<'_>, has: bool) -> Vec<u8> {
    let Browser { agent, session } = browser;
    let Resource { host, path, identity, .. } = resource;
    let condition = match has && cacheability(identity).1 {
        true => format!("If-None-Match: \"{identity:016x}\"\r\n"),
        false => String::new(),
    };
    format!(
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,\
         */*;q=0.8\r\nAccept-Language: en-GB,en;q=0.7\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n\
         Cookie: session={session:016x}; theme=light\r\n{condition}\r\n"
    )
    .into_bytes()
}

/// The response to [`request`]. Half of the servers compress text, and some objects are sent in
/// chunks.
pub(crate) fn response(
    browser: &Browser,
    resource: Resource<'_>,
    has: bool,
    content: &[u8],
) -> Vec<u8> {
    let Resource { path, identity, now, .. } = resource;
    let (control, tagged) = cacheability(identity);
    let date = http_date(now);
    let tag = if tagged { format!("ETag: \"{identity:016x}\"\r\n") } else { String::new() };
    if has && tagged {
        return format!(
            "HTTP/1.1 304 Not Modified\r\nDate: {date}\r\nServer: nginx\r\n{control}{tag}\r\n"
        )
        .into_bytes();
    }
    let (kind, text) = media_type(path);
    let encoded = text && (identity >> 8).is_multiple_of(2) && content.len() > 256;
    let chunked = (identity >> 16).is_multiple_of(5);
    let modified = http_date(now - 86_400 - identity % 30_000_000 / 3600 * 3600);
    let cookie = match (identity >> 24) % 8 {
        0 => format!("Set-Cookie: session={:016x}; Path=/; HttpOnly\r\n", browser.session),
        _ => String::new(),
    };
    let body = if encoded { gzip(content) } else { content.to_vec() };
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\nDate: {date}\r\nServer: nginx\r\nContent-Type: {kind}\r\nLast-Modified: {modified}\r\n{control}{tag}{cookie}"
    )
    .into_bytes();
    if encoded {
        bytes.extend(b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
    }
    if chunked {
        bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(8192) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
    } else {
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend(body);
    }
    bytes
}

/// A download in ranges, as updaters do it: the messages of one connection.
pub(crate) fn update(host: &str, path: &str, content: &[u8], now: u64) -> Vec<Message> {
    let (mut messages, mut start) = (Vec::new(), 0);
    for range in content.chunks(1 << 20) {
        let end = start + range.len() - 1;
        messages.push(say(
            true,
            5 * MS,
            format!(
                "GET /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: updater/3.2\r\nRange: bytes={start}-{end}\r\n\
                 Accept: */*\r\nConnection: Keep-Alive\r\n\r\n"
            ),
        ));
        let mut answer = format!(
            "HTTP/1.1 206 Partial Content\r\nDate: {}\r\nServer: mirror\r\nContent-Type: application/octet-stream\r\n\
             Cache-Control: public, max-age=2592000\r\nAccept-Ranges: bytes\r\nContent-Range: bytes {start}-{end}/{}\r\n\
             Content-Length: {}\r\n\r\n",
            http_date(now),
            content.len(),
            range.len()
        )
        .into_bytes();
        answer.extend(range);
        messages.push(say(false, 2 * MS, answer));
        start += range.len();
    }
    messages
}

/// A TLS connection: an outline of the handshake, then records of random bytes.
pub(crate) fn tls(rng: &mut Xoshiro, name: &str, up: usize, down: usize) -> Vec<Message> {
    let record = |kind: u8, body: &[u8]| {
        let len = (body.len() as u16).to_be_bytes();
        [&[kind, 3, 3, len[0], len[1]][..], body].concat()
    };
    let mut hello = vec![3, 3];
    hello.extend(rng.bytes(32));
    hello.push(32);
    hello.extend(rng.bytes(32));
    hello.extend([0, 6, 0x13, 1, 0x13, 2, 0x13, 3, 1, 0]);
    // Server name, supported versions, key share.
    let name_len = name.len() as u16;
    let mut extensions = vec![0, 0];
    for len in [name_len + 5, name_len + 3] {
        extensions.extend(len.to_be_bytes());
    }
    extensions.push(0);
    extensions.extend(name_len.to_be_bytes());
    extensions.extend(name.as_bytes());
    extensions.extend([0, 43, 0, 3, 2, 3, 4, 0, 51, 0, 38, 0, 36, 0, 29, 0, 32]);
    extensions.extend(rng.bytes(32));
    hello.extend((extensions.len() as u16).to_be_bytes());
    hello.extend(extensions);
    let mut client = vec![1, 0];
    client.extend((hello.len() as u16).to_be_bytes());
    client.extend(hello);

    let mut server = vec![2, 0, 0, 118, 3, 3];
    server.extend(rng.bytes(32));
    server.push(32);
    server.extend(rng.bytes(32));
    server.extend([0x13, 1, 0, 0, 46, 0, 43, 0, 2, 3, 4, 0, 51, 0, 36, 0, 29, 0, 32]);
    server.extend(rng.bytes(32));
    let mut flight = record(22, &server);
    flight.extend(record(20, &[1]));
    // The certificates are encrypted as well.
    flight.extend(record(23, &rng.bytes(3200)));

    let mut application = |len: usize| {
        let mut records = Vec::with_capacity(len + len / 3000 + 5);
        let mut left = len.max(64);
        while left > 0 {
            let body = rng.bytes(left.min(16_401));
            records.extend(record(23, &body));
            left -= body.len();
        }
        records
    };
    let (finished, up, down) = (application(58), application(up), application(down));
    let finished = [record(20, &[1]), finished, up].concat();
    vec![
        say(true, MS, record(22, &client)),
        say(false, 3 * MS, flight),
        say(true, 2 * MS, finished),
        say(false, 20 * MS, down),
    ]
}

/// Reads files from a share: SMB 2 headers with made-up fields, and the content of each file in
/// reads of 64 KiB.
pub(crate) fn smb(rng: &mut Xoshiro, files: &[(String, Vec<u8>)]) -> Vec<Message> {
    let session = rng.next_u64();
    let mut id = 0u64;
    let mut packet = |command: u16, response: bool, body: &[u8]| {
        let mut bytes = (64 + body.len() as u32).to_be_bytes().to_vec();
        bytes.extend(b"\xfeSMB");
        bytes.extend([64, 0, 1, 0, 0, 0, 0, 0]);
        bytes.extend(command.to_le_bytes());
        bytes.extend([1, 0, u8::from(response), 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(id.to_le_bytes());
        bytes.extend([0xff, 0xfe, 0, 0, 5, 0, 0, 0]);
        bytes.extend(session.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(body);
        id += u64::from(response);
        bytes
    };
    const NEGOTIATE: u16 = 0;
    const CREATE: u16 = 5;
    const CLOSE: u16 = 6;
    const READ: u16 = 8;
    let mut messages = vec![
        say(true, MS, packet(NEGOTIATE, false, &[36; 40])),
        say(false, MS, packet(NEGOTIATE, true, &[65; 64])),
    ];
    for (name, content) in files {
        let handle = rng.bytes(16);
        let utf16: Vec<u8> =
            name.replace('/', "\\").encode_utf16().flat_map(u16::to_le_bytes).collect();
        messages.push(say(true, 30 * MS, packet(CREATE, false, &[&[57; 56][..], &utf16].concat())));
        messages.push(say(
            false,
            MS,
            packet(
                CREATE,
                true,
                &[&[89; 64][..], &handle, &(content.len() as u64).to_le_bytes()].concat(),
            ),
        ));
        for (i, part) in content.chunks(65_536).enumerate() {
            let mut ask = vec![49, 0, 0x50, 0];
            ask.extend((part.len() as u32).to_le_bytes());
            ask.extend(((i * 65_536) as u64).to_le_bytes());
            ask.extend(&handle);
            ask.extend([0; 17]);
            messages.push(say(true, 0, packet(READ, false, &ask)));
            let mut answer = vec![17, 0, 0x50, 0];
            answer.extend((part.len() as u32).to_le_bytes());
            answer.extend([0; 8]);
            answer.extend(part);
            messages.push(say(false, MS / 2, packet(READ, true, &answer)));
        }
        messages.push(say(
            true,
            MS,
            packet(CLOSE, false, &[&[24, 0, 0, 0, 0, 0, 0, 0][..], &handle].concat()),
        ));
        messages.push(say(false, MS / 2, packet(CLOSE, true, &[60; 60])));
    }
    messages
}

/// A mail with an attachment.
pub(crate) struct Mail<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) number: u64,
    pub(crate) now: u64,
    pub(crate) text: &'a [u8],
    pub(crate) attachment: (&'a str, &'a [u8]),
}

/// Delivers a mail.
pub(crate) fn smtp(mail: &Mail<'_>) -> Vec<Message> {
    let Mail { from, to, number, now, text, attachment: (name, content) } = mail;
    let boundary = format!("=_{:016x}", oncewire_kernels::random::mix(*number));
    let mut body = format!(
        "Received: from {from}.example.org by mx.example.com with ESMTP id {number:010X}; {date}\r\nMessage-ID: <{number:016x}@example.org>\r\n\
         Date: {date}\r\nFrom: {from}@example.org\r\nTo: {to}@example.com\r\nSubject: {name}\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n",
        date = http_date(*now),
    )
    .into_bytes();
    for line in text.split(|&byte| byte == b'\n') {
        if line.first() == Some(&b'.') {
            body.push(b'.');
        }
        body.extend(line);
        body.extend(b"\r\n");
    }
    body.extend(
        format!(
            "--{boundary}\r\nContent-Type: {}; name=\"{name}\"\r\nContent-Transfer-Encoding: base64\r\n\
             Content-Disposition: attachment; filename=\"{name}\"\r\n\r\n",
            media_type(name).0
        )
        .as_bytes(),
    );
    base64(content, &mut body);
    body.extend(format!("--{boundary}--\r\n.\r\n").as_bytes());
    vec![
        say(false, 2 * MS, "220 mx.example.com ESMTP\r\n"),
        say(true, MS, format!("EHLO {from}.example.org\r\n")),
        say(
            false,
            MS,
            "250-mx.example.com\r\n250-SIZE 52428800\r\n250-8BITMIME\r\n250 PIPELINING\r\n",
        ),
        say(
            true,
            MS,
            format!("MAIL FROM:<{from}@example.org>\r\nRCPT TO:<{to}@example.com>\r\nDATA\r\n"),
        ),
        say(
            false,
            4 * MS,
            "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n354 End data with <CR><LF>.<CR><LF>\r\n",
        ),
        say(true, MS, body),
        say(false, 10 * MS, format!("250 2.0.0 Ok: queued as {number:010X}\r\n")),
        say(true, MS, "QUIT\r\n"),
        say(false, MS, "221 2.0.0 Bye\r\n"),
    ]
}

/// Appends base64 of `content` in lines of 76 characters (RFC 2045, section 6.8).
fn base64(content: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for line in content.chunks(57) {
        for group in line.chunks(3) {
            let mut three = [0; 3];
            three[..group.len()].copy_from_slice(group);
            let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            for i in 0..4 {
                out.push(if i <= group.len() {
                    DIGITS[(bits >> (18 - 6 * i) & 63) as usize]
                } else {
                    b'='
                });
            }
        }
        out.extend(b"\r\n");
    }
}

/// Copies files to a mirror: rsync's version lines and multiplexed data frames.
pub(crate) fn rsync(module: &str, files: &[(String, Vec<u8>)]) -> Vec<Message> {
    let mut names = Vec::new();
    let mut data = Vec::new();
    for (name, content) in files {
        names.extend(name.as_bytes());
        names.extend((content.len() as u32).to_le_bytes());
        for part in content.chunks(32 << 10) {
            data.extend((part.len() as u32 | 7 << 24).to_le_bytes());
            data.extend(part);
        }
    }
    vec![
        say(false, MS, "@RSYNCD: 31.0\n"),
        say(true, MS, "@RSYNCD: 31.0\n"),
        say(true, MS, format!("{module}\n")),
        say(false, MS, "@RSYNCD: OK\n"),
        say(true, MS, "--server\0-Wr\0.\0\0"),
        say(false, MS, vec![0; 64]),
        say(true, 5 * MS, names),
        say(true, 50 * MS, data),
        say(false, 10 * MS, vec![0; 16]),
    ]
}

/// A DNS query for the address of `name`.
pub(crate) fn dns_query(id: u16, name: &str, six: bool) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, if six { 28 } else { 1 }, 0, 1]);
    bytes
}

/// The response to it.
pub(crate) fn dns_answer(query: &[u8], address: std::net::IpAddr, seconds: u32) -> Vec<u8> {
    let mut bytes = query.to_vec();
    bytes[2..4].copy_from_slice(&[0x81, 0x80]);
    bytes[7] = 1;
    bytes.extend([0xc0, 12]);
    bytes.extend(&query[query.len() - 4..]);
    bytes.extend(seconds.to_be_bytes());
    match address {
        std::net::IpAddr::V4(address) => {
            bytes.extend([0, 4]);
            bytes.extend(address.octets());
        }
        std::net::IpAddr::V6(address) => {
            bytes.extend([0, 16]);
            bytes.extend(address.octets());
        }
    }
    bytes
}

/// A time in the format of HTTP and mail.
pub(crate) fn http_date(seconds: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant, chrono-compatible low-level date algorithms: years start in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    let year = year + era * 400 + u64::from(month < 2);
    let name = DAYS[(days % 7) as usize];
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{name}, {date:02} {} {year} {hour:02}:{minute:02}:{:02} GMT",
        MONTHS[month as usize],
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn dates_are_right() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(1_767_225_599), "Wed, 31 Dec 2025 23:59:59 GMT");
    }

    #[test]
    fn base64_of_the_rfc() {
        // RFC 4648, section 10.
        for (content, text) in [
            ("f", "Zg==\r\n"),
            ("fo", "Zm8=\r\n"),
            ("foo", "Zm9v\r\n"),
            ("foobar", "Zm9vYmFy\r\n"),
            ("", ""),
        ] {
            let mut out = Vec::new();
            base64(content.as_bytes(), &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn responses_hold_the_content() {
        let browser = Browser { agent: AGENTS[4], session: 1 };
        let content = b"line of text\n".repeat(2000);
        let mut forms = [false; 4];
        for identity in 0..2000u64 {
            let identity = oncewire_kernels::random::mix(identity);
            let resource = Resource { host: "h", path: "a.txt", identity, now: 1_700_000_000 };
            let bytes = response(&browser, resource, false, &content);
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            let head = std::str::from_utf8(&bytes[..end]).unwrap();
            let mut body = bytes[end..].to_vec();
            let chunked = head.contains("chunked");
            if chunked {
                let (mut rest, mut whole) = (&body[..], Vec::new());
                loop {
                    let line = rest.windows(2).position(|window| window == b"\r\n").unwrap();
                    let len =
                        usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16)
                            .unwrap();
                    whole.extend(&rest[line + 2..line + 2 + len]);
                    rest = &rest[line + 2 + len + 2..];
                    if len == 0 {
                        break;
                    }
                }
                assert!(rest.is_empty());
                body = whole;
            } else {
                assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
            }
            let encoded = head.contains("gzip");
            if encoded {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
                body = plain;
            }
            assert_eq!(body, content);
            forms[usize::from(chunked) * 2 + usize::from(encoded)] = true;
            let again = response(&browser, resource, true, &content);
            assert_eq!(again.starts_with(b"HTTP/1.1 304"), head.contains("ETag"));
            if identity.is_multiple_of(64) && forms == [true; 4] {
                break;
            }
        }
        assert_eq!(forms, [true; 4], "plain and gzip, of given length and chunked");
    }

    #[test]
    fn updates_are_complete() {
        let content = Xoshiro::new(1, 1).bytes((2 << 20) + 5);
        let messages = update("h", "p", &content, 1_700_000_000);
        let got: Vec<u8> = messages
            .iter()
            .filter(|message| !message.from_client)
            .flat_map(|message| {
                let end =
                    message.bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
                message.bytes[end..].to_vec()
            })
            .collect();
        assert!(messages.len() == 6 && got == content);
    }

    #[test]
    fn tls_records_are_well_formed() {
        for message in tls(&mut Xoshiro::new(1, 1), "example.org", 500, 50_000) {
            let mut rest = &message.bytes[..];
            while !rest.is_empty() {
                let len = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
                assert!((20..=23).contains(&rest[0]) && rest[1..3] == [3, 3]);
                rest = &rest[5 + len..];
            }
            if message.bytes[0] == 22 {
                // The handshake message fills its record, and the extensions the message.
                let record = usize::from(u16::from_be_bytes([message.bytes[3], message.bytes[4]]));
                assert_eq!(
                    usize::from(u16::from_be_bytes([message.bytes[7], message.bytes[8]])),
                    record - 4
                );
            }
        }
    }
}
