//! Which flows bypass the content log: those that are recognized as encrypted, while they show
//! nothing else.
//!
//! Santos and Wetherall, section 3.1.1, select packets for the dictionary by such a classifier.
//! Theirs must decide alike at both ends; here a record says which content is in the log, so only the
//! sender classifies.
//!
//! Content that only looks random goes into the log: compressed files repeat. A flow whose protocol
//! says that it is encrypted does not repeat, and would only push other content out. It is tried
//! again now and then, because what a protocol claims may be wrong: a null cipher, or a replay.

use lru::LruCache;
use oncewire_codec::datagram::looks_compressible;
use std::num::NonZeroUsize;

/// Encrypted flows that are remembered; the least recently used one is forgotten. About 1 MiB.
const FLOWS: NonZeroUsize = NonZeroUsize::new(8192).unwrap();
/// Bytes of a flow that bypass the log before it is tried again, at first.
pub const FIRST_BYPASS: u64 = 1 << 20;
/// The same at most. It doubles with each trial that finds nothing.
pub const LONGEST_BYPASS: u64 = 64 << 20;
/// Bytes of a flow that go into the log in a trial.
pub const TRIAL: u64 = 64 << 10;
/// Bytes of a flow that was worth the log until it is judged again.
const JUDGED_AGAIN: u64 = 1 << 20;
/// A flow is worth the log if one byte in this many repeated or looked compressible. Random content
/// never repeats by chance.
const SHARE: u64 = 16;
/// Shorter content is not judged by its looks: [`looks_compressible`] would need more.
const JUDGEABLE: usize = 512;

/// Where the content of a packet or run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Into the content log, with references.
    Log,
    /// Past it.
    Bypass,
}

/// A flow that was recognized as encrypted.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Bypasses the log for `left` bytes more, of `span`.
    Bypassing {
        left: u64,
        span: u64,
    },
    Logged(Trial),
}

/// Content of a flow that goes into the log until there is enough to judge the flow.
#[derive(Clone, Copy, Debug)]
struct Trial {
    bytes: u64,
    /// Those of them that repeated or looked compressible.
    worth: u64,
    /// The bytes after which the flow is judged.
    until: u64,
    /// Length of the next bypass.
    bypass: u64,
    /// The first content that looks encrypted ends the trial: until then it was the handshake.
    is_first: bool,
}

impl State {
    const RECOGNIZED: State = State::Logged(Trial {
        bytes: 0,
        worth: 0,
        until: TRIAL,
        bypass: FIRST_BYPASS,
        is_first: true,
    });

    fn bypassing(span: u64) -> State {
        State::Bypassing { left: span, span }
    }

    /// What follows once the state has lasted long enough.
    fn next(self) -> State {
        match self {
            State::Bypassing { left: 0, span } => {
                let bypass = (2 * span).min(LONGEST_BYPASS);
                let trial = Trial { bytes: 0, worth: 0, until: TRIAL, bypass, is_first: false };
                State::Logged(trial)
            }
            State::Logged(trial) if trial.bytes >= trial.until => {
                if trial.worth < trial.bytes / SHARE {
                    return State::bypassing(trial.bypass);
                }
                let (until, bypass) = (JUDGED_AGAIN, FIRST_BYPASS);
                State::Logged(Trial { bytes: 0, worth: 0, until, bypass, is_first: false })
            }
            state => state,
        }
    }
}

/// Remembers which flows are encrypted. Memory is bounded, and work is constant for each call.
#[derive(Debug)]
pub struct Classifier {
    flows: LruCache<u64, State>,
}

impl Default for Classifier {
    fn default() -> Classifier {
        Classifier { flows: LruCache::new(FLOWS) }
    }
}

impl Classifier {
    /// Whether the packets of this flow must still be examined for signs of encryption.
    pub fn is_unknown(&self, flow: u64) -> bool {
        !self.flows.contains(&flow)
    }

    /// A packet shows that the flow with this key, a hash that outsiders cannot predict, is encrypted.
    pub fn recognized(&mut self, flow: u64) {
        if self.is_unknown(flow) {
            self.flows.push(flow, State::RECOGNIZED);
        }
    }

    /// Decides about the content of a packet or run of a flow.
    pub fn route(&mut self, flow: u64, content: &[u8]) -> Route {
        let Some(state) = self.flows.get_mut(&flow) else { return Route::Log };
        *state = state.next();
        let len = content.len() as u64;
        match state {
            State::Bypassing { left, .. } => {
                *left = left.saturating_sub(len);
                Route::Bypass
            }
            State::Logged(trial) => {
                let is_judgeable = content.len() >= JUDGEABLE;
                let is_compressible = is_judgeable && looks_compressible(content);
                if trial.is_first && is_judgeable && !is_compressible {
                    let span = trial.bypass;
                    *state = State::Bypassing { left: span.saturating_sub(len), span };
                    return Route::Bypass;
                }
                trial.bytes += len;
                if is_compressible {
                    trial.worth += len;
                }
                Route::Log
            }
        }
    }

    /// Reports that `bytes` of content of a flow that went into the log were found there. Content
    /// that is counted already as compressible may be reported, too.
    pub fn found(&mut self, flow: u64, bytes: u64) {
        if let Some(State::Logged(trial)) = self.flows.peek_mut(&flow) {
            trial.worth += bytes;
        }
    }

    /// Number of flows that are remembered.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether no flow is remembered.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        bytes
    }

    /// Sends a packet that shows its flow to be encrypted.
    fn shown(classifier: &mut Classifier, flow: u64, content: &[u8]) -> Route {
        classifier.recognized(flow);
        classifier.route(flow, content)
    }

    /// Sends `total` bytes of a flow in pieces, and returns how many went into the log. Of these,
    /// `found` percent repeat.
    fn send(classifier: &mut Classifier, flow: u64, piece: &[u8], total: u64, found: u64) -> u64 {
        let (mut sent, mut logged) = (0, 0);
        while sent < total {
            if classifier.route(flow, piece) == Route::Log {
                logged += piece.len() as u64;
                classifier.found(flow, piece.len() as u64 * found / 100);
            }
            sent += piece.len() as u64;
        }
        logged
    }

    #[test]
    fn a_flow_that_is_not_recognized_is_logged_whatever_it_looks_like() {
        let mut classifier = Classifier::default();
        let compressed = random(1, 16 << 10);
        assert_eq!(send(&mut classifier, 7, &compressed, 10 << 20, 0), 10 << 20);
        assert!(classifier.is_empty());
    }

    #[test]
    fn an_encrypted_flow_is_tried_again_after_1_2_4_and_64_mib() {
        let mut classifier = Classifier::default();
        let hello = vec![b'h'; 2000];
        assert_eq!(shown(&mut classifier, 7, &hello), Route::Log, "handshakes repeat");
        let piece = random(2, 16 << 10);
        assert_eq!(shown(&mut classifier, 7, &piece), Route::Bypass);
        // From now on only the flow is known; no packet shows that it is encrypted.
        let first = FIRST_BYPASS - piece.len() as u64;
        assert_eq!(send(&mut classifier, 7, &piece, first, 0), 0);
        for span in [2, 4, 8, 16, 32, 64, 64, 64] {
            assert_eq!(send(&mut classifier, 7, &piece, TRIAL, 0), TRIAL, "trial before {span}");
            assert_eq!(send(&mut classifier, 7, &piece, span << 20, 0), 0, "{span} MiB");
        }
    }

    #[test]
    fn a_flow_that_repeats_stays_in_the_log_while_it_does() {
        let mut classifier = Classifier::default();
        let piece = random(3, 4096);
        shown(&mut classifier, 7, &piece);
        send(&mut classifier, 7, &piece, FIRST_BYPASS - 4096, 0);
        assert_eq!(send(&mut classifier, 7, &piece, 20 << 20, 10), 20 << 20);
        // It stops repeating: bypassed from the next judgment on, 1 MiB at first.
        let logged = send(&mut classifier, 7, &piece, 4 << 20, 0);
        assert!((1..=JUDGED_AGAIN + TRIAL + TRIAL).contains(&logged), "{logged}");
    }

    #[test]
    fn readable_content_of_a_flow_that_claims_encryption_is_logged() {
        let mut classifier = Classifier::default();
        let text = b"a null cipher leaves content readable. ".repeat(40);
        assert_eq!(shown(&mut classifier, 9, &text), Route::Log);
        assert_eq!(send(&mut classifier, 9, &text, 5 << 20, 0).div_ceil(1 << 20), 6);
    }

    /// Their looks say nothing, so they are judged by what was found.
    #[test]
    fn short_packets_of_an_encrypted_flow_bypass_after_a_trial() {
        let mut classifier = Classifier::default();
        let voice = random(4, 200);
        shown(&mut classifier, 5, &voice);
        let logged = send(&mut classifier, 5, &voice, 1 << 20, 0);
        assert!((TRIAL - 200..TRIAL + 200).contains(&logged), "{logged}");
    }

    #[test]
    fn the_number_of_flows_is_bounded() {
        let mut classifier = Classifier::default();
        for flow in 0..3 * FLOWS.get() as u64 {
            shown(&mut classifier, flow, b"short");
        }
        assert_eq!(classifier.len(), FLOWS.get());
        assert!(classifier.is_unknown(0));
    }
}
