//! A chunk crosses domains only once several clients have sent it.

use crate::common::content::{Rng, noise};
use crate::sharing::Flows;
use oncewire_codec::{Domain, Stream};

/// Content that does not look compressed and does not repeat.
fn letters(seed: u64, len: usize) -> Vec<u8> {
    noise(seed, len).into_iter().map(|byte| b' ' + byte % 64).collect()
}

/// What each of several flows costs when they send the same content in turn, in parts of the first.
fn costs(streams: Vec<Stream>, content: &[u8]) -> Vec<f64> {
    let count = streams.len();
    let mut flows = Flows::new(streams);
    let sizes: Vec<usize> = (0..count).map(|flow| flows.send(flow, content)).collect();
    sizes.iter().map(|&size| size as f64 / sizes[0] as f64).collect()
}

#[test]
fn chunks_cross_domains_after_two_to_five_other_clients() {
    let content = letters(1, 700_000);
    let streams = (1..=8).map(|client| Stream::new(Domain(client))).collect();
    let costs = costs(streams, &content);
    for (cost, expected) in costs.iter().zip([1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0]) {
        assert!((cost - expected).abs() < 0.1, "{costs:?}");
    }
}

#[test]
fn names_of_one_client_count_as_one() {
    let content = letters(2, 300_000);
    let names = || (0..15).map(|name| Stream::of_client(Domain(100 + name), 1));
    let all_names = costs(names().collect(), &content);
    assert!(all_names.iter().all(|&cost| cost > 0.99), "{all_names:?}");
    // One other client is not enough, in either order.
    let other = || Stream::new(Domain(2));
    let streams = [other()].into_iter().chain(names()).chain([other()]).collect();
    let with_other = costs(streams, &content);
    let (last, before) = with_other.split_last().unwrap();
    assert!(before.iter().all(|&cost| cost > 0.99), "{before:?}");
    assert!(*last < 0.01, "its own content: {last}");
}

#[test]
fn flows_without_an_owner_count_as_nobody_and_find_nothing() {
    let content = letters(3, 150_000);
    let unknown = || (0..20).map(|nth| Stream::unshared(Domain(100 + nth)));
    let clients = || (1..=8).map(|client| Stream::new(Domain(client)));
    let first = costs(unknown().chain(clients().take(2)).collect(), &content);
    assert!(first.iter().all(|&cost| cost > 0.99), "{first:?}");
    let after = costs(clients().chain(unknown()).collect(), &content);
    assert!(after[7] < 0.05 && after[8..].iter().all(|&cost| cost > 0.99), "{after:?}");
}

/// A page that is known but for a code of a few digits, which lies beyond its header.
fn page(code: &str) -> Vec<u8> {
    let [before, after] = [4, 5].map(|seed| letters(seed, 12_000));
    [&before[..], code.as_bytes(), &after].concat()
}

/// Whether any of several clients of an attacker sees in the sizes what its victim has sent, under
/// a new name for each guess.
fn learns(clients: u64, key: u64, code: &str, other: &str) -> bool {
    let sizes = |secret: &str| {
        let mut flows = Flows::with_key(vec![Stream::new(Domain(1))], key);
        flows.send(0, &page(secret));
        let mut rng = Rng::new(key);
        let mut sizes = Vec::new();
        for guess in 0..60 {
            let wrong = format!("{:0width$}", 5000 + rng.below(4000), width = code.len());
            let guess = [code, other, &wrong][guess % 3];
            for client in 0..clients {
                let name = Domain(100 + sizes.len() as u64);
                let flow = flows.open(Stream::of_client(name, 10 + client));
                sizes.push(flows.send(flow, &page(guess)));
            }
        }
        sizes
    };
    sizes(code) != sizes(other)
}

#[test]
fn a_code_in_a_known_page_is_not_found_by_one_client_under_any_number_of_names() {
    let codes = [("4711", "0815"), ("71", "04"), ("123456", "654321"), ("4711", "12")];
    for (key, (code, other)) in (0..).zip(codes) {
        assert!(!learns(1, key, code, other), "{code}");
    }
    // The test would see it: who is several clients may learn.
    assert!((0..8).any(|key| learns(3, key, "4711", "0815")));
}

#[test]
fn senders_of_a_chunk_that_left_the_log_are_forgotten() {
    let content = letters(6, 300_000);
    let mut flows = Flows::new((1..=9).map(|client| Stream::new(Domain(client))).collect());
    let first = flows.send(0, &content);
    for flow in 1..5 {
        flows.send(flow, &content);
    }
    // More than the log holds.
    flows.send(8, &noise(7, 9 << 20));
    let again = flows.send(5, &content);
    assert!(again * 100 > first * 99, "{again} of {first}");
}
