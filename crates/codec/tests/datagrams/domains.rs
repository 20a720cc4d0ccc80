//! The lengths of a domain's frames depend neither on content of other domains nor on how much of it
//! there is.

use super::content::{Rng, noise, text};
use super::{Datagram, deal, encoder};
use oncewire_codec::datagram::{Class, DatagramEncoder, FrozenContext, Indexing, Limits};
use oncewire_codec::{Domain, Reach, Sharing};

const ATTACKER: Domain = Domain(1);
const VICTIM: Domain = Domain(2);
const LIMITS: Limits = Limits { segment: 300, room: 700, earlier: true };

/// Versions of some content, parts of it in another order, and a guess at a secret.
fn messages() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(3);
    let base = [text(1, 20_000), noise(1, 20_000)].concat();
    let mut messages = vec![base.clone()];
    for nth in 0..6 {
        let mut version = base.clone();
        version.iter_mut().skip(100 * nth).step_by(3000).for_each(|byte| *byte ^= 1);
        messages.push(version);
        let mut shuffled = Vec::new();
        for _ in 0..20 {
            let at = rng.below(base.len() - 1000);
            shuffled.extend_from_slice(&base[at..at + 50 + rng.below(900)]);
            shuffled.extend_from_slice(&noise(rng.next(), rng.below(30)));
        }
        messages.push(shuffled);
        messages.push(secret());
    }
    messages
}

fn secret() -> Vec<u8> {
    noise(77, 3000)
}

/// The lengths of the attacker's frames where the victim sends these between them.
fn view(policy: (Reach, Indexing), coded: bool, victim: &[Vec<u8>]) -> Vec<Vec<usize>> {
    let builder = encoder(32 << 20, 1 << 20).sharing(Sharing::None).table_entries(1 << 20);
    let mut encoder = builder.build_datagrams().unwrap();
    encoder.set_indexing(policy.1);
    if coded {
        encoder.set_context(0, Some(&FrozenContext::built_in()));
        encoder.use_context(Some(0));
    }
    let mut counter = 0;
    let mut send = |encoder: &mut DatagramEncoder, domain, run: &[u8]| -> Vec<Datagram> {
        encoder.enter(domain);
        deal(encoder, run, (Class::Unknown, policy.0), &LIMITS, &mut counter)
    };
    // More than one domain, whoever sends first.
    for domain in [98, 99] {
        send(&mut encoder, Domain(domain), &[b'x'; 10]);
    }
    let (messages, mut in_flight) = (messages(), Vec::new());
    let views = messages.iter().enumerate().map(|(nth, message)| {
        let seen = send(&mut encoder, ATTACKER, message);
        let other = &victim[nth % victim.len()];
        let others = other.chunks(60_000).flat_map(|run| send(&mut encoder, VICTIM, run));
        let others: Vec<Datagram> = others.collect();
        // While the attacker sends, the last message of the victim is in flight.
        for range in in_flight.drain(..) {
            encoder.acknowledge(range);
        }
        in_flight.extend(seen.iter().chain(&others).map(|datagram| datagram.range.clone()));
        seen.iter().map(|datagram| datagram.frame.len()).collect()
    });
    views.collect()
}

#[test]
fn frames_do_not_show_what_others_send_or_how_much() {
    // Always something: where others have sent nothing, its own messages are one piece.
    let victims: [Vec<Vec<u8>>; 4] = [
        vec![vec![1]],
        vec![secret(), messages().remove(0)],
        vec![noise(5, 70_000), text(5, 100), secret()],
        vec![text(6, 300_000), noise(6, 1000), vec![2]],
    ];
    for (policy, coded) in [
        ((Reach::Sent, Indexing::Immediate), false),
        ((Reach::Sent, Indexing::Acknowledged), false),
        ((Reach::Acknowledged, Indexing::Immediate), false),
        ((Reach::Acknowledged, Indexing::Acknowledged), false),
        ((Reach::Sent, Indexing::Immediate), true),
        ((Reach::Acknowledged, Indexing::Acknowledged), true),
    ] {
        let alone = view(policy, coded, &victims[0]);
        let bytes = |seen: &[Vec<usize>]| seen.iter().flatten().sum::<usize>();
        let sent: usize = messages().iter().map(Vec::len).sum();
        assert!(bytes(&alone) < sent / 2, "its own content is found: {} of {sent}", bytes(&alone));
        for (nth, victim) in victims.iter().enumerate() {
            let seen = view(policy, coded, victim);
            assert!(seen == alone, "{policy:?}, {coded}: victim {nth} is seen");
        }
    }
}
