//! HTTP/1 messages (RFC 9112) in a byte stream with gaps, recognized by their content.

/// Longest head (start line and fields), in bytes.
pub(crate) const MAX_HEAD: usize = 64 << 10;

/// Most fields in a head.
const MAX_FIELDS: usize = 128;

/// Most bytes in a chunk-size line with its extensions, and in a trailer section.
const MAX_CHUNK_LINE: u32 = 4096;

/// Methods that start a request: those of RFC 9110, PATCH, and those of WebDAV.
const METHODS: [&str; 20] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "NOTIFY",
    "SUBSCRIBE",
];

/// The head of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head<'a> {
    Request { method: &'a str, target: &'a str, fields: Fields<'a> },
    Response { status: u16, fields: Fields<'a> },
}

/// The fields of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [httparse::Header<'a>]);

impl<'a> Fields<'a> {
    /// The values of all fields named `name`.
    pub(crate) fn all(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value.trim_ascii())
    }

    /// The value of the first field named `name`.
    pub(crate) fn get(self, name: &'static str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The members of the comma-separated lists in all fields named `name`.
    pub(crate) fn members(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|member| !member.is_empty())
    }
}

/// How the end of a message's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The body has this many bytes.
    Length(u64),
    Chunked,
    /// The body extends to the end of the stream.
    Close,
    /// The stream carries no more HTTP.
    Tunnel,
    /// The framing fields contradict each other.
    Invalid,
}

impl Framing {
    /// Framing by the fields alone (RFC 9112, section 6.3). `none` applies to messages without
    /// framing fields.
    pub(crate) fn of(fields: Fields<'_>, none: Framing) -> Framing {
        if let Some(last) = fields.members("transfer-encoding").last() {
            return match (last.eq_ignore_ascii_case(b"chunked"), none) {
                (true, _) => Framing::Chunked,
                (false, Framing::Close) => Framing::Close,
                (false, _) => Framing::Invalid,
            };
        }
        let mut lengths = fields.members("content-length").map(|value| {
            let digits = value.iter().all(u8::is_ascii_digit);
            std::str::from_utf8(value).ok().filter(|_| digits)?.parse::<u64>().ok()
        });
        match lengths.next() {
            None => none,
            Some(Some(first)) if lengths.all(|length| length == Some(first)) => {
                Framing::Length(first)
            }
            Some(_) => Framing::Invalid,
        }
    }
}

/// Receives the parsed messages.
pub(crate) trait Messages {
    /// A complete head. Returns how its body ends.
    fn head(&mut self, head: Head<'_>) -> Framing;
    /// The next bytes of the current body.
    fn body(&mut self, bytes: &[u8]);
    /// This many bytes of the current body are missing.
    fn lost(&mut self, bytes: u64);
    /// The end of the message; `complete` if it ended where its framing says.
    fn end(&mut self, complete: bool);
}

/// The parser of one stream. It buffers a partial head and nothing else.
#[derive(Debug)]
pub(crate) struct Parser {
    state: ParserState,
    /// The part of the head received so far.
    head: Vec<u8>,
    /// How much of `head` has been searched for its end.
    searched: usize,
    /// Whether a complete head was parsed.
    pub(crate) recognized: bool,
    /// Whether parsing started with the connection's first byte.
    from_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    /// Between messages.
    Start,
    Head,
    Length(u64),
    Chunk(Chunk),
    Close,
    /// Position unknown; any segment may start a message.
    Lost,
    /// Not HTTP, or no longer HTTP.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the size line: the value, whether it has a digit, whether the digits have ended
    /// (extensions follow), and the bytes of the line.
    Size(u64, bool, bool, u32),
    Data(u64),
    /// After the data, before the end of its line.
    After,
    /// In the trailer section: whether the current line is empty so far, and the bytes.
    Trailer(bool, u32),
}

const SIZE: ParserState = ParserState::Chunk(Chunk::Size(0, false, false, 0));

impl Parser {
    pub(crate) fn new(from_start: bool) -> Parser {
        let state = if from_start { ParserState::Start } else { ParserState::Lost };
        Parser { state, head: Vec::new(), searched: 0, recognized: false, from_start }
    }

    /// Bytes of memory for a partial head.
    pub(crate) fn held(&self) -> usize {
        self.head.capacity()
    }

    /// Whether the parser is between messages, so that the next request belongs to the next
    /// response.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self.state, ParserState::Start | ParserState::Lost)
    }

    /// Whether the stream is no longer HTTP.
    pub(crate) fn is_other(&self) -> bool {
        self.state == ParserState::Other
    }

    /// Drops the partial head to free its memory.
    pub(crate) fn forget(&mut self) {
        if self.state == ParserState::Head {
            self.state = ParserState::Lost;
        }
        self.clear();
    }

    /// Treats the rest of the stream as something other than HTTP.
    pub(crate) fn leave(&mut self) {
        self.clear();
        self.state = ParserState::Other;
    }

    fn clear(&mut self) {
        self.head = Vec::new();
        self.searched = 0;
    }

    /// Processes the next bytes, which must start where a segment's new bytes start.
    pub(crate) fn data(&mut self, mut bytes: &[u8], out: &mut impl Messages) {
        if self.state == ParserState::Lost && looks(bytes) == Some(true) {
            self.state = ParserState::Head;
        }
        while !bytes.is_empty() {
            let used = match self.state {
                ParserState::Other | ParserState::Lost => return,
                ParserState::Start => {
                    // Empty lines before a message are skipped (RFC 9112, section 2.2).
                    let empty =
                        bytes.iter().take_while(|&&byte| byte == b'\r' || byte == b'\n').count();
                    if empty < bytes.len() {
                        self.state = ParserState::Head;
                    }
                    empty
                }
                ParserState::Head => self.in_head(bytes, out),
                ParserState::Length(left) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    out.body(&bytes[..used]);
                    self.pass(left, used as u64, out);
                    used
                }
                ParserState::Chunk(Chunk::Data(left)) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    out.body(&bytes[..used]);
                    let left = left - used as u64;
                    self.state = ParserState::Chunk(if left == 0 {
                        Chunk::After
                    } else {
                        Chunk::Data(left)
                    });
                    used
                }
                ParserState::Chunk(chunk) => {
                    self.in_chunk_line(chunk, bytes[0], out);
                    1
                }
                ParserState::Close => {
                    out.body(bytes);
                    bytes.len()
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// Skips `bytes` missing bytes.
    pub(crate) fn gap(&mut self, bytes: u64, out: &mut impl Messages) {
        match self.state {
            ParserState::Length(left) => {
                out.lost(bytes.min(left));
                self.pass(left, bytes.min(left), out);
                if bytes > left {
                    self.state = ParserState::Lost;
                }
            }
            ParserState::Chunk(Chunk::Data(left)) if bytes < left => {
                out.lost(bytes);
                self.state = ParserState::Chunk(Chunk::Data(left - bytes));
            }
            ParserState::Chunk(_) => {
                out.end(false);
                self.state = ParserState::Lost;
            }
            ParserState::Close => out.lost(bytes),
            ParserState::Start | ParserState::Head | ParserState::Lost => {
                self.clear();
                self.state = ParserState::Lost;
            }
            ParserState::Other => {}
        }
    }

    /// Ends the stream; `closed` if the sender closed it.
    pub(crate) fn finish(&mut self, closed: bool, out: &mut impl Messages) {
        match self.state {
            ParserState::Length(_) | ParserState::Chunk(_) => out.end(false),
            ParserState::Close => out.end(closed),
            _ => {}
        }
        self.leave();
    }

    fn pass(&mut self, left: u64, used: u64, out: &mut impl Messages) {
        self.state = ParserState::Length(left - used);
        if left == used {
            self.state = ParserState::Start;
            out.end(true);
        }
    }

    fn fail(&mut self) {
        self.clear();
        self.state = if self.from_start && !self.recognized {
            ParserState::Other
        } else {
            ParserState::Lost
        };
    }

    /// Processes bytes of a head and returns how many belonged to it.
    fn in_head(&mut self, bytes: &[u8], out: &mut impl Messages) -> usize {
        let before = self.head.len();
        if before == 0
            && let Some(end) = head_end(bytes, 0)
        {
            self.parse(&bytes[..end], out);
            return end;
        }
        // A few bytes are enough to rule out most other protocols.
        self.head.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD + 1 - before)]);
        if looks(&self.head) == Some(false) {
            self.fail();
            return bytes.len();
        }
        match head_end(&self.head, self.searched) {
            Some(end) => {
                let head = std::mem::take(&mut self.head);
                self.clear();
                self.parse(&head[..end], out);
                end - before
            }
            None if self.head.len() > MAX_HEAD => {
                self.fail();
                bytes.len()
            }
            None => {
                self.searched = self.head.len().saturating_sub(3);
                bytes.len()
            }
        }
    }

    fn parse(&mut self, head: &[u8], out: &mut impl Messages) {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let framing = if head.starts_with(b"HTTP/") {
            let mut response = httparse::Response::new(&mut fields);
            match (response.parse(head), looks(head)) {
                (Ok(httparse::Status::Complete(_)), Some(true)) => out.head(Head::Response {
                    status: response.code.unwrap_or(0),
                    fields: Fields(response.headers),
                }),
                _ => return self.fail(),
            }
        } else {
            let mut request = httparse::Request::new(&mut fields);
            match (request.parse(head), looks(head)) {
                (Ok(httparse::Status::Complete(_)), Some(true)) => out.head(Head::Request {
                    method: request.method.unwrap_or(""),
                    target: request.path.unwrap_or(""),
                    fields: Fields(request.headers),
                }),
                _ => return self.fail(),
            }
        };
        self.recognized = true;
        match framing {
            Framing::Length(0) => {
                self.state = ParserState::Start;
                out.end(true);
            }
            Framing::Length(length) => self.state = ParserState::Length(length),
            Framing::Chunked => self.state = SIZE,
            Framing::Close => self.state = ParserState::Close,
            Framing::Tunnel => {
                self.leave();
                out.end(true);
            }
            Framing::Invalid => {
                self.state = ParserState::Lost;
                out.end(false);
            }
        }
    }

    fn in_chunk_line(&mut self, chunk: Chunk, byte: u8, out: &mut impl Messages) {
        let next = match chunk {
            Chunk::Size(size, true, _, _) if byte == b'\n' => {
                Some(if size == 0 { Chunk::Trailer(true, 0) } else { Chunk::Data(size) })
            }
            Chunk::Size(_, _, _, MAX_CHUNK_LINE..) => None,
            Chunk::Size(size, digit, false, line) => match (char::from(byte).to_digit(16), byte) {
                (Some(value), _) if size < 1 << 59 => {
                    Some(Chunk::Size(size << 4 | u64::from(value), true, false, line + 1))
                }
                (None, b';' | b' ' | b'\t' | b'\r') if digit => {
                    Some(Chunk::Size(size, digit, true, line + 1))
                }
                _ => None,
            },
            Chunk::Size(size, digit, true, line) => Some(Chunk::Size(size, digit, true, line + 1)),
            Chunk::Data(left) => Some(Chunk::Data(left)),
            Chunk::After => match byte {
                b'\r' => Some(Chunk::After),
                b'\n' => Some(Chunk::Size(0, false, false, 0)),
                _ => None,
            },
            Chunk::Trailer(true, _) if byte == b'\n' => {
                self.state = ParserState::Start;
                return out.end(true);
            }
            Chunk::Trailer(_, MAX_CHUNK_LINE..) => None,
            Chunk::Trailer(empty, count) => {
                Some(Chunk::Trailer(byte == b'\n' || (empty && byte == b'\r'), count + 1))
            }
        };
        match next {
            Some(next) => self.state = ParserState::Chunk(next),
            None => {
                self.state = ParserState::Lost;
                out.end(false);
            }
        }
    }
}

/// Whether `bytes` start a message, with `HTTP/1.` or a method and a space. `None` if more bytes
/// are needed.
fn looks(bytes: &[u8]) -> Option<bool> {
    let mut undecided = false;
    for start in METHODS
        .iter()
        .map(|method| (method.as_bytes(), &b" "[..]))
        .chain([(&b"HTTP/1"[..], &b"."[..])])
    {
        let whole = start.0.iter().chain(start.1);
        if bytes.len() > start.0.len() {
            if whole.eq(&bytes[..=start.0.len()]) {
                return Some(true);
            }
        } else {
            undecided |= start.0.starts_with(bytes);
        }
    }
    if undecided { None } else { Some(false) }
}

/// Offset after the empty line that ends a head. The search starts at `from`.
fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(line) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        at += line + 1;
        match bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Records all events as text.
    #[derive(Default)]
    struct Recorder(String);

    impl Messages for Recorder {
        fn head(&mut self, head: Head<'_>) -> Framing {
            let (name, fields, none) = match head {
                Head::Request { method, target, fields } => {
                    (format!("{method} {target}"), fields, Framing::Length(0))
                }
                Head::Response { status, fields } => (status.to_string(), fields, Framing::Close),
            };
            self.0 += &format!("<{name}>");
            Framing::of(fields, none)
        }
        fn body(&mut self, bytes: &[u8]) {
            self.0 += &String::from_utf8_lossy(bytes);
        }
        fn lost(&mut self, bytes: u64) {
            self.0.extend(std::iter::repeat_n('_', bytes as usize));
        }
        fn end(&mut self, complete: bool) {
            self.0 += if complete { "." } else { "!" };
        }
    }

    fn events(pieces: &[&[u8]]) -> String {
        let (mut parser, mut recorder) = (Parser::new(true), Recorder::default());
        for piece in pieces {
            if piece.starts_with(b"_") {
                parser.gap(piece.len() as u64, &mut recorder)
            } else {
                parser.data(piece, &mut recorder)
            }
        }
        parser.finish(true, &mut recorder);
        recorder.0
    }

    const STREAM: &[u8] =
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
        3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nHTTP/1.0 404 No\nServer: x\n\nrest\n";
    const EVENTS: &str = "<200>hello.<200>abc0123456789.<404>rest\n.";

    #[test]
    fn messages_split_anywhere() {
        assert_eq!(events(&[STREAM]), EVENTS);
        assert_eq!(events(&STREAM.chunks(1).collect::<Vec<_>>()), EVENTS);
        for at in 0..STREAM.len() {
            assert_eq!(events(&[&STREAM[..at], &STREAM[at..]]), EVENTS, "cut at {at}");
        }
        assert_eq!(
            events(&[b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nxyGET /b HTTP/1.1\r\n\r\n"]),
            "<POST /a>xy.<GET /b>."
        );
    }

    #[test]
    fn gaps() {
        let head = &b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"[..];
        assert_eq!(
            events(&[head, b"ab", b"__", b"ef", head, b"abcdef"]),
            "<200>ab__ef.<200>abcdef."
        );
        assert_eq!(
            events(&[head, b"ab", b"_____", b"lost", head, b"abcdef"]),
            "<200>ab____.<200>abcdef."
        );
        assert_eq!(
            events(&[head, b"abcdef", b"_", b"HTTP/2 x", head, b"abcdef"]),
            "<200>abcdef.<200>abcdef."
        );
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n";
        assert_eq!(events(&[chunked, b"ab", b"__", b"e\r\n0\r\n\r\n"]), "<200>ab__e.");
        assert_eq!(
            events(&[chunked, b"ab", b"___", b"0\r\n\r\n", head, b"abcdef"]),
            "<200>ab!<200>abcdef."
        );
    }

    #[test]
    fn other_protocols_are_rejected() {
        assert_eq!(events(&[b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n\r\n"]), "");
        assert_eq!(events(&[b"GETTING / HTTP/1.1\r\n\r\n"]), "");
        assert_eq!(events(&[b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello"]), "<200>!");
        assert_eq!(
            events(&[
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"
            ]),
            "<200>!"
        );
        let mut parser = Parser::new(true);
        for _ in 0..100_000 {
            parser.data(b"GET a", &mut Recorder::default());
            assert!(parser.held() <= 2 * MAX_HEAD);
        }
        assert!(parser.is_other());
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces(pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "(GET / HTTP/1.1\r\n|HTTP/1.1 200 OK\r\n|Content-Length: [0-9]{1,20}\r\n|Transfer-Encoding: chunked\r\n|\r\n|[0-9a-f]{1,18}\r\n|_{1,9})".prop_map(String::into_bytes),
        ], 0..60)) {
            let text = events(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let heads = text.matches('<').count();
            prop_assert!(heads <= pieces.len());
        }

        /// How a stream is split does not matter if nothing is missing and all of it is HTTP.
        #[test]
        fn splits_do_not_matter(cuts in prop::collection::vec(0..STREAM.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let mut from = 0;
            let pieces: Vec<_> = cuts.into_iter().map(|to| { let piece = &STREAM[from..to]; from = to; piece }).collect();
            prop_assert_eq!(events(&pieces), EVENTS);
        }
    }
}
