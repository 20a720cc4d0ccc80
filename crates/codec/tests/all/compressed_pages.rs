//! A compressed page tells another domain nothing about a secret in it, although the codes of its
//! blocks depend on the secret.

use crate::common::content::{noise, text};
use crate::deflated::{gzip, zstd};
use crate::sharing::Flows;
use oncewire_codec::{Domain, Stream};

const SECRETS: [&str; 9] = [
    "4711",
    "0815",
    "0000",
    "9876",
    "123456",
    "71",
    "3f9a07c1d2e4b586",
    "ZYXWVUTSRQPONMLK",
    "3f9a07c1d2e4b586c0ffee1234567890",
];

type Compress<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
const KINDS: [(&str, Compress<'_>); 6] = [
    ("plain", &|page| page.to_vec()),
    ("gzip -1", &|page| gzip(page, 1)),
    ("gzip -6", &|page| gzip(page, 6)),
    ("gzip -9", &|page| gzip(page, 9)),
    ("zstd -1", &|page| zstd(page, 1, usize::MAX)),
    ("zstd -3, flushed", &|page| zstd(page, 3, 20_000)),
];

/// What an attacker sees who sends each guess as another client, after `senders` clients have sent
/// the page with the secret.
fn view(
    page: &dyn Fn(&str) -> Vec<u8>,
    secret: &str,
    senders: u64,
    guesses: &[&str],
) -> Vec<usize> {
    let mut flows =
        Flows::new((0..senders).map(|victim| Stream::new(Domain(1 + victim))).collect());
    for victim in 0..senders as usize {
        flows.send(victim, &page(secret));
    }
    let guess = |(nth, guess): (usize, &&str)| {
        let flow = flows.open(Stream::new(Domain(1000 + nth as u64)));
        flows.send(flow, &page(guess))
    };
    guesses.iter().enumerate().map(guess).collect()
}

/// A page that is known but for a secret in it. Of a large one, at most 128 KiB lie behind that: the
/// blocks behind a secret begin elsewhere if it takes another number of tokens.
fn page(compress: Compress<'_>, len: usize, secret: &str) -> Vec<u8> {
    let after = (len / 2).min(100_000);
    let [before, after] = [(1, len - after), (2, after)].map(|(seed, len)| text(seed, len));
    // What comes first of a message is not shared anyway.
    let head = noise(3, 6000);
    [head, compress(&[&before, secret.as_bytes(), &after].concat())].concat()
}

#[test]
fn pages_of_one_sender_tell_nothing_to_any_guess() {
    for (name, compress) in KINDS {
        for len in [40_000, 400_000] {
            let page = |secret: &str| page(compress, len, secret);
            let views = SECRETS.map(|secret| view(&page, secret, 1, &SECRETS));
            assert!(views.iter().all(|view| *view == views[0]), "{name}, {len}: {views:?}");
        }
    }
}

#[test]
fn compressed_pages_of_any_number_of_senders_do_not_tell_the_class_of_a_secret() {
    for (name, compress) in KINDS.into_iter().skip(1) {
        for len in [40_000, 150_000, 1_500_000] {
            let page = |secret: &str| page(compress, len, secret);
            // Wrong guesses only: of large pages, the right one shows once six clients sent it.
            let [secrets, guesses] = [&SECRETS[..3], &SECRETS[3..]];
            let few = if len > 1_000_000 { 2 } else { 3 };
            let views: Vec<_> =
                secrets.iter().take(few).map(|secret| view(&page, secret, 6, guesses)).collect();
            assert!(views.iter().all(|view| *view == views[0]), "{name}, {len}: {views:?}");
        }
    }
}

#[test]
fn small_compressed_pages_are_not_shared_and_large_ones_are_but_for_their_ends() {
    for (name, compress) in KINDS.into_iter().skip(1) {
        let [small, large] =
            [40_000, 3_000_000].map(|len| page(compress, len, "the same for everybody"));
        for (page, most) in [(small, 1.01), (large, 0.5)] {
            let mut flows = Flows::new((0..8).map(|client| Stream::new(Domain(client))).collect());
            let costs: Vec<f64> =
                (0..8).map(|flow| flows.send(flow, &page) as f64 / page.len() as f64).collect();
            assert!(costs[..5].iter().all(|&cost| cost > 0.95), "{name}: {costs:?}");
            assert!(costs[7] < most && (most < 1.0 || costs[7] > 0.95), "{name}: {costs:?}");
            // The 128 KiB at both ends, and what the clients' ids have in common.
            let ends = 2.0 * 65_536.0 / page.len() as f64;
            assert!(most > 1.0 || costs[7] > ends, "{name}: {costs:?}");
        }
    }
}
