//! The applications at both ends, which write and read flows at their own pace and check every
//! byte.

use super::{Job, World};
use crate::script::{MS, Time};
use oncewire_session::{FlowId, Read, ResetCode};

impl World {
    pub(super) fn flow_of(&self, end: usize, id: FlowId) -> Option<usize> {
        let session = self.ends[end].session.as_ref()?.id();
        self.names.get(&(session, id)).copied()
    }

    pub(super) fn due_write(&mut self, flow: usize, end: usize, gap: Time) {
        let half = &mut self.flows[flow].halves[end];
        if !std::mem::replace(&mut half.write_due, true) {
            let until = half.script.stalled_until;
            self.at((self.now + gap).max(until), Job::Write(flow, end));
        }
    }

    pub(super) fn due_read(&mut self, flow: usize, end: usize, gap: Time) {
        let half = &mut self.flows[flow].halves[1 - end];
        if !std::mem::replace(&mut half.read_due, true) {
            let until = half.script.stalled_until;
            self.at((self.now + gap).max(until), Job::Read(flow, end));
        }
    }

    /// The id of a flow that is still open at an end.
    pub(super) fn live(&self, flow: usize, end: usize) -> Option<FlowId> {
        let (session, id) = self.flows[flow].at?;
        let same = self.ends[end].session.as_ref().is_some_and(|mine| mine.id() == session);
        (same && !self.flows[flow].cut).then_some(id)
    }

    pub(super) fn open(&mut self, index: usize) {
        let now = self.instant();
        let opener = self.flows[index].opener;
        if self.flows[index].at.is_some() || self.flows[index].cut {
            return;
        }
        let filler = "x".repeat(self.dice.size(900));
        let target = format!("flow:{index}:{filler}");
        let domain = match index % self.domains {
            0 => String::new(),
            other => format!("domain {other}"),
        };
        let end = &mut self.ends[opener];
        let opened = end
            .session
            .as_mut()
            .map(|session| (session.open(target.as_bytes(), domain.as_bytes(), now), session.id()));
        match opened {
            Some((Ok(id), session)) => {
                self.say(|| format!("flow {index} is {id:?} of end {opener}"));
                self.flows[index].at = Some((session, id));
                self.names.insert((session, id), index);
                self.summary.flows += 1;
                self.due_write(index, opener, 0);
            }
            _ => self.after(300 * MS, Job::Open(index)),
        }
        self.settle(opener);
    }

    pub(super) fn write(&mut self, index: usize, end: usize) {
        self.flows[index].halves[end].write_due = false;
        let Some(id) = self.live(index, end) else { return };
        let peer_done = self.flows[index].halves[1 - end].end_seen;
        let half = &mut self.flows[index].halves[end];
        if half.finished || (half.script.after && !peer_done) {
            return;
        }
        let session = self.ends[end].session.as_mut().expect("the flow is live");
        let mut again = false;
        loop {
            let piece = half.script.piece.min(half.script.content.len() - half.written);
            if piece == 0 {
                // Some applications end without saying so.
                if index % 3 == 1 {
                    session.cut(id)
                } else {
                    session.finish(id)
                }
                half.finished = true;
                break;
            }
            let written = session.write(id, &half.script.content[half.written..][..piece]);
            half.written += written;
            if written < piece {
                // `Writable` follows, unless the flow was reset.
                break;
            }
            if half.script.write_gap > 0 {
                again = true;
                break;
            }
        }
        let gap = half.script.write_gap;
        if again {
            self.due_write(index, end, gap);
        }
        self.settle(end);
    }

    pub(super) fn read(&mut self, index: usize, end: usize) {
        self.flows[index].halves[1 - end].read_due = false;
        let Some(id) = self.live(index, end) else { return };
        let now = self.instant();
        loop {
            let session = self.ends[end].session.as_mut().expect("the flow is live");
            let reset = self.flows[index].reset.is_some();
            let half = &mut self.flows[index].halves[1 - end];
            match session.read(id) {
                Read::Data(bytes) => {
                    assert!(!half.end_seen, "bytes after the end");
                    let expected =
                        half.script.content[..half.written].get(half.got..half.got + bytes.len());
                    assert!(
                        expected == Some(&bytes[..]),
                        "flow {index}: wrong bytes at {} at end {end}",
                        half.got
                    );
                    half.got += bytes.len();
                    if half.script.read_gap > 0 {
                        let (gap, len) = (half.script.read_gap, bytes.len());
                        // The application consumes them in two parts.
                        let first = self.dice.below(len + 1);
                        self.after(gap / 2, Job::Consumed(index, end, first));
                        self.after(gap, Job::Consumed(index, end, len - first));
                        self.due_read(index, end, gap);
                        break;
                    }
                    half.consumed += bytes.len();
                    session.consumed(id, bytes.len(), now);
                }
                read @ (Read::Finished | Read::Cut) => {
                    assert_eq!(read == Read::Cut, index % 3 == 1, "another end");
                    assert!(half.finished && half.got == half.script.content.len(), "an early end");
                    let first = !std::mem::replace(&mut half.end_seen, true);
                    if first && self.flows[index].halves[end].script.after {
                        self.due_write(index, end, 0);
                    }
                    break;
                }
                Read::Nothing => break,
                Read::Gone => {
                    assert!(reset || half.end_seen, "a flow is gone");
                    break;
                }
            }
        }
        self.settle(end);
    }

    pub(super) fn consumed(&mut self, index: usize, end: usize, len: usize) {
        let Some(id) = self.live(index, end) else { return };
        let now = self.instant();
        let half = &mut self.flows[index].halves[1 - end];
        half.consumed += len;
        if half.consumed <= half.got {
            self.ends[end].session.as_mut().expect("the flow is live").consumed(id, len, now);
        }
        self.settle(end);
    }

    pub(super) fn reset(&mut self, index: usize, end: usize) {
        let Some(id) = self.live(index, end) else { return };
        let flow = &mut self.flows[index];
        if (end != flow.opener && !flow.arrived)
            || flow.reset.is_some()
            || flow.halves.iter().all(|half| half.end_seen)
        {
            return;
        }
        self.say(|| format!("end {end} resets flow {index}"));
        self.flows[index].reset = Some((end, ResetCode::TimedOut));
        self.ends[end].session.as_mut().expect("the flow is live").reset(id, ResetCode::TimedOut);
        self.settle(end);
    }
}
