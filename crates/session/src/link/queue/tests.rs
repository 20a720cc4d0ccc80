//! Worlds of flows that share a path, in simulated time.

use super::*;
use crate::link::testing::start;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: Duration = Duration::from_millis(1);
/// 20 Mbit/s.
const RATE: u64 = 2_500_000;

/// A run of packets of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    flow: u64,
    /// Numbers of its packets in its flow.
    packets: std::ops::Range<u64>,
    size: usize,
    understands_marks: bool,
    is_marked: bool,
}

impl Item {
    fn new(flow: u64, packets: std::ops::Range<u64>, size: usize) -> Item {
        Item { flow, packets, size, understands_marks: false, is_marked: false }
    }
}

impl Waiting for Item {
    fn bytes(&self) -> usize {
        (self.packets.end - self.packets.start) as usize * self.size
    }

    fn drop_first(&mut self) -> bool {
        let is_run = self.packets.end - self.packets.start > 1;
        self.packets.start += u64::from(is_run);
        is_run
    }

    fn mark(&mut self) -> bool {
        self.is_marked |= self.understands_marks;
        self.understands_marks
    }
}

/// A path that sends what the bucket allows, with a timer that is exact to 100 us.
struct World {
    now: Instant,
    queues: FairQueues<Item>,
    bucket: TokenBucket,
    sent: u64,
}

impl World {
    fn new(config: QueueConfig) -> World {
        let now = start();
        let bucket = TokenBucket::new(RATE, 1500, now);
        World { now, queues: FairQueues::new(config), bucket, sent: 0 }
    }

    /// Lets 100 us pass. Returns what was sent.
    fn tick(&mut self) -> Vec<Item> {
        self.now += MS / 10;
        let mut sent = Vec::new();
        while self.bucket.available(self.now) > 0 {
            let Some(item) = self.queues.pop(self.now) else { break };
            self.bucket.charge(item.bytes());
            self.sent += item.bytes() as u64;
            sent.push(item);
        }
        sent
    }
}

fn fifo() -> QueueConfig {
    let classes = Classes::Ingress(NonZeroUsize::MIN);
    QueueConfig { classes, codel: None, ..QueueConfig::flows(RATE, 1500) }
}

/// A flow that always has 600,000 bytes waiting, and one with a packet every 20 ms. Returns the
/// longest delay of the latter's packets after the first 500 ms.
fn delay_of_a_small_flow(config: QueueConfig) -> Duration {
    let mut world = World::new(config);
    let begin = world.now;
    let (mut pings, mut worst) = (BTreeMap::new(), Duration::ZERO);
    for tick in 0..20_000u64 {
        while world.queues.bytes() < 600_000 {
            world.queues.push(1, Item::new(1, 0..8, 1500), world.now);
        }
        if tick % 200 == 0 {
            world.queues.push(2, Item::new(2, tick..tick + 1, 100), world.now);
            pings.insert(tick, world.now);
        }
        for item in world.tick().iter().filter(|item| item.flow == 2) {
            let since = pings.remove(&item.packets.start).unwrap();
            if since - begin > 500 * MS {
                worst = worst.max(world.now - since);
            }
        }
    }
    assert!(pings.len() < 20, "{} of 100 packets are missing", pings.len());
    // The path was full all the time.
    assert!(world.sent >= RATE * 2 * 99 / 100, "{} bytes in 2 s", world.sent);
    worst
}

#[test]
fn a_small_flow_does_not_wait_behind_a_full_path() {
    // One run that is being sent, cut to 5 ms.
    let fair = delay_of_a_small_flow(QueueConfig::flows(RATE, 1500));
    assert!(fair <= 6 * MS, "{fair:?}");
    // The same with a FIFO: everything before it, a quarter of a second.
    let fifo = delay_of_a_small_flow(fifo());
    assert!(fifo > 200 * MS, "{fifo:?}");
}

/// A sender whose window grows until a packet is lost or marked, and is halved then, as TCP's is (RFC
/// 5681). Returns the mean delay in the queue after the start, the share of the path it
/// used, and the world.
fn adaptive_flow(config: QueueConfig, understands_marks: bool) -> (Duration, f64, World) {
    let mut world = World::new(config);
    let rtt = 40 * MS;
    let (mut window, mut next, mut in_flight) = (10.0f64, 0u64, 0u64);
    let (mut acks, mut backed_off_until) = (BTreeMap::<(Instant, u64), bool>::new(), 0);
    let (mut pushed, mut delay, mut count) = (BTreeMap::new(), Duration::ZERO, 0);
    let mut slow_start = true;
    let mut expected = 0;
    for tick in 0..100_000u64 {
        let due: Vec<_> = acks.range(..=(world.now, u64::MAX)).map(|(k, v)| (*k, *v)).collect();
        for (key, is_congested) in due {
            acks.remove(&key);
            // Packets are sent in order: what is skipped was dropped.
            let lost = key.1 - expected;
            expected = key.1 + 1;
            in_flight -= lost + 1;
            if (lost > 0 || is_congested) && key.1 >= backed_off_until {
                (window, slow_start) = ((window / 2.0).max(2.0), false);
                backed_off_until = next;
            } else {
                window += if slow_start { 1.0 } else { 1.0 / window };
            }
        }
        while in_flight < window as u64 {
            let mut item = Item::new(1, next..next + 1, 1500);
            item.understands_marks = understands_marks;
            world.queues.push(1, item, world.now);
            pushed.insert(next, world.now);
            (next, in_flight) = (next + 1, in_flight + 1);
        }
        for item in world.tick() {
            if tick > 50_000 {
                delay += world.now - pushed[&item.packets.start];
                count += 1;
            }
            acks.insert((world.now + rtt, item.packets.start), item.is_marked);
        }
        // A loss of everything in flight cannot be seen by what arrives after it.
        if acks.is_empty() && world.queues.is_empty() && in_flight > 0 {
            (window, in_flight, expected) = (2.0, 0, next);
        }
    }
    let share = world.sent as f64 / (RATE * 10) as f64;
    (delay / count.max(1), share, world)
}

#[test]
fn codel_keeps_the_delay_of_an_adaptive_flow_low_and_the_path_full() {
    // With no queue at all, halving would leave a quarter of the path idle.
    let (delay, share, world) = adaptive_flow(QueueConfig::flows(RATE, 1500), false);
    assert!(delay < 10 * MS && share > 0.8, "{delay:?}, {share}");
    assert!(world.queues.stats().dropped > 0 && world.queues.stats().marked == 0);
    // Without CoDel, it fills what there is: a second of the path.
    let (delay, _, world) = adaptive_flow(fifo(), false);
    assert!(delay > 200 * MS && world.queues.stats().overflowed > 0, "{delay:?}");
}

#[test]
fn codel_marks_instead_of_dropping_where_the_flow_understands_it() {
    let (delay, share, world) = adaptive_flow(QueueConfig::flows(RATE, 1500), true);
    let stats = world.queues.stats();
    assert!(stats.marked > 0 && (stats.dropped, stats.overflowed) == (0, 0), "{stats:?}");
    assert!(delay < 10 * MS && share > 0.8, "{delay:?}, {share}");
}

/// Whatever the sizes of their packets and runs, flows send the same number of bytes.
#[test]
fn flows_share_a_path_by_bytes() {
    let mut world = World::new(QueueConfig { codel: None, ..QueueConfig::flows(RATE, 1500) });
    let mut sent = [0; 4];
    for _ in 0..20_000 {
        for (flow, (packets, size)) in
            [(1, 1500), (8, 1500), (1, 100), (3, 700)].into_iter().enumerate()
        {
            while world.queues.queues[flow].bytes < 50_000 {
                world.queues.push(flow as u64, Item::new(flow as u64, 0..packets, size), world.now);
            }
        }
        for item in world.tick() {
            sent[item.flow as usize] += item.bytes();
        }
    }
    let quarter = RATE as usize * 2 / 4;
    assert!(sent.iter().all(|&bytes| bytes.abs_diff(quarter) < quarter / 20), "{sent:?}");
}

/// Neighbors take turns, and packets of one keep their order.
#[test]
fn queues_by_ingress_are_fifos_in_turn() {
    let classes = Classes::Ingress(NonZeroUsize::new(3).unwrap());
    let mut queues =
        FairQueues::new(QueueConfig { classes, codel: None, quantum: 100, limit: 1 << 20 });
    let now = start();
    for at in 0..30 {
        // The first neighbor sends twice as much.
        queues.push([0, 0, 1, 2][at as usize % 4], Item::new(at, 0..1, 100), now);
    }
    let order: Vec<u64> = std::iter::from_fn(|| queues.pop(now)).map(|item| item.flow).collect();
    assert_eq!(order[..9], [0, 2, 3, 1, 6, 7, 4, 10, 11]);
    assert_eq!(order.len(), 30);
}

/// A drop takes one packet of a run, not the run.
#[test]
fn a_drop_costs_one_packet() {
    let mut queues =
        FairQueues::new(QueueConfig { limit: 20_000, ..QueueConfig::flows(RATE, 1500) });
    let now = start();
    queues.push(1, Item::new(1, 0..10, 1500), now);
    queues.push(2, Item::new(2, 0..3, 1500), now);
    // 500 bytes above the limit; the longest queue gives half of its bytes.
    queues.push(3, Item::new(3, 0..1, 1000), now);
    assert_eq!(queues.stats().overflowed, 5);
    assert_eq!(queues.pop(now).unwrap().packets, 5..10);
    // CoDel, after an interval of waiting.
    let mut queues = FairQueues::new(QueueConfig::flows(RATE, 1500));
    for at in 0..4 {
        queues.push(5, Item::new(5, at * 10..at * 10 + 10, 1500), now);
    }
    assert_eq!(queues.pop(now + 10 * MS).unwrap().packets, 0..10, "not late for an interval yet");
    assert_eq!(queues.pop(now + 111 * MS).unwrap().packets, 11..20, "one packet was dropped");
    assert_eq!(queues.stats().dropped, 1);
}

proptest! {
    /// Whatever is pushed: the limit holds, nothing comes twice, flows keep their order, and counters
    /// add up.
    #[test]
    fn everything_is_sent_or_counted(steps in proptest::collection::vec((0u64..6, 1u64..12, 40usize..2000, 0u64..40, any::<bool>()), 1..300), by_flow: bool, limit in 3000usize..60_000, with_codel: bool) {
        let classes = NonZeroUsize::new(4).unwrap();
        let config = QueueConfig {
            classes: if by_flow { Classes::Flows(classes) } else { Classes::Ingress(classes) },
            quantum: 1500,
            limit,
            codel: with_codel.then_some((TARGET, INTERVAL)),
        };
        let mut queues = FairQueues::new(config);
        let mut now = start();
        let (mut next, mut seen, mut pushed, mut popped) = ([0; 6], [0; 6], 0, 0);
        let mut take = |queues: &mut FairQueues<Item>, now| {
            let Some(item) = queues.pop(now) else { return false };
            let flow = item.flow as usize;
            assert!(item.packets.start >= seen[flow], "{item:?} again");
            seen[flow] = item.packets.end;
            popped += item.packets.end - item.packets.start;
            true
        };
        for (flow, packets, size, wait, pop) in steps {
            now += MS * wait as u32;
            let first = next[flow as usize];
            next[flow as usize] += packets;
            pushed += packets;
            queues.push(flow, Item { understands_marks: wait % 2 == 0, ..Item::new(flow, first..first + packets, size) }, now);
            prop_assert!(queues.bytes() <= limit);
            if pop {
                take(&mut queues, now);
            }
        }
        while take(&mut queues, now) {}
        prop_assert!(queues.is_empty());
        let stats = queues.stats();
        prop_assert_eq!(pushed, popped + stats.dropped + stats.overflowed);
    }

    /// A bucket gives no more than its rate and its depth, and no less than the rate if it is asked
    /// in time.
    #[test]
    fn a_bucket_keeps_its_rate(rate in 1000u64..1 << 30, waits in proptest::collection::vec(0u64..4000, 1..200), datagram in 200usize..2000) {
        let mut now = start();
        let (begin, mut bucket) = (now, TokenBucket::new(rate, datagram, now));
        let depth = (rate as f64 / 200.0).max(2.0 * datagram as f64);
        let mut sent = 0.0;
        for wait in waits {
            now += Duration::from_micros(wait);
            while bucket.available(now) > 0 {
                bucket.charge(datagram);
                sent += datagram as f64;
            }
            // Overdrawn by one datagram at most.
            let earned = depth + (now - begin).as_secs_f64() * rate as f64;
            prop_assert!(sent <= earned + datagram as f64 + 1.0, "{sent} of {earned}");
            if let Some(deadline) = bucket.deadline() {
                let slack = Duration::from_micros(1);
                prop_assert!(bucket.available(deadline + slack) > 0 || deadline < now);
                now = now.max(deadline + slack);
            }
        }
        let least = (now - begin).as_secs_f64() * rate as f64;
        prop_assert!(sent + 2.0 * depth >= least, "{sent} of {least}");
    }
}
