//! Whether looking inside compressed content pays on this link.
//!
//! Opening compressed content takes some 25 ns a byte, and saves bytes. On a slow link that saves
//! time; on a fast one the encoder becomes the bottleneck. Neither end knows the link's rate as
//! long as the encoder is slower than the link, so the rate is tried: once opening is what holds a
//! session up, some content goes out unopened, and if that is faster, so does what follows. The
//! encoder keeps the place of flows in their streams meanwhile
//! ([`Encoder::set_opening`](oncewire_codec::Encoder::set_opening)), so a trial that shows that
//! opening was right costs little.
//!
//! Only time that passes while content waits is compared: content per second, from when a block is
//! taken to when the next one is. That includes waiting for the transport, for the peer's credit
//! and for acknowledgements, whatever it is that limits the flow.

use std::time::{Duration, Instant};

/// When a session looks inside compressed content, if its encoder can
/// ([`EncoderBuilder::inside`](oncewire_codec::EncoderBuilder::inside)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// Where it is not slower than sending the content as it is.
    #[default]
    Auto,
    /// Always: fewest bytes, but no more than 25 to 100 MB of compressed content per second.
    Always,
}

/// Content that is timed at once, in bytes.
const WINDOW: u64 = 512 << 10;
/// Without opening for so much content, it is timed by as much: windows that are shorter vary a lot
/// where other processes take turns with this one.
const SETTLED: u64 = 4 << 20;
/// Windows of a trial, at most. The first ones fill the buffers of the transport and the network,
/// and are as fast as on any link.
const MOST_WINDOWS: u32 = 6;
/// Bytes that go out before the first trial. Until then the buffers of a slow link may take all,
/// and hide that it is one. Where opening saves much, a quarter of the content is enough.
const UNKNOWN: u64 = 512 << 10;
/// A pause that is longer, without anything that waits, does not count.
const IDLE: Duration = Duration::from_millis(100);
/// After a shorter pause a block that nothing waits behind is opened even on a fast link: it holds
/// nobody up.
const PAUSE: Duration = Duration::from_millis(5);
/// Content until another trial, in bytes: after one that was close, and after one in which opening
/// was faster by far; twice as much each time, up to [`MOST_AGAIN`].
const AGAIN: u64 = 32 << 20;
const LATER: u64 = 256 << 20;
const MOST_AGAIN: u64 = 16 << 30;
/// Content that goes by without opening until that is looked at again, in bytes: at first, then
/// twice as much each time.
const REVIEW: u64 = 512 << 20;
/// Content with opening whose rate is compared, in bytes.
const RECENT: u64 = 16 << 20;
/// A rate is believed for so long.
const BELIEVED: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Content is opened.
    Open,
    /// A trial without opening: windows so far, and the rate of the last.
    Trial { windows: u32, last: f64 },
    /// Opening does not pay: since when, how much content went by, and whether the last window was
    /// slower than opening was.
    Closed { since: Instant, content: u64, slow: bool },
}

/// Decides for each block whether to open it. It has no clock: times are those of the session's
/// caller. Rates are in bytes per second.
#[derive(Debug)]
pub(crate) struct Chooser {
    state: State,
    window: Window,
    /// Recent windows with opening: single ones vary a lot with the content.
    with: Window,
    /// The last rate without opening, and when that was measured.
    without: Option<(f64, Instant)>,
    /// When the last block was encoded, and whether more waited.
    last: Option<(Instant, bool)>,
    /// Bytes that went out, up to [`UNKNOWN`].
    sent: u64,
    /// Content that goes by before the next trial, in bytes, and how much it was at last.
    wait: u64,
    again: u64,
    /// Content until the decision against opening is looked at again.
    review: u64,
}

/// What was timed.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    content: u64,
    /// Of it, opened.
    opened: u64,
    /// While something waited.
    time: Duration,
    /// Of it, in the encoder.
    encoding: Duration,
}

impl Window {
    fn rate(&self) -> f64 {
        self.content as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Adds a later window; what is old counts half.
    fn add(&mut self, later: Window) {
        if self.content >= RECENT {
            self.content /= 2;
            self.time /= 2;
        }
        self.content += later.content;
        self.time += later.time;
    }
}

impl Chooser {
    pub(crate) fn new() -> Chooser {
        Chooser {
            state: State::Open,
            window: Window::default(),
            with: Window::default(),
            without: None,
            last: None,
            sent: 0,
            wait: 0,
            again: 0,
            review: REVIEW,
        }
    }

    #[cfg(test)]
    fn opens(&self) -> bool {
        self.state == State::Open
    }

    /// A block is taken: whether to open it. `more` says whether other content waits behind it.
    pub(crate) fn take(&mut self, more: bool, now: Instant) -> bool {
        let pause = self.last.map(|(end, waited)| (now.saturating_duration_since(end), waited));
        match pause {
            // Nobody waited, or this is the first block: time begins now.
            None => self.window = Window::default(),
            Some((pause, false)) if pause > IDLE => {
                self.window = Window::default();
                if let State::Trial { .. } = self.state {
                    // It would go on with other content.
                    self.state = State::Open;
                }
            }
            Some((pause, _)) => self.window.time += pause,
        }
        if let State::Closed { since, content, .. } = self.state
            && (now.saturating_duration_since(since) > BELIEVED || content > self.review)
        {
            self.with = Window::default();
            self.review = self.review.saturating_mul(2).min(MOST_AGAIN);
            self.enter(State::Open);
        }
        let rests = pause.is_none_or(|(pause, waited)| pause > PAUSE && !waited) && !more;
        self.last = Some((now, more));
        match self.state {
            State::Open => true,
            State::Trial { .. } => false,
            State::Closed { .. } => rests,
        }
    }

    /// The block that was taken last is encoded: `len` bytes, `opened` of them opened. Its message
    /// is `sent` bytes long.
    pub(crate) fn encoded(&mut self, len: usize, opened: u64, sent: usize, now: Instant) {
        let Some((begun, more)) = self.last else { return };
        self.last = Some((now, more));
        let took = now.saturating_duration_since(begun);
        self.window.content += len as u64;
        self.window.opened += opened;
        self.window.time += took;
        self.window.encoding += took;
        self.wait = self.wait.saturating_sub(len as u64);
        self.sent = UNKNOWN.min(self.sent + sent.max(len / 4) as u64);
        let window = self.window;
        if let State::Trial { .. } = self.state
            && window.time.as_secs_f64() > 2.0 * WINDOW as f64 / self.with.rate()
        {
            // Opening was faster by far: no more of this is needed.
            self.without = Some((window.rate(), now));
            return self.keep_open(LATER);
        }
        let whole = match self.state {
            State::Closed { content, .. } if content >= SETTLED => SETTLED,
            _ => WINDOW,
        };
        if window.content < whole {
            return;
        }
        self.window = Window::default();
        match self.state {
            State::Open => self.opened(window, now),
            State::Trial { windows, last } => self.tried(window.rate(), windows + 1, last, now),
            State::Closed { since, content, slow } => {
                let content = content + window.content;
                self.without = Some((window.rate(), now));
                // Otherwise buffers misled the trial.
                let was_right = content > AGAIN;
                if was_right {
                    self.again = 0;
                }
                let is_slow = window.rate() < 0.9 * self.with.rate();
                self.state = State::Closed { since, content, slow: is_slow };
                // Twice, since a single window may be an accident.
                if is_slow && slow {
                    self.keep_open(if was_right { AGAIN } else { LATER });
                }
            }
        }
    }

    /// A window with opening is over.
    fn opened(&mut self, window: Window, now: Instant) {
        if window.opened * 2 < window.content {
            return;
        }
        self.with.add(window);
        if window.encoding * 2 < window.time {
            // Not the encoder holds content up.
            return;
        }
        let is_believed = |at: Instant| now.saturating_duration_since(at) < BELIEVED;
        match self.without.filter(|(_, at)| is_believed(*at)) {
            Some((without, _)) if self.is_slower_than(without) => self.close(now),
            // Not enough was timed to tell.
            Some(_) if self.with.content < RECENT / 8 => {}
            _ if self.wait == 0 && self.sent == UNKNOWN => {
                self.enter(State::Trial { windows: 0, last: f64::INFINITY });
            }
            _ => {}
        }
    }

    /// Whether opening is slower than this rate. The closer it is, the more content must say so.
    fn is_slower_than(&self, without: f64) -> bool {
        let share = self.with.rate() / without;
        let content = self.with.content;
        share < 0.5
            || (share < 0.8 && content >= RECENT / 8)
            || (share < 0.95 && content >= RECENT / 2)
    }

    /// A window of a trial is over, the first one or a later one.
    fn tried(&mut self, rate: f64, windows: u32, before: f64, now: Instant) {
        // As long as it becomes slower, buffers fill.
        if (windows < 2 || rate < 0.8 * before) && windows < MOST_WINDOWS {
            self.state = State::Trial { windows, last: rate };
            return;
        }
        self.without = Some((rate, now));
        if self.is_slower_than(rate) {
            self.review = REVIEW;
            self.close(now);
        } else {
            self.keep_open(AGAIN);
        }
    }

    fn close(&mut self, now: Instant) {
        self.enter(State::Closed { since: now, content: 0, slow: false });
    }

    fn enter(&mut self, state: State) {
        (self.state, self.window) = (state, Window::default());
    }

    /// Opening is right: there is no other trial before this much content.
    fn keep_open(&mut self, content: u64) {
        self.again = content.max(self.again.saturating_mul(2)).min(MOST_AGAIN);
        self.wait = self.again;
        self.enter(State::Open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 64 << 10;
    const SECOND: f64 = 1e9;

    /// Content, an encoder and a link.
    #[derive(Clone, Copy, Debug)]
    struct Path {
        /// Bytes per second.
        link: f64,
        /// Bytes that are taken at once, because they wait in a socket and in the network.
        buffer: f64,
        /// Nanoseconds for a byte, without opening and for that.
        encoding: f64,
        opening: f64,
        /// Content differs: of eight pieces of a megabyte each, opening one takes less by this share,
        /// the next more, and so on.
        uneven: f64,
        /// Share of the content that opening saves.
        saved: f64,
        /// Share of blocks in which anything can be opened.
        compressed: f64,
        /// Bytes per second that the application brings.
        source: f64,
    }

    const PATH: Path = Path {
        link: 0.0,
        buffer: 700e3,
        encoding: 1.0,
        opening: 26.0,
        uneven: 0.0,
        saved: 0.5,
        compressed: 1.0,
        source: f64::INFINITY,
    };

    #[derive(Debug, Default)]
    struct Sent {
        nanos: f64,
        wire: f64,
        opened: f64,
    }

    /// Sends this many bytes of content.
    fn send(path: Path, content: u64, mut opens: impl FnMut(Step, Instant) -> bool) -> Sent {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let start = Instant::now();
        let at = |nanos: f64| start + Duration::from_nanos(nanos as u64);
        let (mut sent, mut buffered, mut drained) = (Sent::default(), 0.0, 0.0);
        let mut compressed = 0.0;
        let block = BLOCK as f64;
        for nth in 0..content / BLOCK {
            // When the application has brought this block.
            let brought = (nth + 1) as f64 * block * SECOND / path.source;
            let more = brought + block * SECOND / path.source <= sent.nanos;
            sent.nanos = sent.nanos.max(brought);
            let opened = opens(Step::Take(more), at(sent.nanos));
            compressed += path.compressed;
            let is_compressed = compressed >= 1.0;
            compressed -= if is_compressed { 1.0 } else { 0.0 };
            let opened = opened && is_compressed;
            let unlike = [-1.0, 1.0, -0.5, 0.5, 1.0, -1.0, 0.2, -0.2][(nth / 16 % 8) as usize];
            let opening = path.opening * (1.0 + path.uneven * unlike);
            sent.nanos += block * (path.encoding + if opened { opening } else { 0.0 });
            let opened = if opened { block } else { 0.0 };
            let wire = block - opened * path.saved;
            opens(Step::Encoded(opened as u64, wire as usize), at(sent.nanos));
            let since = sent.nanos - drained;
            buffered = f64::max(0.0, buffered - since * path.link / SECOND) + wire;
            drained = sent.nanos;
            // The write returns when the buffer has room for all of it.
            sent.nanos += f64::max(0.0, buffered - path.buffer) * SECOND / path.link;
            sent.wire += wire;
            sent.opened += opened;
        }
        sent.nanos += buffered * SECOND / path.link;
        sent
    }

    enum Step {
        Take(bool),
        Encoded(u64, usize),
    }

    fn chosen(chooser: &mut Chooser, path: Path, content: u64) -> Sent {
        send(path, content, |step, now| match step {
            Step::Take(more) => chooser.take(more, now),
            Step::Encoded(opened, wire) => {
                chooser.encoded(BLOCK as usize, opened, wire, now);
                false
            }
        })
    }

    #[test]
    fn opening_is_never_much_slower_than_sending_and_as_small_where_the_link_is_slow() {
        let mut closed = 0;
        for link in [0.1, 1.0, 3.0, 8.0, 12.5, 20.0, 30.0, 37.5, 60.0, 125.0, 300.0, 1250.0, 4000.0]
        {
            for buffer in [100e3, 700e3, 1.5e6] {
                for saved in [0.02, 0.2, 0.5, 0.9] {
                    for (opening, uneven) in [(6.0, 0.0), (26.0, 0.0), (26.0, 0.7), (80.0, 0.4)] {
                        let link = link * 1e6;
                        let path = Path { link, buffer, saved, opening, uneven, ..PATH };
                        let content = 512 << 20;
                        let auto = chosen(&mut Chooser::new(), path, content);
                        let always = send(path, content, |_, _| true);
                        let never = send(path, content, |_, _| false);
                        let least = never.nanos.min(always.nanos);
                        // To learn the rate takes this.
                        let learning = (5 << 19) as f64 * opening;
                        let took = (auto.nanos - learning) / least;
                        assert!(
                            took < 1.05,
                            "{took:.3} times as long: {path:?} {auto:?} {always:?} {never:?}"
                        );
                        closed += u32::from(auto.opened < 0.1 * content as f64);
                        // The link is the bottleneck even if content is opened.
                        if always.nanos > 1.1 * always.wire * SECOND / link {
                            continue;
                        }
                        // A trial, and nothing more.
                        let size = (auto.wire - 3e6) / always.wire;
                        assert!(
                            size < 1.02,
                            "{size:.3} times as large: {path:?} {auto:?} {always:?}"
                        );
                    }
                }
            }
        }
        assert!(closed > 100, "{closed}");
    }

    #[test]
    fn what_is_known_of_a_link_is_used_for_the_next_transfer() {
        let mut chooser = Chooser::new();
        let path = Path { link: 1e9, ..PATH };
        chosen(&mut chooser, path, 64 << 20);
        assert!(!chooser.opens());
    }

    #[test]
    fn a_slow_application_has_its_content_opened_on_a_fast_link() {
        let path = Path { link: 1e9, source: 20e6, ..PATH };
        let sent = chosen(&mut Chooser::new(), path, 64 << 20);
        assert!(sent.opened > (60 << 20) as f64, "{sent:?}");
    }

    #[test]
    fn a_link_that_becomes_slow_is_noticed() {
        let mut chooser = Chooser::new();
        let fast = chosen(&mut chooser, Path { link: 1e9, ..PATH }, 64 << 20);
        assert!(fast.opened < (4 << 20) as f64 && !chooser.opens(), "{fast:?}");
        let slow = chosen(&mut chooser, Path { link: 5e6, ..PATH }, 64 << 20);
        assert!(slow.opened > (54 << 20) as f64, "{slow:?}");
    }

    #[test]
    fn content_that_is_not_compressed_needs_no_trial() {
        let path = Path { link: 1e9, compressed: 0.0, ..PATH };
        let mut chooser = Chooser::new();
        chosen(&mut chooser, path, 64 << 20);
        assert!(chooser.opens());
    }
}
