//! The queue before the encoder, for a path of known rate: fair queues (RFC 8290) with CoDel (RFC
//! 8289), and a token bucket.
//!
//! Packets wait here unencoded. One that is dropped never enters the content log, so that no later
//! packet refers to it (Santos and Wetherall, section 3.2.2). How many bytes a packet takes on the
//! path is known only once it is encoded, so the bucket is charged afterwards and may be overdrawn by
//! one batch.
//!
//! The owner calls [`FairQueues::push`] with what arrives, and [`FairQueues::pop`] while the bucket
//! has bytes; it encodes, sends, and charges. Without a rate, it needs none of this.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Time at the rate that a run may take: longer ones are cut. It is CoDel's target, too (RFC 8289
/// section 4.4).
pub const TARGET: Duration = Duration::from_millis(5);
/// CoDel's interval: a round-trip time that most flows do not exceed (RFC 8289 section 4.4).
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Queues that flows are spread over (RFC 8290 section 4.1.2).
pub const QUEUES: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Most packets that an overflow drops at a time (RFC 8290 section 4.1.3).
const MOST_OVERFLOW: usize = 64;

/// A packet, or a run of packets, that waits.
pub trait Waiting {
    /// Its bytes.
    fn bytes(&self) -> usize;
    /// Takes the first packet off a run and forgets it. Returns false, and changes nothing, if there
    /// is only one packet.
    fn drop_first(&mut self) -> bool;
    /// Marks it as having met congestion (ECN, RFC 3168). Returns false, and changes nothing, if its
    /// flow does not understand that.
    fn mark(&mut self) -> bool;
}

/// How packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// What a queue is for. [`FairQueues::push`] is told the class of each packet.
    pub classes: Classes,
    /// Bytes that a queue may send in a turn. RFC 8290, section 5.2.2, recommends a full packet.
    pub quantum: usize,
    /// Most bytes that wait. Above, packets of the longest queue are dropped.
    pub limit: usize,
    /// Delay that CoDel tolerates, and its interval; `None` to drop only what exceeds `limit`.
    pub codel: Option<(Duration, Duration)>,
}

/// What queues are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Flows: the class of a packet is a hash of its flow, with a secret that outsiders do not know.
    /// Flows that send little go first.
    Flows(NonZeroUsize),
    /// As many neighbors, which take turns: the class of a packet is the number of its neighbor.
    Ingress(NonZeroUsize),
}

impl QueueConfig {
    /// For the flows of a path with `rate` bytes per second and packets of up to `packet` bytes.
    pub fn flows(rate: u64, packet: usize) -> QueueConfig {
        // On a slow path, one packet may take longer than the target (RFC 8289 section 4.4).
        let one = Duration::from_secs_f64(1.5 * packet as f64 / rate.max(1) as f64);
        QueueConfig {
            classes: Classes::Flows(QUEUES),
            quantum: packet,
            // A second of the path, as far as memory goes.
            limit: rate.clamp(1 << 20, 32 << 20) as usize,
            codel: Some((TARGET.max(one), INTERVAL.max(one))),
        }
    }
}

/// What a queue dropped and marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets that CoDel dropped.
    pub dropped: u64,
    /// Packets that CoDel marked instead.
    pub marked: u64,
    /// Packets that were dropped because too many bytes waited.
    pub overflowed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    since: Instant,
}

/// CoDel's state of a queue (RFC 8289 section 5.3).
#[derive(Clone, Copy, Debug, Default)]
struct Codel {
    /// When the delay will have been above the target for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Option<Instant>,
    count: u32,
    last_count: u32,
}

#[derive(Debug)]
struct OneQueue<T> {
    entries: VecDeque<Entry<T>>,
    bytes: usize,
    /// Bytes that it may still send in its turn.
    credit: i64,
    is_listed: bool,
    codel: Codel,
}

impl<T> Default for OneQueue<T> {
    fn default() -> OneQueue<T> {
        OneQueue {
            entries: VecDeque::new(),
            bytes: 0,
            credit: 0,
            is_listed: false,
            codel: Codel::default(),
        }
    }
}

/// Queues of packets that wait to be encoded.
///
/// Memory is bounded by [`QueueConfig::limit`]. Work for a packet is constant, but for a scan of the
/// queues when the limit is exceeded, which drops up to 64 packets.
#[derive(Debug)]
pub struct FairQueues<T> {
    config: QueueConfig,
    queues: Vec<OneQueue<T>>,
    /// Queues with packets: those of flows that have just begun, and the others.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    bytes: usize,
    stats: QueueStats,
}

impl<T: Waiting> FairQueues<T> {
    /// Empty queues.
    pub fn new(config: QueueConfig) -> FairQueues<T> {
        let (Classes::Flows(count) | Classes::Ingress(count)) = config.classes;
        FairQueues {
            queues: (0..count.get()).map(|_| OneQueue::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            stats: QueueStats::default(),
            config,
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What was dropped and marked so far.
    pub fn stats(&self) -> QueueStats {
        self.stats
    }

    /// Adds a packet or run of a class.
    pub fn push(&mut self, class: u64, item: T, now: Instant) {
        let at = (class % self.queues.len() as u64) as usize;
        let queue = &mut self.queues[at];
        let bytes = item.bytes();
        queue.entries.push_back(Entry { item, since: now });
        queue.bytes += bytes;
        self.bytes += bytes;
        if !queue.is_listed {
            queue.is_listed = true;
            queue.credit = self.config.quantum as i64;
            match self.config.classes {
                Classes::Flows(_) => self.new.push_back(at),
                Classes::Ingress(_) => self.old.push_back(at),
            }
        }
        while self.bytes > self.config.limit {
            self.overflow();
        }
    }

    /// Drops packets at the head of the longest queue: half of its bytes, or 64 packets.
    fn overflow(&mut self) {
        let longest = (0..self.queues.len()).max_by_key(|&at| self.queues[at].bytes);
        let Some(queue) = longest.map(|at| &mut self.queues[at]) else { return };
        let enough = queue.bytes / 2;
        for _ in 0..MOST_OVERFLOW {
            let Some(bytes) = drop_head(queue) else { return };
            self.bytes -= bytes;
            self.stats.overflowed += 1;
            if queue.bytes <= enough {
                return;
            }
        }
    }

    /// The next packet or run to send. May drop others first.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        loop {
            let is_new = !self.new.is_empty();
            let at = *self.new.front().or_else(|| self.old.front())?;
            let queue = &mut self.queues[at];
            if queue.credit <= 0 {
                // Its turn is over. It waits for as many turns as it has overdrawn.
                queue.credit += self.config.quantum.max(1) as i64;
                self.list(is_new).pop_front();
                self.old.push_back(at);
                continue;
            }
            let before = queue.bytes;
            let popped = match self.config.codel {
                Some(times) => codel(queue, times, self.config.quantum, now, &mut self.stats),
                None => take(queue),
            };
            self.bytes -= before - queue.bytes;
            if let Some(item) = popped {
                queue.credit -= item.bytes() as i64;
                return Some(item);
            }
            // A new queue that is empty goes to the end of the old ones once, so that a flow cannot
            // be new all the time (RFC 8290 section 4.2).
            self.list(is_new).pop_front();
            if is_new && !self.old.is_empty() {
                self.old.push_back(at);
            } else {
                self.queues[at].is_listed = false;
            }
        }
    }

    fn list(&mut self, is_new: bool) -> &mut VecDeque<usize> {
        if is_new { &mut self.new } else { &mut self.old }
    }
}

fn take<T: Waiting>(queue: &mut OneQueue<T>) -> Option<T> {
    let entry = queue.entries.pop_front()?;
    queue.bytes -= entry.item.bytes();
    Some(entry.item)
}

/// Drops the first packet. Returns the bytes that went with it.
fn drop_head<T: Waiting>(queue: &mut OneQueue<T>) -> Option<usize> {
    let head = queue.entries.front_mut()?;
    let before = head.item.bytes();
    if head.item.drop_first() {
        let dropped = before - head.item.bytes();
        queue.bytes -= dropped;
        return Some(dropped);
    }
    take(queue).map(|_| before)
}

impl Codel {
    /// Whether the packet at the head has waited too long, for too long (RFC 8289 section 5.5,
    /// `dodequeue`).
    fn is_late<T: Waiting>(
        &mut self,
        queue: (&VecDeque<Entry<T>>, usize),
        (target, interval): (Duration, Duration),
        packet: usize,
        now: Instant,
    ) -> bool {
        let (entries, bytes) = queue;
        let delay = entries.front().map(|head| now.saturating_duration_since(head.since));
        // The last packet is never too late: dropping it would not shorten the queue.
        if delay.is_none_or(|delay| delay < target) || bytes <= packet {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + interval);
                false
            }
            Some(first_above) => now >= first_above,
        }
    }

    /// RFC 8289 section 5.4.
    fn control_law(&self, from: Instant, interval: Duration) -> Instant {
        from + interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}

/// The next packet after CoDel's drops (RFC 8289 section 5.5).
fn codel<T: Waiting>(
    queue: &mut OneQueue<T>,
    times: (Duration, Duration),
    packet: usize,
    now: Instant,
    stats: &mut QueueStats,
) -> Option<T> {
    let interval = times.1;
    let mut codel = queue.codel;
    let mut is_late = codel.is_late((&queue.entries, queue.bytes), times, packet, now);
    // Marks the head, or drops it. Returns whether a mark ended the matter.
    let mut act = |queue: &mut OneQueue<T>| {
        let is_marked = queue.entries.front_mut().is_some_and(|head| head.item.mark());
        if is_marked {
            stats.marked += 1;
        } else if drop_head(queue).is_some() {
            stats.dropped += 1;
        }
        is_marked
    };
    if codel.dropping {
        if !is_late {
            codel.dropping = false;
        }
        while codel.dropping && codel.drop_next.is_some_and(|next| now >= next) {
            codel.count = codel.count.saturating_add(1);
            let next = codel.control_law(codel.drop_next.unwrap_or(now), interval);
            codel.drop_next = Some(next);
            if act(queue) {
                break;
            }
            is_late = codel.is_late((&queue.entries, queue.bytes), times, packet, now);
            codel.dropping = is_late;
        }
    } else if is_late {
        if !act(queue) {
            // Only for its effect on `first_above`.
            codel.is_late((&queue.entries, queue.bytes), times, packet, now);
        }
        codel.dropping = true;
        // Where it left off, if that was a short while ago.
        let delta = codel.count.saturating_sub(codel.last_count);
        let is_recent =
            codel.drop_next.is_some_and(|next| now.saturating_duration_since(next) < 16 * interval);
        codel.count = if delta > 1 && is_recent { delta } else { 1 };
        codel.drop_next = Some(codel.control_law(now, interval));
        codel.last_count = codel.count;
    }
    queue.codel = codel;
    take(queue)
}

/// A token bucket: how many bytes may be sent now, at a rate.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Bytes per second.
    rate: u64,
    /// Most bytes that are saved up.
    depth: f64,
    /// Negative while the bucket is overdrawn.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket for `rate` bytes per second, at least 1. It saves up to [`TARGET`] of the rate,
    /// at least two datagrams of `datagram` bytes, so that a timer that is late loses nothing.
    pub fn new(rate: u64, datagram: usize, now: Instant) -> TokenBucket {
        let rate = rate.max(1);
        let depth = (rate as f64 * TARGET.as_secs_f64()).max(2.0 * datagram as f64);
        TokenBucket { rate, depth, tokens: depth, at: now }
    }

    /// Bytes that may be sent now.
    pub fn available(&mut self, now: Instant) -> usize {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + elapsed * self.rate as f64).min(self.depth);
        self.tokens.max(0.0) as usize
    }

    /// Takes out what was sent, even if that is more than was available.
    pub fn charge(&mut self, bytes: usize) {
        self.tokens -= bytes as f64;
    }

    /// When bytes are available again; `None` if they are.
    pub fn deadline(&self) -> Option<Instant> {
        // A datagram's worth would be idle time on a slow path; a single byte is enough.
        (self.tokens < 1.0)
            .then(|| self.at + Duration::from_secs_f64((1.0 - self.tokens) / self.rate as f64))
    }
}

#[cfg(test)]
mod tests;
