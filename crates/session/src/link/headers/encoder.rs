//! The sender's half: which references the peer has, and the shortest section for a header.

use super::super::acks::Acknowledgment;
use super::super::record_error::varint_len;
use super::{
    FIELDS, Fields, Implied, KEEP, KEEP_AT, KINDS, Kept, Kind, LENGTH, Layout, MAX_KEPT, MAX_SLOTS,
    OTHER_SLOT, PATCH, REFERENCES, WHOLE, number, zigzag,
};
use lru::LruCache;
use oncewire_codec::varint;
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64;

/// A header counts as lost once a datagram that was sent this many later has been acknowledged. If it
/// did arrive, nothing is lost but the chance to refer to it.
const LOST_AFTER: u64 = 32;
/// Hosts, and pairs of hosts, whose latest slot is remembered for new flows.
const HOSTS: usize = 256;
/// Pieces of a patch with so many equal bytes between them become one.
const JOINED: usize = 2;

/// What the sender knows of a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The peer may have a header there, but the sender does not refer to it.
    #[default]
    Free,
    /// Sent, not acknowledged.
    Sent,
    /// Acknowledged.
    Held,
}

#[derive(Debug, Default)]
struct Reference {
    state: State,
    kept: Kept,
    /// Hash of the source address. Flows of other sources do not refer to it.
    source: u64,
    /// The counters of the datagrams that stated it: the first, and one past the last.
    first: u64,
    end: u64,
    /// One past the last datagram that referred to it.
    used: u64,
}

type Slot = [Reference; REFERENCES];

/// A datagram whose acknowledgment makes a header a reference.
#[derive(Clone, Copy, Debug)]
struct Pending {
    first: u64,
    slot: u16,
    reference: u8,
}

/// The section that was written last, until it is known which datagrams carry it.
#[derive(Debug, Default)]
struct Plan {
    used: Option<(u16, u8)>,
    keep: Option<(u16, u8)>,
    /// Whether a datagram has carried it.
    is_sent: bool,
    kept: Kept,
    source: u64,
}

/// The references that a sender may use. Memory is bounded as the decoder's is; work for a header is
/// bounded by its length times the references that are tried, at most [`REFERENCES`] and 2.
#[derive(Debug)]
pub(in super::super) struct HeaderEncoder {
    layout: Layout,
    /// Slots of flows, by hash.
    flows: LruCache<u64, u16>,
    /// From slot 1 on.
    slots: Vec<Slot>,
    /// By counter.
    pending: VecDeque<Pending>,
    /// One past the largest counter that was acknowledged.
    acknowledged: u64,
    /// By hash of a source address, or of both addresses: that hash, and a slot.
    hosts: Vec<(u64, u16)>,
    plan: Plan,
    /// Mask and fields of the shortest section, and of the one that is tried.
    best: Vec<u8>,
    trial: Vec<u8>,
    /// The reference with the fields of the new header, while its patch is made.
    scratch: Vec<u8>,
}

impl HeaderEncoder {
    pub(in super::super) fn new(layout: Layout) -> HeaderEncoder {
        HeaderEncoder {
            layout,
            flows: LruCache::unbounded(),
            slots: Vec::new(),
            pending: VecDeque::new(),
            acknowledged: 0,
            hosts: vec![(0, 0); HOSTS],
            plan: Plan::default(),
            best: Vec::new(),
            trial: Vec::new(),
            scratch: Vec::with_capacity(MAX_KEPT),
        }
    }

    /// Appends a section for a header to `out`. If it would take more than `room` bytes, it is the
    /// shortest that needs and keeps nothing, which may still be too long.
    ///
    /// Each datagram with this section must be passed to [`HeaderEncoder::sent`] before the next
    /// section is written. A section without a datagram has no effect.
    pub(in super::super) fn write(
        &mut self,
        header: &[u8],
        implied: Implied,
        room: usize,
        out: &mut Vec<u8>,
    ) {
        (self.plan.used, self.plan.keep, self.plan.is_sent) = (None, None, false);
        let start = out.len();
        let fields =
            if header.len() <= MAX_KEPT { (self.layout)(header) } else { Fields::default() };
        let part = |(start, end): (u8, u8)| header.get(start.into()..end.into()).unwrap_or(&[]);
        let addresses = part(fields.addresses);
        if addresses.is_empty() {
            return write_whole(0, 0, header, implied, out);
        }
        let source = xxh3_64(&addresses[..addresses.len() / 2]);
        let pair = xxh3_64(addresses);
        let own = self.slot_of(pair ^ xxh3_64(part(fields.ports)).rotate_left(32));
        let chosen = self.choose(own, [pair, source], header, implied, &fields);
        for hash in [pair, source] {
            self.hosts[hash as usize % HOSTS] = (hash, own);
        }
        let reference = self.reference_to_replace(own, chosen);
        let keep = reference.map_or(0, |reference| KEEP | reference << KEEP_AT);
        if let Some((slot, reference)) = chosen {
            varint::put(out, own.into());
            let other = if slot == own { 0 } else { OTHER_SLOT };
            let fields = if self.best.is_empty() { 0 } else { FIELDS };
            out.push(reference | keep | fields | other);
            if slot != own {
                varint::put(out, slot.into());
            }
            out.extend_from_slice(&self.best);
        } else {
            write_whole(own, keep, header, implied, out);
            if out.len() - start > room {
                out.truncate(start);
                return write_whole(0, 0, header, implied, out);
            }
        }
        self.plan.used = chosen;
        self.plan.keep = reference.map(|reference| (own, reference));
        if reference.is_some() {
            self.plan.kept.header.clear();
            self.plan.kept.header.extend_from_slice(header);
            (self.plan.kept.implied, self.plan.kept.fields) = (implied, fields);
            self.plan.source = source;
        }
    }

    /// Appends a section for a header that needs and keeps nothing.
    pub(in super::super) fn write_whole(
        &mut self,
        header: &[u8],
        implied: Implied,
        out: &mut Vec<u8>,
    ) {
        (self.plan.used, self.plan.keep) = (None, None);
        write_whole(0, 0, header, implied, out);
    }

    /// Whether the section written last refers to a header, so that the peer may be unable to
    /// restore it.
    pub(in super::super) fn refers(&self) -> bool {
        self.plan.used.is_some()
    }

    /// Notes that the datagram with this counter carries the section written last. The datagrams of a
    /// section have consecutive counters.
    pub(in super::super) fn sent(&mut self, counter: u64) {
        if let Some((slot, reference)) = self.plan.used {
            self.slots[usize::from(slot) - 1][usize::from(reference)].used = counter + 1;
        }
        if let Some((slot, at)) = self.plan.keep {
            let reference = &mut self.slots[usize::from(slot) - 1][usize::from(at)];
            if !self.plan.is_sent {
                std::mem::swap(&mut reference.kept, &mut self.plan.kept);
                reference.source = self.plan.source;
                (reference.state, reference.first, reference.used) = (State::Sent, counter, 0);
                self.pending.push_back(Pending { first: counter, slot, reference: at });
            }
            reference.end = counter + 1;
        }
        self.plan.is_sent = true;
    }

    /// Takes an acknowledgment of datagrams that were sent.
    pub(in super::super) fn acknowledged(&mut self, acknowledgment: &Acknowledgment) {
        let ranges = &acknowledgment.ranges;
        let Some(largest) = ranges.first() else { return };
        self.acknowledged = self.acknowledged.max(largest.end);
        let mut open = Vec::new();
        let below = self.pending.partition_point(|pending| pending.first < largest.end);
        for pending in self.pending.drain(..below) {
            let slot = &mut self.slots[usize::from(pending.slot) - 1];
            let reference = &mut slot[usize::from(pending.reference)];
            if reference.state != State::Sent || reference.first != pending.first {
                continue;
            }
            // Ranges descend: the first that does not lie above the datagrams.
            let at = ranges.partition_point(|range| range.start >= reference.end);
            if ranges.get(at).is_some_and(|range| range.end > reference.first) {
                reference.state = State::Held;
                // What is older is not needed any more, even if it is still to be acknowledged.
                let first = reference.first;
                for other in slot {
                    if other.state == State::Sent && other.end <= first {
                        other.state = State::Free;
                    }
                }
            } else if reference.end + LOST_AFTER <= largest.end {
                reference.state = State::Free;
            } else {
                open.push(pending);
            }
        }
        for pending in open.into_iter().rev() {
            self.pending.push_front(pending);
        }
    }

    /// Most memory of the references, in bytes.
    pub(in super::super) fn memory(&self) -> usize {
        self.slots.len() * (size_of::<Slot>() + REFERENCES * MAX_KEPT)
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a flow; that of the flow that was idle longest, if there are too many.
    fn slot_of(&mut self, flow: u64) -> u16 {
        if let Some(slot) = self.flows.get(&flow) {
            return *slot;
        }
        let idle = if self.flows.len() < MAX_SLOTS.into() { None } else { self.flows.pop_lru() };
        let slot = idle.map_or_else(
            || {
                self.slots.push(Slot::default());
                self.slots.len() as u16
            },
            |(_, slot)| slot,
        );
        self.flows.put(flow, slot);
        slot
    }

    /// The reference with the shortest section, which is left in `best`; `None` if a whole header is
    /// shorter.
    fn choose(
        &mut self,
        own: u16,
        hosts: [u64; 2],
        header: &[u8],
        implied: Implied,
        fields: &Fields,
    ) -> Option<(u16, u8)> {
        let source = hosts[1];
        let usable = |slot: &Slot, at: &usize| {
            let reference = &slot[*at];
            reference.state == State::Held
                && reference.source == source
                && reference.kept.implied == implied
        };
        let mut tried: [(u16, u8); REFERENCES + 2] = [(0, 0); REFERENCES + 2];
        let mut count = 0;
        let slot = &self.slots[usize::from(own) - 1];
        for at in (0..REFERENCES).filter(|at| usable(slot, at)) {
            tried[count] = (own, at as u8);
            count += 1;
        }
        // The newest is nearest, in most cases.
        let newest = |slot: &Slot, at: u8| std::cmp::Reverse(slot[usize::from(at)].first);
        tried[..count].sort_unstable_by_key(|(_, at)| newest(slot, *at));
        for hash in hosts {
            let (known, number) = self.hosts[hash as usize % HOSTS];
            if known != hash || number == 0 || number == own {
                continue;
            }
            let slot = &self.slots[usize::from(number) - 1];
            let at = (0..REFERENCES).filter(|at| usable(slot, at)).map(|at| at as u8);
            if let Some(at) = at.min_by_key(|at| newest(slot, *at)) {
                tried[count] = (number, at);
                count += 1;
            }
        }
        let mut chosen = None;
        // Beside the slot and the control byte.
        let mut shortest = 1 + varint_len(header.len()) + header.len();
        for &(slot, at) in &tried[..count] {
            let kept = &self.slots[usize::from(slot) - 1][usize::from(at)].kept;
            self.trial.clear();
            let needs_patch = compose(kept, header, fields, &mut self.scratch, &mut self.trial);
            let other = if slot == own { 0 } else { varint_len(slot.into()) };
            if self.trial.len() + other < shortest {
                shortest = self.trial.len() + other;
                chosen = Some((slot, at));
                std::mem::swap(&mut self.best, &mut self.trial);
            }
            if !needs_patch {
                break;
            }
        }
        chosen
    }

    /// The reference as which a header of this slot can be kept. Not the newest that is acknowledged,
    /// nor one that a datagram under way may refer to.
    fn reference_to_replace(&self, slot: u16, used: Option<(u16, u8)>) -> Option<u8> {
        let references = &self.slots[usize::from(slot) - 1];
        let held = references.iter().filter(|reference| reference.state == State::Held);
        let newest = held.map(|reference| reference.first).max();
        let can_go = |at: &u8| {
            let reference = &references[usize::from(*at)];
            match reference.state {
                State::Free => true,
                State::Sent => false,
                State::Held => {
                    let is_under_way = reference.used > self.acknowledged;
                    Some(reference.first) != newest && !is_under_way && used != Some((slot, *at))
                }
            }
        };
        let oldest = |at: &u8| {
            let reference = &references[usize::from(*at)];
            (reference.state != State::Free, reference.first)
        };
        (0..REFERENCES as u8).filter(can_go).min_by_key(oldest)
    }
}

pub(super) fn write_whole(slot: u16, keep: u8, header: &[u8], implied: Implied, out: &mut Vec<u8>) {
    varint::put(out, slot.into());
    out.push(WHOLE | keep | implied as u8);
    varint::put(out, header.len() as u64);
    out.extend_from_slice(header);
}

/// Appends mask and fields that turn a reference into a header, or nothing if they are equal. Returns
/// whether a patch is among them.
fn compose(
    kept: &Kept,
    header: &[u8],
    fields: &Fields,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    scratch.clear();
    scratch.extend_from_slice(&kept.header);
    let start = out.len();
    out.push(0);
    let mut mask = 0;
    for (bit, kind) in KINDS.into_iter().enumerate() {
        let Some(at) = kept.fields.place(bit, kept.header.len()) else { continue };
        let range = at..at + kind.len();
        if fields.place(bit, header.len()) != Some(at)
            || scratch[range.clone()] == header[range.clone()]
        {
            continue;
        }
        mask |= 1 << bit;
        match kind {
            Kind::Bytes(_) => out.extend_from_slice(&header[range.clone()]),
            Kind::Numbers(width, _) => {
                let pairs =
                    scratch[range.clone()].chunks(width).zip(header[range.clone()].chunks(width));
                for (from, to) in pairs {
                    varint::put(out, zigzag(number(from), number(to), width));
                }
            }
        }
        scratch[range.clone()].copy_from_slice(&header[range]);
    }
    let needs_patch = *scratch != header;
    if needs_patch {
        mask |= PATCH;
        write_patch(scratch, header, out);
    }
    if mask == 0 {
        out.truncate(start);
    } else {
        out[start] = mask;
    }
    needs_patch
}

/// Appends what turns `from` into `to`, both of at most [`MAX_KEPT`] bytes: a count, with a bit for
/// another length and then that length; for each piece, bytes since the last one, its length, and its
/// bytes.
fn write_patch(from: &mut Vec<u8>, to: &[u8], out: &mut Vec<u8>) {
    let first = out.len();
    out.push(0);
    if from.len() != to.len() {
        out[first] = LENGTH;
        out.push(to.len() as u8);
        from.resize(to.len(), 0);
    }
    let differs = |at: &usize| from[*at] != to[*at];
    let mut end = 0;
    while let Some(start) = (end..to.len()).find(differs) {
        let mut next = start + 1;
        // The piece goes on while another difference is near.
        while let Some(more) = (next..to.len().min(next + JOINED + 1)).find(differs) {
            next = more + 1;
        }
        out.extend_from_slice(&[(start - end) as u8, (next - start) as u8]);
        out.extend_from_slice(&to[start..next]);
        out[first] += 1;
        end = next;
    }
}
