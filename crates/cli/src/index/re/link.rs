//! What a link makes of the times of an index. Pure arithmetic.

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link(pub(super) f64);

impl Link {
    fn seconds(self, bytes: u64) -> f64 {
        8.0 * bytes as f64 / self.0
    }
}

/// An object, and what an index did for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// Bytes that were sent for it.
    pub(super) sent: u64,
    /// Seconds of the index.
    pub(super) busy: f64,
}

/// The throughput test (Figure 5.8): all objects are there at the start. Time to send them without
/// redundancy elimination, divided by the time with it. The index works on an object while the link
/// sends those before.
pub(super) fn improvement(objects: &[Sent], link: Link) -> f64 {
    let (mut ready, mut sent, mut bytes) = (0.0f64, 0.0f64, 0);
    for object in objects {
        ready += object.busy;
        sent = sent.max(ready) + link.seconds(object.sent);
        bytes += object.bytes;
    }
    link.seconds(bytes) / sent
}

/// The heavy load test (Figure 5.9): objects arrive as fast as the link could send them. For each,
/// its throughput divided by that without redundancy elimination, from arrival to its last byte.
pub(super) fn of_objects(objects: &[Sent], link: Link) -> Vec<f64> {
    let (mut arrival, mut ready, mut sent) = (0.0f64, 0.0f64, 0.0f64);
    let each = objects.iter().map(|object| {
        // Each arrives when the one before would be sent, so none waits without the index.
        let without = link.seconds(object.bytes);
        ready = ready.max(arrival) + object.busy;
        sent = sent.max(ready) + link.seconds(object.sent);
        let with = sent - arrival;
        arrival += without;
        without / with
    });
    each.collect()
}

/// The link from which on the index makes everything slower, within a thousandth.
pub(super) fn useless_from(objects: &[Sent]) -> Link {
    // A faster link has less to gain and waits for the same index.
    let (mut useful, mut useless) = (1.0, 1e18);
    if improvement(objects, Link(useless)) >= 1.0 {
        return Link(f64::INFINITY);
    }
    while useless / useful > 1.001 {
        let middle = f64::sqrt(useful * useless);
        if improvement(objects, Link(middle)) >= 1.0 {
            useful = middle;
        } else {
            useless = middle;
        }
    }
    Link(useless)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABIT: Link = Link(1e6);

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 2e-3, "{found} is not {expected}");
    }

    #[test]
    fn the_slower_of_index_and_link_counts() {
        // A second of link before, half of it after.
        let objects = |busy| vec![Sent { bytes: 125_000, sent: 62_500, busy }; 100];
        near(improvement(&objects(0.0), MEGABIT), 2.0);
        // The index is faster than the link: only the first object waits for it.
        near(improvement(&objects(0.2), MEGABIT), 100.0 / 50.2);
        // It is slower: the link waits for it, and sends the last object afterwards.
        near(improvement(&objects(2.0), MEGABIT), 100.0 / 200.5);
        near(useless_from(&objects(1.0)).0, 0.995e6);
        assert_eq!(useless_from(&objects(0.0)).0, f64::INFINITY);
    }

    #[test]
    fn an_object_waits_for_those_before() {
        let objects = |busy| vec![Sent { bytes: 125_000, sent: 25_000, busy }; 3];
        for improvement in of_objects(&objects(0.05), MEGABIT) {
            near(improvement, 1.0 / 0.25);
        }
        // Each has to wait a second more than the one before.
        let slow = of_objects(&objects(2.0), MEGABIT);
        near(slow[0], 1.0 / 2.2);
        near(slow[1], 1.0 / 3.2);
        near(slow[2], 1.0 / 4.2);
        // A large object delays a small one after it.
        let mixed = [
            Sent { bytes: 125_000, sent: 250_000, busy: 0.0 },
            Sent { bytes: 1_250, sent: 1_250, busy: 0.0 },
        ];
        let mixed = of_objects(&mixed, MEGABIT);
        near(mixed[0], 0.5);
        near(mixed[1], 0.01 / 1.01);
    }
}
