use super::super::acks::{Acknowledgment, Received};
use super::super::record_error::varint_len;
use super::*;
use crate::link::testing::start;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An invented header of 32 bytes and options: addresses, ports, fields, then a byte that says where
/// the timestamps are, if there are any.
fn layout(header: &[u8]) -> Fields {
    if header.len() < 32 {
        return Fields::default();
    }
    Fields {
        addresses: (0, 8),
        ports: (8, 10),
        sequence: Some(10),
        acknowledgment: Some(14),
        window: Some(18),
        flags: Some(20),
        identification: Some(21),
        timestamps: (header[23] > 0).then_some(header[23]),
        checksum: Some(24),
    }
}

fn no_fields(header: &[u8]) -> Fields {
    Fields { addresses: (0, header.len().min(8) as u8), ..Fields::default() }
}

/// One that names fields outside of headers, and some that overlap.
fn wrong_fields(header: &[u8]) -> Fields {
    let any = header.iter().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    Fields {
        addresses: (3, 250),
        ports: (9, 2),
        sequence: Some(any),
        acknowledgment: Some(any / 2),
        window: Some(12),
        flags: Some(13),
        identification: Some(255),
        timestamps: Some(11),
        checksum: Some(any / 3),
    }
}

#[derive(Clone)]
struct Flow {
    header: Vec<u8>,
    implied: Implied,
}

fn new_flow(rng: &mut fastrand::Rng) -> Flow {
    let mut header = vec![0; rng.usize(20..60)];
    // Few hosts, so that flows use references of one another.
    header[..8].copy_from_slice(&[10, 0, 0, rng.u8(..3), 10, 1, 0, rng.u8(..4)]);
    rng.fill(&mut header[8..]);
    if header.len() > 32 {
        header[23] = [0, 28, 40, 200][rng.usize(..4)];
    }
    let implied = [Implied::Nothing, Implied::Lengths, Implied::LengthsAndChecksum];
    Flow { header, implied: implied[rng.usize(..3)] }
}

/// The next header of a flow: numbers grow and wrap, options come and go, any byte may change.
fn advance(flow: &mut Flow, rng: &mut fastrand::Rng) {
    let header = &mut flow.header;
    if rng.u8(..40) == 0 {
        header.resize(rng.usize(20..=300), 7);
    }
    if header.len() >= 32 {
        for (at, width) in [(10, 4), (14, 4), (18, 2), (21, 2), (28, 4)] {
            let steps = [0, 1, rng.u32(..3000), rng.u32(..), u32::MAX];
            let value = number(&header[at..at + width]).wrapping_add(steps[rng.usize(..5)]);
            header[at..at + width].copy_from_slice(&value.to_be_bytes()[4 - width..]);
        }
        header[20] ^= [0, 0, 0, 8][rng.usize(..4)];
    }
    for _ in 0..[0, 0, 0, 1, 4][rng.usize(..5)] {
        let at = rng.usize(..header.len());
        header[at] = rng.u8(..);
    }
    if rng.u8(..100) == 0 {
        flow.implied = Implied::Nothing;
    }
}

struct Datagram {
    section: Vec<u8>,
    header: Vec<u8>,
    implied: Implied,
}

#[derive(Default, Debug)]
struct Sums {
    headers: usize,
    sections: usize,
    missing: usize,
}

/// Sends headers of some flows over a path that loses a share of datagrams and of acknowledgments, in
/// hundredths, and delays each by up to `reordering` steps. Fails if a header is restored wrongly.
fn play(seed: u64, flows: usize, lost: u8, reordering: u64, layout: Layout) -> Sums {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut encoder = HeaderEncoder::new(layout);
    let mut decoder = HeaderDecoder::new(layout);
    let mut flows: Vec<Flow> = (0..flows).map(|_| new_flow(&mut rng)).collect();
    let mut received = Received::default();
    let now = start();
    let mut arrivals: BTreeMap<(u64, u64), Datagram> = BTreeMap::new();
    let mut acks: BTreeMap<u64, Acknowledgment> = BTreeMap::new();
    let (mut sums, mut buffer, mut counter) = (Sums::default(), Vec::new(), 0);
    for step in 0..2000u64 {
        let at = rng.usize(..flows.len());
        if rng.u8(..50) == 0 {
            flows[at] = new_flow(&mut rng);
        }
        let flow = &mut flows[at];
        advance(flow, &mut rng);
        let mut section = Vec::new();
        encoder.write(&flow.header, flow.implied, usize::MAX, &mut section);
        let whole = 2 + varint_len(flow.header.len()) + flow.header.len();
        assert!(section.len() <= whole + 1, "longer than a whole header");
        // A run has the same section in several datagrams; a packet that is dropped in none.
        let copies = [0, 1, 1, 1, 1, 9][rng.usize(..6)];
        sums.headers += copies * flow.header.len();
        sums.sections += copies * section.len();
        for _ in 0..copies {
            encoder.sent(counter);
            if rng.u8(..100) >= lost {
                let (header, implied) = (flow.header.clone(), flow.implied);
                let datagram = Datagram { section: section.clone(), header, implied };
                arrivals.insert((step + rng.u64(..=reordering), counter), datagram);
            }
            counter += 1;
        }
        while let Some(entry) = arrivals.first_entry().filter(|entry| entry.key().0 <= step) {
            let ((_, counter), datagram) = entry.remove_entry();
            let mut body = &datagram.section[..];
            assert_eq!(take_section(&mut body), Ok(&datagram.section[..]));
            buffer.clear();
            match decoder.restore(&datagram.section, counter, &mut buffer) {
                Ok(restored) => {
                    assert_eq!(buffer, datagram.header);
                    assert_eq!(restored.implied, datagram.implied);
                    decoder.keep(&restored, counter, &buffer);
                    received.insert(counter, now);
                }
                Err(Refusal::Missing) => sums.missing += 1,
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
        if rng.u8(..4) == 0 && rng.u8(..100) >= lost {
            let mut ack = Acknowledgment::default();
            received.report(now, &mut ack);
            acks.insert(step + 10 + rng.u64(..=reordering), ack);
        }
        while let Some(entry) = acks.first_entry().filter(|entry| *entry.key() <= step) {
            encoder.acknowledged(&entry.remove());
        }
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is lost and reordered, every header that is restored is right, and if nothing is
    /// reordered by more than a round trip, every one that arrives is restored.
    #[test]
    fn headers_are_restored(seed: u64, flows in 1usize..40, lost in 0u8..60, reordering in 0u64..10) {
        for layout in [layout, no_fields, wrong_fields] {
            let sums = play(seed, flows, lost, reordering, layout);
            prop_assert_eq!(sums.missing, 0);
        }
    }

    #[test]
    fn none_is_wrong_on_a_path_that_reorders_without_limit(seed: u64, flows in 1usize..10, lost in 0u8..60) {
        for layout in [layout, no_fields] {
            play(seed, flows, lost, 300, layout);
        }
    }

}

proptest! {
    #[test]
    fn differences_of_numbers_are_added_again(from: u32, to: u32) {
        for width in [1, 2, 4] {
            let mask = u32::MAX >> (32 - 8 * width);
            let difference = zigzag(from & mask, to & mask, width);
            prop_assert!(difference <= mask.into());
            let again = (from & mask).wrapping_add(unzigzag(difference as u32)) & mask;
            prop_assert_eq!(again, to & mask);
        }
    }

    #[test]
    fn any_bytes_are_a_section_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..40), control: u8) {
        if let [first, second, ..] = &mut bytes[..] {
            *first %= 3;
            *second = control;
        }
        let mut decoder = HeaderDecoder::new(layout);
        let (mut out, mut counter) = (Vec::new(), 1);
        for slot in 1..3u8 {
            for reference in 0..4u8 {
                let mut section = vec![slot, KEEP | reference << KEEP_AT | WHOLE, 40];
                section.resize(section.len() + 40, 30);
                let restored = decoder.restore(&section, counter, &mut out).expect("whole");
                decoder.keep(&restored, counter, &out);
                counter += 1;
            }
        }
        out.clear();
        let mut body = &bytes[..];
        if let Ok(section) = take_section(&mut body)
            && let Ok(restored) = decoder.restore(section, counter, &mut out)
        {
            prop_assert_eq!(restored.header.len(), out.len());
            decoder.keep(&restored, counter, &out);
        } else {
            prop_assert!(out.is_empty());
        }
    }
}

/// Sends a header, lets it arrive, and acknowledges it.
fn exchange(
    encoder: &mut HeaderEncoder,
    decoder: &mut HeaderDecoder,
    counter: u64,
    header: &[u8],
) -> Vec<u8> {
    let (mut section, mut buffer) = (Vec::new(), Vec::new());
    encoder.write(header, Implied::LengthsAndChecksum, usize::MAX, &mut section);
    encoder.sent(counter);
    let restored = decoder.restore(&section, counter, &mut buffer).expect("all arrive");
    assert_eq!(buffer, header);
    decoder.keep(&restored, counter, &buffer);
    let ranges = std::iter::once(counter..counter + 1).collect();
    encoder.acknowledged(&Acknowledgment { ranges, ..Acknowledgment::default() });
    section
}

/// A header with all fields; `step` is how many segments came before.
fn header(port: u8, step: u32) -> Vec<u8> {
    let mut header = vec![10, 0, 0, 1, 10, 1, 0, 2, port, 80];
    header.extend(0xffff_ff00u32.wrapping_add(step * 1400).to_be_bytes());
    header.extend([1, 2, 3, 4, 0x10, 0, 0x10]);
    header.extend(0xfffeu16.wrapping_add(step as u16).to_be_bytes());
    header.extend([28, 0, 0, 9, 9]);
    header.extend(0xffff_ffffu32.wrapping_add(step / 2).to_be_bytes());
    header.extend([0, 0, 0, 5]);
    header
}

#[test]
fn numbers_wrap_around_and_stay_short() {
    let (mut encoder, mut decoder) = (HeaderEncoder::new(layout), HeaderDecoder::new(layout));
    let mut send = |at, header: &[u8]| exchange(&mut encoder, &mut decoder, at, header);
    assert_eq!(send(0, &header(7, 0)).len(), 3 + 36);
    // Slot; reference 0, kept as 1, fields; mask; sequence + 1,400; identification + 1.
    assert_eq!(send(1, &header(7, 1)), [1, 0x68, 0x11, 0xf0, 0x15, 2]);
    // The timestamp, too.
    assert_eq!(send(2, &header(7, 2)), [1, 0x71, 0x31, 0xf0, 0x15, 2, 2, 0]);
    // And back: the newest reference will do, though an older one is equal.
    assert_eq!(send(3, &header(7, 0)), [1, 0x7a, 0x31, 0xdf, 0x2b, 3, 1, 0]);
}

#[test]
fn a_new_flow_begins_with_a_reference_of_its_host() {
    let (mut encoder, mut decoder) = (HeaderEncoder::new(layout), HeaderDecoder::new(layout));
    exchange(&mut encoder, &mut decoder, 0, &header(7, 0));
    let section = exchange(&mut encoder, &mut decoder, 1, &header(8, 0));
    // Slot 2; reference 0 of another slot, fields; slot 1; mask; 1 piece after 8 bytes, of 1 byte.
    assert_eq!(section, [2, 0xe0, 1, 0x80, 1, 8, 1, 8]);
    let mut stranger = header(8, 0);
    stranger[3] = 2;
    let section = exchange(&mut encoder, &mut decoder, 2, &stranger);
    assert_eq!(section.len(), 3 + 36, "another source's headers are not referred to");
}

#[test]
fn options_change_the_length() {
    let (mut encoder, mut decoder) = (HeaderEncoder::new(layout), HeaderDecoder::new(layout));
    let mut send = |at, header: &[u8]| exchange(&mut encoder, &mut decoder, at, header);
    send(0, &header(7, 0));
    let mut longer = header(7, 0);
    longer.extend([5, 4, 3, 2]);
    assert_eq!(send(1, &longer), [1, 0x68, 0x80, 0x81, 40, 36, 4, 5, 4, 3, 2]);
    // The older reference is nearer to this one.
    assert_eq!(send(2, &header(7, 0)), [1, 0x30]);
}

#[test]
fn flows_beyond_the_slots_take_those_of_idle_ones() {
    let (mut encoder, mut decoder) = (HeaderEncoder::new(layout), HeaderDecoder::new(layout));
    for at in 0..3000u32 {
        let mut header = header(7, at);
        header[8..10].copy_from_slice(&(at as u16).to_be_bytes());
        header[3] = at as u8;
        let section = exchange(&mut encoder, &mut decoder, at.into(), &header);
        // The slot may have headers of another source, which this flow must not refer to.
        let control = section[usize::from(section[0] > 0x7f) + 1];
        assert!(control & (WHOLE | OTHER_SLOT) != 0, "a reference of another flow's");
    }
    assert_eq!(encoder.slots(), MAX_SLOTS.into());
}

#[test]
fn a_section_that_does_not_fit_needs_no_slot() {
    let mut encoder = HeaderEncoder::new(layout);
    let mut section = Vec::new();
    encoder.write(&header(7, 0), Implied::Lengths, 38, &mut section);
    assert_eq!(section[..3], [0, 5, 36]);
    let mut long = vec![1; 256];
    long[..36].copy_from_slice(&header(7, 0));
    section.clear();
    encoder.write(&long, Implied::Lengths, 1000, &mut section);
    assert_eq!(section[..4], [0, 5, 0x80, 2]);
}

#[test]
fn what_no_sender_writes_is_an_error() {
    let error = |bytes: &[u8]| take_section(&mut &bytes[..]).expect_err("an impossible section");
    for bytes in [
        &[0, 0][..],                  // No slot, but a reference.
        &[0, 0x24, 0],                // No slot, but kept.
        &[0, 0x40, 1, 2],             // No slot, but fields.
        &[1, 0x0c, 0],                // A reference that is not kept.
        &[1, 0x07, 0],                // Nothing that could be left out.
        &[1, 0x44, 0, 1, 0],          // Whole, and fields.
        &[1, 0x84, 1, 0],             // Whole, and another slot.
        &[1, 0x80, 0],                // No other slot.
        &[0x80, 8, 4, 0],             // Slot 1024.
        &[1, 0x40, 0],                // No field.
        &[1, 0x40, 0x80, 0],          // A patch that changes nothing.
        &[1, 0x40, 4, 0x80, 0x80, 4], // A window of 17 bits.
    ] {
        assert_eq!(error(bytes), RecordError::Section, "{bytes:?}");
    }
    for bytes in
        [&[][..], &[1], &[0, 4, 2, 0], &[1, 0x40], &[1, 0x40, 1], &[1, 0x40, 0x80, 1, 0, 2, 1]]
    {
        assert_eq!(error(bytes), RecordError::Length, "{bytes:?}");
    }
    let mut kept = vec![1, 0x24, 0x80, 2];
    kept.resize(4 + 256, 0);
    assert_eq!(error(&kept), RecordError::Section, "too long to be kept");

    let mut decoder = HeaderDecoder::new(layout);
    let mut out = Vec::new();
    let restored = decoder.restore(&[1, 0x24, 3, 7, 8, 9], 5, &mut out).expect("a whole header");
    decoder.keep(&restored, 5, &out);
    let mut refusal = |section: &[u8], counter| decoder.restore(section, counter, &mut out).err();
    assert_eq!(refusal(&[1, 0], 6), None);
    assert_eq!(refusal(&[1, 0], 5), Some(Refusal::Missing), "in the same datagram");
    assert_eq!(refusal(&[1, 0], 4), Some(Refusal::Missing), "later than the section");
    assert_eq!(refusal(&[1, 1], 6), Some(Refusal::Missing), "never kept");
    let field = Some(Refusal::Record(RecordError::Section));
    assert_eq!(refusal(&[1, 0x40, 1, 2], 6), field, "a field that is not there");
    assert_eq!(refusal(&[1, 0x40, 0x80, 1, 2, 2, 0, 0], 6), field, "a piece past the end");
    assert_eq!(refusal(&[1, 0x40, 0x80, 1, 2, 1, 0], 6), None);
}

/// The datagrams of a run have the same section, whose header is restored once.
#[test]
fn an_equal_section_means_another_header_once_its_reference_has_changed() {
    let mut decoder = HeaderDecoder::new(layout);
    let mut restore = |section: &[u8], counter| {
        let mut out = Vec::new();
        let restored = decoder.restore(section, counter, &mut out).ok()?;
        decoder.keep(&restored, counter, &out);
        Some(out)
    };
    let changed = &[1, 0x40, 0x80, 1, 2, 1, 0];
    assert_eq!(restore(&[1, 0x24, 3, 7, 8, 9], 5).as_deref(), Some(&[7, 8, 9][..]));
    for counter in [7, 8, 6, 8] {
        assert_eq!(restore(changed, counter).as_deref(), Some(&[7, 8, 0][..]));
    }
    assert_eq!(restore(changed, 5), None, "before the reference");
    assert_eq!(restore(&[1, 0x24, 3, 4, 5, 6], 9).as_deref(), Some(&[4, 5, 6][..]));
    assert_eq!(restore(changed, 8), None, "the reference that it means is gone");
    assert_eq!(restore(changed, 10).as_deref(), Some(&[4, 5, 0][..]));
}
