//! HTTP/1 messages in a stream of bytes with holes (RFC 9112), recognised by what they look like.

/// Longest head (start line and fields) in bytes.
pub(crate) const MAX_HEAD: usize = 64 << 10;

/// Most fields of a head.
const MAX_FIELDS: usize = 128;

/// Longest line of a chunk's size with its extensions, and most bytes of trailers.
const MAX_CHUNK_LINE: u32 = 4096;

/// Methods that open a request: those of RFC 9110, PATCH, and WebDAV's.
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

/// A head.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head<'a> {
    Request { method: &'a str, target: &'a str, fields: Fields<'a> },
    Response { status: u16, fields: Fields<'a> },
}

/// The fields of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [httparse::Header<'a>]);

impl<'a> Fields<'a> {
    /// The values of all fields of that name.
    pub(crate) fn all(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value.trim_ascii())
    }

    /// The first of them.
    pub(crate) fn get(self, name: &'static str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The members of the comma-separated lists in all fields of that name.
    pub(crate) fn members(self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|member| !member.is_empty())
    }
}

/// How a message's body is told from the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Length(u64),
    Chunked,
    /// All up to the end of the stream.
    Close,
    /// There is no more HTTP in this stream.
    Tunnel,
    /// It contradicts itself.
    Invalid,
}

impl Framing {
    /// By the fields alone (RFC 9112, section 6.3); `none` is for messages that say nothing.
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
            Some(Some(first)) if lengths.all(|length| length == Some(first)) => Framing::Length(first),
            Some(_) => Framing::Invalid,
        }
    }
}

/// What hears of messages.
pub(crate) trait Messages {
    /// A head; the answer is where its body ends.
    fn head(&mut self, head: Head<'_>) -> Framing;
    /// The next bytes of the body.
    fn body(&mut self, bytes: &[u8]);
    /// Bytes of the body that are missing.
    fn lost(&mut self, bytes: u64);
    /// The end of the message; whether it was where it should be.
    fn end(&mut self, complete: bool);
}

/// The parser of one stream. It holds the part of a head, nothing else.
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    /// The part of a head that came so far.
    head: Vec<u8>,
    /// How far it was searched for its end.
    searched: usize,
    /// Whether a whole head was seen.
    pub(crate) recognised: bool,
    /// Whether the stream's first byte was the connection's.
    from_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages.
    Start,
    Head,
    Length(u64),
    Chunk(Chunk),
    Close,
    /// Somewhere; a message may begin with any segment.
    Lost,
    /// Not HTTP, or no longer.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the size: its value, whether it has a digit, whether it is over (extensions follow), bytes of the line.
    Size(u64, bool, bool, u32),
    Data(u64),
    /// Behind the data, before the end of its line.
    After,
    /// In the trailers: whether their line is empty so far, and their bytes.
    Trailer(bool, u32),
}

const SIZE: State = State::Chunk(Chunk::Size(0, false, false, 0));

impl Parser {
    pub(crate) fn new(from_start: bool) -> Parser {
        let state = if from_start { State::Start } else { State::Lost };
        Parser { state, head: Vec::new(), searched: 0, recognised: false, from_start }
    }

    /// Bytes held back.
    pub(crate) fn held(&self) -> usize {
        self.head.capacity()
    }

    /// Whether it is between messages, so that what is asked next is what is answered next.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self.state, State::Start | State::Lost)
    }

    /// Whether the stream is no longer HTTP.
    pub(crate) fn is_other(&self) -> bool {
        self.state == State::Other
    }

    /// Drops what is held back: there is no memory for it.
    pub(crate) fn forget(&mut self) {
        if self.state == State::Head {
            self.state = State::Lost;
        }
        self.clear();
    }

    /// From here on it is something else.
    pub(crate) fn leave(&mut self) {
        self.clear();
        self.state = State::Other;
    }

    fn clear(&mut self) {
        self.head = Vec::new();
        self.searched = 0;
    }

    /// The next bytes; they begin where a segment's new bytes do.
    pub(crate) fn data(&mut self, mut bytes: &[u8], out: &mut impl Messages) {
        if self.state == State::Lost && looks(bytes) == Some(true) {
            self.state = State::Head;
        }
        while !bytes.is_empty() {
            let used = match self.state {
                State::Other | State::Lost => return,
                State::Start => {
                    // Empty lines before a message are passed over (RFC 9112, section 2.2).
                    let empty = bytes.iter().take_while(|&&byte| byte == b'\r' || byte == b'\n').count();
                    if empty < bytes.len() {
                        self.state = State::Head;
                    }
                    empty
                }
                State::Head => self.in_head(bytes, out),
                State::Length(left) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    out.body(&bytes[..used]);
                    self.pass(left, used as u64, out);
                    used
                }
                State::Chunk(Chunk::Data(left)) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    out.body(&bytes[..used]);
                    let left = left - used as u64;
                    self.state = State::Chunk(if left == 0 { Chunk::After } else { Chunk::Data(left) });
                    used
                }
                State::Chunk(chunk) => {
                    self.in_chunk_line(chunk, bytes[0], out);
                    1
                }
                State::Close => {
                    out.body(bytes);
                    bytes.len()
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// The next bytes are missing.
    pub(crate) fn gap(&mut self, bytes: u64, out: &mut impl Messages) {
        match self.state {
            State::Length(left) => {
                out.lost(bytes.min(left));
                self.pass(left, bytes.min(left), out);
                if bytes > left {
                    self.state = State::Lost;
                }
            }
            State::Chunk(Chunk::Data(left)) if bytes < left => {
                out.lost(bytes);
                self.state = State::Chunk(Chunk::Data(left - bytes));
            }
            State::Chunk(_) => {
                out.end(false);
                self.state = State::Lost;
            }
            State::Close => out.lost(bytes),
            State::Start | State::Head | State::Lost => {
                self.clear();
                self.state = State::Lost;
            }
            State::Other => {}
        }
    }

    /// The stream ends; `closed` if its sender said so.
    pub(crate) fn finish(&mut self, closed: bool, out: &mut impl Messages) {
        match self.state {
            State::Length(_) | State::Chunk(_) => out.end(false),
            State::Close => out.end(closed),
            _ => {}
        }
        self.leave();
    }

    fn pass(&mut self, left: u64, used: u64, out: &mut impl Messages) {
        self.state = State::Length(left - used);
        if left == used {
            self.state = State::Start;
            out.end(true);
        }
    }

    fn fail(&mut self) {
        self.clear();
        self.state = if self.from_start && !self.recognised { State::Other } else { State::Lost };
    }

    /// Takes bytes of a head; returns how many were its.
    fn in_head(&mut self, bytes: &[u8], out: &mut impl Messages) -> usize {
        let before = self.head.len();
        if before == 0
            && let Some(end) = head_end(bytes, 0)
        {
            self.parse(&bytes[..end], out);
            return end;
        }
        // A few bytes tell most streams that are something else.
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
                (Ok(httparse::Status::Complete(_)), Some(true)) => {
                    out.head(Head::Response { status: response.code.unwrap_or(0), fields: Fields(response.headers) })
                }
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
        self.recognised = true;
        match framing {
            Framing::Length(0) => {
                self.state = State::Start;
                out.end(true);
            }
            Framing::Length(length) => self.state = State::Length(length),
            Framing::Chunked => self.state = SIZE,
            Framing::Close => self.state = State::Close,
            Framing::Tunnel => {
                self.leave();
                out.end(true);
            }
            Framing::Invalid => {
                self.state = State::Lost;
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
                (Some(value), _) if size < 1 << 59 => Some(Chunk::Size(size << 4 | u64::from(value), true, false, line + 1)),
                (None, b';' | b' ' | b'\t' | b'\r') if digit => Some(Chunk::Size(size, digit, true, line + 1)),
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
                self.state = State::Start;
                return out.end(true);
            }
            Chunk::Trailer(_, MAX_CHUNK_LINE..) => None,
            Chunk::Trailer(empty, count) => Some(Chunk::Trailer(byte == b'\n' || (empty && byte == b'\r'), count + 1)),
        };
        match next {
            Some(next) => self.state = State::Chunk(next),
            None => {
                self.state = State::Lost;
                out.end(false);
            }
        }
    }
}

/// Whether bytes begin a message: by `HTTP/1.`, or by a method and a space. `None` if they are too few to tell.
fn looks(bytes: &[u8]) -> Option<bool> {
    let mut undecided = false;
    for start in METHODS.iter().map(|method| (method.as_bytes(), &b" "[..])).chain([(&b"HTTP/1"[..], &b"."[..])]) {
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

/// Where a head ends, behind its empty line, which is looked for from `from` on.
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

    /// Writes down what it hears.
    #[derive(Default)]
    struct Heard(String);

    impl Messages for Heard {
        fn head(&mut self, head: Head<'_>) -> Framing {
            let (name, fields, none) = match head {
                Head::Request { method, target, fields } => (format!("{method} {target}"), fields, Framing::Length(0)),
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

    fn hear(pieces: &[&[u8]]) -> String {
        let (mut parser, mut heard) = (Parser::new(true), Heard::default());
        for piece in pieces {
            if piece.starts_with(b"_") { parser.gap(piece.len() as u64, &mut heard) } else { parser.data(piece, &mut heard) }
        }
        parser.finish(true, &mut heard);
        heard.0
    }

    const STREAM: &[u8] =
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
        3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nHTTP/1.0 404 No\nServer: x\n\nrest\n";
    const SAID: &str = "<200>hello.<200>abc0123456789.<404>rest\n.";

    #[test]
    fn messages_cut_anywhere() {
        assert_eq!(hear(&[STREAM]), SAID);
        assert_eq!(hear(&STREAM.chunks(1).collect::<Vec<_>>()), SAID);
        for at in 0..STREAM.len() {
            assert_eq!(hear(&[&STREAM[..at], &STREAM[at..]]), SAID, "cut at {at}");
        }
        assert_eq!(hear(&[b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nxyGET /b HTTP/1.1\r\n\r\n"]), "<POST /a>xy.<GET /b>.");
    }

    #[test]
    fn gaps() {
        let head = &b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"[..];
        assert_eq!(hear(&[head, b"ab", b"__", b"ef", head, b"abcdef"]), "<200>ab__ef.<200>abcdef.");
        assert_eq!(hear(&[head, b"ab", b"_____", b"lost", head, b"abcdef"]), "<200>ab____.<200>abcdef.");
        assert_eq!(hear(&[head, b"abcdef", b"_", b"HTTP/2 x", head, b"abcdef"]), "<200>abcdef.<200>abcdef.");
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n";
        assert_eq!(hear(&[chunked, b"ab", b"__", b"e\r\n0\r\n\r\n"]), "<200>ab__e.");
        assert_eq!(hear(&[chunked, b"ab", b"___", b"0\r\n\r\n", head, b"abcdef"]), "<200>ab!<200>abcdef.");
    }

    #[test]
    fn what_is_not_http() {
        assert_eq!(hear(&[b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n\r\n"]), "");
        assert_eq!(hear(&[b"GETTING / HTTP/1.1\r\n\r\n"]), "");
        assert_eq!(hear(&[b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello"]), "<200>!");
        assert_eq!(hear(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"]), "<200>!");
        let mut parser = Parser::new(true);
        for _ in 0..100_000 {
            parser.data(b"GET a", &mut Heard::default());
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
            let heard = hear(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let heads = heard.matches('<').count();
            prop_assert!(heads <= pieces.len());
        }

        /// How a stream is cut does not matter, if nothing is missing and it is HTTP to its end.
        #[test]
        fn cuts_do_not_matter(cuts in prop::collection::vec(0..STREAM.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let mut from = 0;
            let pieces: Vec<_> = cuts.into_iter().map(|to| { let piece = &STREAM[from..to]; from = to; piece }).collect();
            prop_assert_eq!(hear(&pieces), SAID);
        }
    }
}
