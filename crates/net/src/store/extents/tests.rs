use super::*;
use proptest::prelude::*;

/// A log in which each byte knows where it lies.
#[derive(Default)]
struct Naive {
    /// Address of each byte, and whether it was written there.
    bytes: Vec<(u64, bool)>,
}

impl Naive {
    fn written(&self, offset: usize) -> u64 {
        self.bytes[..offset].iter().filter(|(_, is_written)| *is_written).count() as u64
    }

    fn check(&self, extents: &Extents, low: usize) {
        for at in low..=self.bytes.len() {
            let offset = at as u64;
            assert_eq!(extents.address(offset), self.written(at), "address of {at}");
            let Some((address, _)) = self.bytes.get(at) else { continue };
            let (found, len) = extents.find(offset);
            assert_eq!(found, *address, "byte {at}");
            let run = self.bytes[at..].iter().take(usize::try_from(len).unwrap_or(usize::MAX));
            for (nth, (address, _)) in run.enumerate() {
                assert_eq!(*address, found + nth as u64, "byte {at} + {nth}");
            }
        }
        let parts = extents.parts(low as u64..self.bytes.len() as u64);
        let all: Vec<u64> = parts.flat_map(|(at, len)| at..at + len).collect();
        assert!(all.iter().eq(self.bytes[low..].iter().map(|(address, _)| address)));
        let end = self.bytes.len();
        for address in self.written(low)..=self.written(end) {
            let lowest = (low..=end).find(|&offset| self.written(offset) >= address);
            assert_eq!(extents.offset(address), lowest.unwrap_or(end) as u64, "address {address}");
            let gone = extents.overwritten(0..address);
            let gone: Vec<u64> = gone.into_iter().flatten().collect();
            let is_gone = |(at, (place, is_written)): (usize, &(u64, bool))| {
                (at >= low && !is_written && *place < address).then_some(at as u64)
            };
            let expected: Vec<u64> = self.bytes.iter().enumerate().filter_map(is_gone).collect();
            let kept = gone.into_iter().filter(|&offset| offset >= low as u64);
            assert_eq!(kept.collect::<Vec<_>>(), expected, "below address {address}");
        }
        let numbers: Vec<u64> = extents.numbers().collect();
        let triples: Vec<[u64; 3]> =
            numbers.chunks_exact(3).map(|three| [three[0], three[1], three[2]]).collect();
        let read = Extents::read(extents.base(), &triples, end as u64);
        assert_eq!(read.as_ref(), Some(extents));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    /// A stretch repeats what begins this far back.
    Repeat(usize, usize),
    Rewind(usize),
    Trim(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..20usize).prop_map(Step::Write),
        4 => (1..60usize, 1..20usize).prop_map(|(back, len)| Step::Repeat(back, len)),
        1 => (0..30usize).prop_map(Step::Rewind),
        1 => (0..40u64).prop_map(Step::Trim),
    ]
}

proptest! {
    #[test]
    fn extents_lead_where_each_byte_lies(steps in prop::collection::vec(step(), 1..40)) {
        let (mut extents, mut naive, mut low) = (Extents::default(), Naive::default(), 0);
        for step in steps {
            let end = naive.bytes.len();
            match step {
                Step::Write(len) => {
                    let written = naive.written(end);
                    naive.bytes.extend((written..written + len as u64).map(|at| (at, true)));
                }
                Step::Repeat(back, len) => {
                    let from = end.saturating_sub(back).max(low);
                    let to = (from + len).min(end);
                    let parts: Vec<_> = extents.parts(from as u64..to as u64).collect();
                    for (source, len) in parts {
                        let offset = naive.bytes.len() as u64;
                        let count = extents.len();
                        let goes_on = extents.goes_on(offset, source);
                        extents.push(offset, len, source);
                        prop_assert_eq!(extents.len(), count + usize::from(!goes_on));
                        naive.bytes.extend((source..source + len).map(|at| (at, false)));
                    }
                }
                Step::Rewind(back) => {
                    let to = end.saturating_sub(back).max(low);
                    naive.bytes.truncate(to);
                    extents.rewind(to as u64);
                }
                Step::Trim(more) => {
                    let address = naive.written(end).min(naive.written(low) + more);
                    low = low.max(extents.offset(address) as usize);
                    extents.trim(low as u64);
                }
            }
            naive.check(&extents, low);
        }
    }
}

#[test]
fn numbers_that_contradict_themselves_are_refused() {
    let good = [[100, 50, 10], [200, 20, 90]];
    let read = |base, extents: &[[u64; 3]], end| Extents::read(base, extents, end);
    assert!(read(0, &good, 220).is_some());
    assert!(read(0, &good, 219).is_none(), "above the end");
    assert!(read(0, &[[100, 50, 51]], 220).is_none(), "above its own address");
    assert!(read(60, &[[100, 50, 0]], 220).is_none(), "the same, with fewer written");
    assert!(read(0, &[good[1], good[0]], 220).is_none(), "out of order");
    assert!(read(0, &[good[0], [149, 20, 10]], 220).is_none(), "overlap");
    assert!(read(0, &[[100, 0, 10]], 220).is_none(), "empty");
    assert!(read(221, &[], 220).is_none(), "more than the log has");
    for at in 0..3 {
        let mut huge = good;
        huge[1][at] = u64::MAX - 5;
        assert!(read(0, &huge, u64::MAX).is_none(), "{at}");
    }
    let many: Vec<_> = (1..=MOST_EXTENTS as u64 + 1).map(|nth| [100 * nth, 10, 0]).collect();
    assert!(read(0, &many, 1 << 40).is_none() && read(0, &many[1..], 1 << 40).is_some());
}
