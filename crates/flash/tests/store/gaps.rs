//! Content that could not be written or cannot be read: nothing else is lost with it.

use super::{History, Once, UNIT, check, created, full, key, open_log};
use oncewire_flash::device::{Fault, Operation};
use oncewire_flash::store::{AppendError, DiskLog, HeaderError};
use std::sync::Arc;

/// What could not be kept is skipped: power is cut around that everywhere, and what lies below and
/// above is right, or was not committed. Nothing of the gap reads as anything but zeros.
#[test]
fn a_skipped_range_costs_nothing_below_it() {
    let (before, after) = (5 * UNIT / 2, 6 * UNIT / 5);
    let gaps = [0, 1, UNIT / 3, UNIT, 3 * UNIT / 2, 2 * UNIT, 7 * UNIT / 2, 4 * UNIT, 90 * UNIT];
    let mut below = 0;
    for gap in gaps {
        let cipher = Arc::new(Once::default());
        let (device, mut log) = created(&cipher);
        let oracle = History::new(1).oracle;
        let first = device.steps();
        log.append(0, &oracle.bytes(0, before)).expect("appends");
        log.commit(b"one", 1).expect("commits");
        let begin = before + gap;
        log.skip(begin).expect("skips");
        assert_eq!(log.append(begin, b"x"), Err(AppendError::NeedsCommit));
        assert!(log.skip(begin - 1).is_err());
        log.commit(b"two", 2).expect("commits");
        log.append(begin, &oracle.bytes(begin, begin + after)).expect("appends");
        log.commit(b"three", 3).expect("commits");
        assert_eq!(log.fill().lost, gap);
        drop(log);
        for steps in first..=device.steps() {
            for choice in [0, u64::MAX, gap * 100 + steps as u64] {
                let mut log = open_log(&Arc::new(device.cut(steps, choice)), &cipher);
                let end = match log.owner_state() {
                    b"one" => before,
                    b"two" => begin,
                    b"three" => begin + after,
                    _ => 0,
                };
                let fill = log.fill();
                assert_eq!(fill.tail, end, "gap {gap}, {steps}");
                let mut read = |from: u64, to: u64| {
                    let mut bytes = vec![0; to.saturating_sub(from) as usize];
                    log.read(from, &mut bytes).map(|()| bytes)
                };
                let (low, top) = (fill.low, before.min(end));
                if low < top {
                    assert_eq!(read(low, top).ok(), Some(oracle.bytes(low, top)));
                    below += u64::from(end > before);
                }
                for unit in before.max(fill.low) / UNIT..begin.min(end).div_ceil(UNIT) {
                    let from = (unit * UNIT).max(before).max(fill.low);
                    let bytes = read(from, ((unit + 1) * UNIT).min(begin).min(end));
                    assert!(bytes.is_err() || bytes.is_ok_and(|all| all.iter().all(|b| *b == 0)));
                }
                if end > begin {
                    assert!(read(begin, end).is_ok_and(|all| all == oracle.bytes(begin, end)));
                }
            }
        }
    }
    assert!(below > 0, "no test had a gap above content");
}

/// A read that fails, whichever: the log is not opened, or is that of the commit before, or a unit or
/// a segment is lost until the medium has recovered. No other byte is ever read, and nothing is written.
#[test]
fn reads_that_fail_lose_no_more_than_they_say() {
    let cipher = Arc::new(Once::default());
    let (device, history) = full(&cipher, 5, 8);
    let steps = device.steps();
    let [.., before, last] = &history.commits[..] else { panic!("there were several") };
    let (mut refused, mut went_back, mut lost) = (0, 0, 0);
    for nth in 0..40 {
        let failing = Arc::new(device.cut(steps, u64::MAX));
        failing.fail(Operation::Read, nth, Fault::Io);
        let opened = DiskLog::open_on(Box::new(failing.clone()), cipher.clone(), &key());
        match opened {
            Err(HeaderError::Corrupt | HeaderError::Truncated | HeaderError::Foreign) => {
                refused += 1
            }
            Err(other) => panic!("{other}"),
            Ok(mut log) => {
                let is_last = log.owner_state() == last.1.state();
                let oracle = if is_last { &last.1 } else { &before.1 };
                went_back += u64::from(!is_last);
                assert_eq!(log.owner_state(), oracle.state());
                let gone = log.scrub(&mut |_| {});
                let fill = log.fill();
                if is_last {
                    lost += u64::from(!gone.is_empty());
                    let bytes: u64 = gone.iter().map(|range| range.end - range.start).sum();
                    assert!(bytes <= 2 * UNIT, "{gone:?}");
                }
                let mut from = fill.low;
                for (start, after) in
                    gone.iter().map(|range| (range.start, range.end)).chain([(fill.tail, 0)])
                {
                    let mut bytes = vec![0; (start - from) as usize];
                    // The fault comes once, perhaps only now; then it is over.
                    if log.read(from, &mut bytes).is_err() {
                        assert!(gone.is_empty() && is_last);
                        lost += 1;
                        log.read(from, &mut bytes).expect("it is readable again");
                    }
                    assert!(bytes == oracle.bytes(from, start), "another byte");
                    from = after;
                }
            }
        }
        assert!(failing.content() == device.cut(steps, u64::MAX).content(), "it was changed");
        // The medium has recovered.
        let recovered = Arc::new(failing.cut(failing.steps(), u64::MAX));
        check(&mut open_log(&recovered, &cipher), &last.1);
    }
    assert!(lost > 2 && went_back + refused > 0, "{refused} {went_back} {lost}");
}
