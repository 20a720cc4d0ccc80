//! Whether looking inside compressed content pays on this link.
//!
//! Opening compressed content takes some 25 ns a byte, and saves bytes. On a slow link that saves
//! time; on a fast one the encoder becomes the bottleneck. So two rates are compared: how fast the
//! encoder opens content, and how fast the link takes it unopened.
//!
//! The link shows its rate whenever it holds the session up: between two moments in which content
//! waits for the transport, as much leaves the buffers as was written. That includes waiting for
//! the peer's credit and for acknowledgments, whatever it is that limits the flow. A link that was
//! never the bottleneck is tried: once opening is what holds a session up, some content goes out
//! unopened, until the link holds that up or has shown that it is fast. The encoder keeps the place
//! of flows in their streams meanwhile
//! ([`Encoder::set_opening`](oncewire_codec::Encoder::set_opening)), so a trial that shows that
//! opening was right costs little.
//!
//! If opening is a little slower than the link, a block is opened as long as what was written before
//! keeps the link busy meanwhile: that costs no time.

use std::collections::VecDeque;
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

/// Bytes on the wire, and their time, that tell the rate of a link: shorter ones vary a lot where
/// other processes take turns with this one.
const SAMPLE: (u64, Duration) = (256 << 10, Duration::from_millis(10));
/// On a slow link so much time is enough, with fewer bytes.
const LONG_SAMPLE: (u64, Duration) = (16 << 10, Duration::from_millis(200));
/// Of so many samples the third largest counts, or the largest of fewer than four: TCP starts
/// slowly, and others take part of the link; but a process that was not run for a while finds empty
/// buffers, and takes them for a fast link.
const SAMPLES: usize = 8;
/// Content in which the link was never waited for, in bytes. Less may fill buffers only.
const WINDOW: u64 = 512 << 10;
/// Bytes that go out before the first trial. Until then the buffers of a slow link may take all,
/// and hide that it is one. Where opening saves much, a quarter of the content is enough.
const UNKNOWN: u64 = 512 << 10;
/// A pause that is longer, without anything that waits, does not count.
const IDLE: Duration = Duration::from_millis(100);
/// After a shorter pause a block that nothing waits behind is opened even on a fast link: it holds
/// nobody up.
const PAUSE: Duration = Duration::from_millis(5);
/// Content that opening holds up until a link whose rate is known is tried again, in bytes: at
/// first, where it is close, and where opening was twice as fast; then twice as much each time, up
/// to [`MOST_AGAIN`].
const SOON: u64 = 8 << 20;
const AGAIN: u64 = 32 << 20;
const LATER: u64 = 256 << 20;
const MOST_AGAIN: u64 = 16 << 30;
/// A rate is believed for so long.
const BELIEVED: Duration = Duration::from_secs(60);
/// Opened content whose cost is averaged, in bytes; and the least that tells it.
const RECENT: u64 = 1 << 20;
const ENOUGH: u64 = 128 << 10;
/// What opening costs is believed for so long after a block was opened. Other processes take turns
/// on the processor.
const COST_BELIEVED: Duration = Duration::from_secs(1);
/// Opening may be slower than the link by this share of its rate.
const CLOSE: f64 = 1.0;
/// Blocks are opened while the link is busy if opening has at least this share of its rate.
/// Otherwise that would take much CPU time for few blocks.
const PARTLY: f64 = 0.4;
/// Bytes that keep the link busy, at most: what a transport is sure to hold.
const MOST_QUEUE: f64 = (128 << 10) as f64;
/// Without opening, one block in so much content is opened, to know what it costs by now: where the
/// link is busy meanwhile, and where it is not.
const LOOK: u64 = 2 << 20;
const RARE_LOOK: u64 = 64 << 20;

/// Content between two moments, and what it took.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    content: u64,
    /// Of it, opened.
    opened: u64,
    wire: u64,
    /// Blocks that were not to be opened only.
    plain: bool,
    time: Duration,
    /// Of it, waiting for the transport.
    waiting: Duration,
    /// Whether it began when the link held content up.
    is_full: bool,
}

impl Stretch {
    fn new(is_full: bool) -> Stretch {
        Stretch { plain: true, is_full, ..Stretch::default() }
    }

    fn is_held_up(&self) -> bool {
        self.waiting * 2 > self.time
    }
}

/// A trial without opening, and how much content it had.
#[derive(Clone, Copy, Debug)]
struct Trial(u64);

/// Decides for each block whether to open it. It has no clock: times are those of the session's
/// caller. Rates are in bytes per second.
#[derive(Debug)]
pub(crate) struct Chooser {
    trial: Option<Trial>,
    stretch: Stretch,
    /// Rates of the link when it held content up, the last ones, and when the last was measured.
    rates: VecDeque<f64>,
    at: Option<Instant>,
    /// A rate that content had unopened while the link did not hold it up; until it does.
    bound: Option<f64>,
    /// Opened content, and what encoding it took.
    cost: (u64, Duration),
    /// When the last of it was encoded.
    cost_at: Option<Instant>,
    /// Bytes that were written and that keep the link busy.
    queue: f64,
    /// When a block was last taken, searched or written, and whether more waited.
    last: Option<(Instant, bool)>,
    /// Bytes that went out, up to [`UNKNOWN`].
    sent: u64,
    /// Content that opening held up since the rate was measured; how much of that leads to a trial.
    held: u64,
    again: u64,
    /// Content since a block was opened.
    unopened: u64,
}

impl Chooser {
    pub(crate) fn new() -> Chooser {
        Chooser {
            trial: None,
            stretch: Stretch::new(false),
            rates: VecDeque::new(),
            at: None,
            bound: None,
            cost: (0, Duration::ZERO),
            cost_at: None,
            queue: 0.0,
            last: None,
            sent: 0,
            held: 0,
            again: SOON,
            unopened: 0,
        }
    }

    /// A block is taken: whether to open it. `more` says whether other content waits behind it, and
    /// `is_writing` whether frames of others are being written.
    pub(crate) fn take(&mut self, more: bool, is_writing: bool, now: Instant) -> bool {
        let pause = self.last.map(|(end, waited)| (now.saturating_duration_since(end), waited));
        match pause {
            // Something was being encoded.
            Some((took, _)) if is_writing => self.spend(took),
            // Nobody waited, or this is the first block: time begins now.
            None => self.begin(false),
            Some((pause, false)) if pause > IDLE => {
                self.begin(false);
                // It would go on with other content.
                self.trial = None;
            }
            Some((pause, waited)) => self.paused(pause, waited, now),
        }
        if self.cost_at.is_some_and(|at| now.saturating_duration_since(at) > COST_BELIEVED) {
            self.cost = (0, Duration::ZERO);
        }
        let rests = pause.is_none_or(|(pause, waited)| pause > PAUSE && !waited) && !more;
        self.last = Some((now, more));
        self.trial.is_none() && (rests || self.pays())
    }

    /// Time went by while something was encoded.
    fn spend(&mut self, took: Duration) {
        self.drain(took);
        self.stretch.time += took;
    }

    /// Notes the time since a block was last taken, searched or written.
    fn pass(&mut self, now: Instant) -> Option<Duration> {
        let (begun, more) = self.last?;
        self.last = Some((now, more));
        let took = now.saturating_duration_since(begun);
        self.spend(took);
        Some(took)
    }

    /// The block that was taken last was searched: `len` bytes, `opened` of them opened.
    pub(crate) fn searched(&mut self, len: usize, opened: u64, now: Instant) {
        let (Some(took), len) = (self.pass(now), len as u64) else { return };
        if opened * 2 > len {
            if self.cost.0 >= RECENT {
                self.cost = (self.cost.0 / 2, self.cost.1 / 2);
            }
            self.cost = (self.cost.0 + len, self.cost.1 + took);
            self.cost_at = Some(now);
            self.unopened = 0;
        } else {
            self.unopened += len;
        }
    }

    /// The message of a block that was searched is `sent` bytes long. `opens` says whether it was to
    /// be opened.
    pub(crate) fn written(
        &mut self,
        len: usize,
        opened: u64,
        sent: usize,
        opens: bool,
        now: Instant,
    ) {
        let (Some(_), len, sent) = (self.pass(now), len as u64, sent as u64) else { return };
        self.queue = MOST_QUEUE.min(self.queue + sent as f64);
        self.sent = UNKNOWN.min(self.sent + sent.max(len / 4));
        self.stretch.content += len;
        self.stretch.opened += opened;
        self.stretch.wire += sent;
        self.stretch.plain &= !opens;
        if let Some(Trial(content)) = &mut self.trial {
            *content += len;
        }
        if self.stretch.content >= WINDOW && !self.stretch.is_held_up() {
            self.not_held_up(now);
        }
    }

    /// Time went by between two blocks, perhaps because the link held the second one up.
    fn paused(&mut self, pause: Duration, waited: bool, now: Instant) {
        self.drain(pause);
        self.stretch.time += pause;
        if !waited {
            return;
        }
        self.stretch.waiting += pause;
        let Stretch { wire, time, is_full, .. } = self.stretch;
        if !self.stretch.is_held_up() {
            return;
        }
        if !is_full {
            // What was written before may have filled buffers.
            return self.begin(true);
        }
        if [SAMPLE, LONG_SAMPLE].iter().any(|least| wire >= least.0 && time >= least.1) {
            if self.rates.len() == SAMPLES {
                self.rates.pop_front();
            }
            self.rates.push_back(wire as f64 / time.as_secs_f64());
            (self.at, self.bound, self.held) = (Some(now), None, 0);
            self.end_trial();
            self.begin(true);
        }
    }

    /// Some content went out and hardly waited for the link.
    fn not_held_up(&mut self, now: Instant) {
        let Stretch { content, opened, time, plain, .. } = self.stretch;
        self.begin(false);
        if plain {
            let rate = content as f64 / time.as_secs_f64().max(1e-9);
            let link = self.rates.iter().copied().fold(0.0, f64::max);
            // The first may have filled buffers.
            let is_first = matches!(self.trial, Some(Trial(all)) if all < 2 * WINDOW);
            if rate > link && !is_first {
                self.bound = Some(self.bound.map_or(rate, |before| before / 2.0 + rate / 2.0));
                (self.at, self.held) = (Some(now), 0);
                self.end_trial();
            }
        } else if opened * 2 > content {
            self.held += content;
            let known = self.at.is_some_and(|at| now.saturating_duration_since(at) < BELIEVED);
            let is_due = if self.at.is_none() {
                self.sent == UNKNOWN
            } else {
                self.held >= self.again && (!known || self.again < LATER)
            };
            if is_due {
                self.trial = Some(Trial(0));
            }
        }
    }

    fn end_trial(&mut self) {
        if self.trial.take().is_none() {
            return;
        }
        let (Some(link), Some(opening)) = (self.link(), self.opening()) else { return };
        let least = if opening > 2.0 * link { LATER } else { AGAIN };
        self.again = least.max(self.again.saturating_mul(2)).min(MOST_AGAIN);
    }

    /// The rate of the link, or at least that of content that is not opened.
    fn link(&self) -> Option<f64> {
        self.bound.or_else(|| {
            let mut rates: Vec<f64> = self.rates.iter().copied().collect();
            rates.sort_by(f64::total_cmp);
            rates.get((rates.len().max(1) - 1) - rates.len() / 4).copied()
        })
    }

    /// The rate of opening.
    fn opening(&self) -> Option<f64> {
        let (content, time) = self.cost;
        (content >= ENOUGH).then(|| content as f64 / time.as_secs_f64().max(1e-9))
    }

    /// Whether to open the next block.
    fn pays(&self) -> bool {
        let (Some(link), Some(opening)) = (self.link(), self.opening()) else { return true };
        // Until the link has sent what is written, opening a block is over.
        let is_hidden = self.queue / link >= (64 << 10) as f64 / opening;
        opening >= CLOSE * link
            || (is_hidden && (opening >= PARTLY * link || self.unopened >= LOOK))
            || self.unopened >= RARE_LOOK
    }

    /// The link sends for some time.
    fn drain(&mut self, time: Duration) {
        if let Some(link) = self.link() {
            self.queue = f64::max(0.0, self.queue - link * time.as_secs_f64());
        }
    }

    fn begin(&mut self, is_full: bool) {
        self.stretch = Stretch::new(is_full);
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
        chosen_after(Duration::ZERO, chooser, path, content)
    }

    /// The same, some time later.
    fn chosen_after(time: Duration, chooser: &mut Chooser, path: Path, content: u64) -> Sent {
        let mut opens = false;
        send(path, content, |step, now| match step {
            Step::Take(more) => {
                opens = chooser.take(more, false, now + time);
                opens
            }
            Step::Encoded(opened, wire) => {
                chooser.searched(BLOCK as usize, opened, now + time);
                chooser.written(BLOCK as usize, opened, wire, opens, now + time);
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
                        let size = (auto.wire - 2e6) / always.wire;
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
        assert!(!chooser.pays());
    }

    #[test]
    fn a_link_that_held_content_up_needs_no_trial() {
        // New content, then its next version.
        let link = Path { link: 12.5e6, buffer: 300e3, ..PATH };
        let mut chooser = Chooser::new();
        let first = chosen(&mut chooser, Path { saved: 0.05, ..link }, 4 << 20);
        let next = chosen(&mut chooser, Path { saved: 0.95, ..link }, 4 << 20);
        assert!(
            first.opened >= (4 << 20) as f64 && next.opened >= (4 << 20) as f64,
            "{first:?} {next:?}"
        );
    }

    #[test]
    fn opening_that_is_a_little_too_slow_is_used_while_the_link_is_busy() {
        let path = Path { link: 60e6, saved: 0.3, ..PATH };
        let content = 256 << 20;
        let auto = chosen(&mut Chooser::new(), path, content);
        let never = send(path, content, |_, _| false);
        assert!(auto.nanos < 1.02 * never.nanos, "{auto:?} {never:?}");
        assert!(auto.opened > 0.4 * content as f64, "{auto:?}");
    }

    #[test]
    fn a_few_samples_that_are_too_large_do_not_make_a_link_fast() {
        let link = |rates: &[f64]| {
            let mut chooser = Chooser::new();
            chooser.rates.extend(rates);
            chooser.link()
        };
        assert_eq!(link(&[]), None);
        // TCP starts slowly.
        assert_eq!(link(&[2e6, 4e6, 8e6]), Some(8e6));
        assert_eq!(link(&[12e6, 25e6, 12e6, 11e6, 12e6, 30e6, 12e6, 10e6]), Some(12e6));
    }

    #[test]
    fn opening_that_was_slow_for_a_while_is_noticed_to_be_fast_again() {
        let link = Path { link: 12.5e6, saved: 0.8, ..PATH };
        let mut chooser = Chooser::new();
        let content = 64 << 20;
        // Other processes take most of the processor.
        let slow = chosen(&mut chooser, Path { opening: 400.0, ..link }, content);
        assert!(slow.opened < 0.2 * content as f64, "{slow:?}");
        let later = Duration::from_nanos(slow.nanos as u64);
        let fast = chosen_after(later, &mut chooser, link, content);
        assert!(fast.opened > 0.7 * content as f64, "{fast:?}");
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
        assert!(fast.opened < (4 << 20) as f64 && !chooser.pays(), "{fast:?}");
        let slow = chosen(&mut chooser, Path { link: 5e6, ..PATH }, 64 << 20);
        assert!(slow.opened > (54 << 20) as f64, "{slow:?}");
    }

    #[test]
    fn content_that_is_not_compressed_needs_no_trial() {
        let path = Path { link: 1e9, compressed: 0.0, ..PATH };
        let mut chooser = Chooser::new();
        chosen(&mut chooser, path, 64 << 20);
        assert!(chooser.pays());
    }
}
