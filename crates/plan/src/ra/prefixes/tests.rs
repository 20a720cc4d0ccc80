//! Known assignments, and laws.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::{LinkId, Seconds, Unwatched, ra::profile::Member, testing};

/// From 0 to 3 and 4, by 1 and by 2; each way has a link of its own before that.
fn network() -> Network {
    let mut network =
        testing::directed(["0", "1", "2", "3", "4"], &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
    network.links[3].latency = 2.0;
    network
}

fn slice(weight: f64, first: u32) -> Slice {
    let way = [LinkId(first), LinkId(first + 2)];
    let paths = vec![(NodeId(3), way.to_vec()), (NodeId(4), [&way[..], &[LinkId(4)]].concat())];
    Slice { ingress: NodeId(0), weight, paths, prefixes: Vec::new() }
}

fn routes(weight: f64) -> Routes {
    Routes { slices: vec![slice(weight, 0), slice(1.0 - weight, 1)] }
}

fn prefix(number: u8) -> Prefix {
    Prefix::new(Ipv4Addr::new(10, number, 0, 0).into(), 16)
}

/// Bytes, and members (egress, source, 0 for none) with a copy each.
fn content(bytes: f64, members: &[(u32, u8)]) -> Content {
    let member = |&(egress, source): &(u32, u8)| Member {
        egress: NodeId(egress),
        prefix: (source > 0).then(|| prefix(source)),
        copies: 1.0,
    };
    Content { bytes, members: members.iter().map(member).collect() }
}

fn counted(content: Vec<Content>) -> Counted {
    Counted { interval: Seconds(1.0), ingresses: vec![(NodeId(0), content)] }
}

fn task<'a>(network: &'a Network, capacities: &'a [Option<f64>], threshold: f64) -> Task<'a> {
    Task {
        network,
        cost: Cost::Latency,
        eliminates: &[],
        capacities,
        load: true,
        limit: None,
        threshold,
    }
}

const WIDE: [Option<f64>; 5] = [Some(10.0), Some(10.0), None, None, None];

#[test]
fn prefixes_with_the_same_content_share_a_slice() {
    let network = network();
    // 1 and 2 share all they have, and so do 3 and 4; 5 has a little alone.
    let counted = counted(vec![
        content(3.0, &[(3, 1), (4, 2)]),
        content(3.0, &[(3, 3), (4, 4)]),
        content(0.1, &[(3, 5)]),
    ]);
    let mut routes = routes(0.5);
    let found =
        assign(&task(&network, &WIDE, THRESHOLD), &counted, &mut routes, &Unwatched).unwrap();
    let of = |slice: usize| -> Vec<String> {
        routes.slices[slice].prefixes.iter().map(Prefix::to_string).collect()
    };
    let both = ["0.0.0.0/0", "10.1.0.0/16", "10.2.0.0/16", "10.5.0.0/16", "::/0"];
    assert_eq!(
        (of(0), of(1)),
        (both.map(String::from).to_vec(), vec!["10.3.0.0/16".into(), "10.4.0.0/16".into()])
    );
    assert_eq!((found[0].prefixes, found[0].bundles), (5, 3));
    // The busiest link carries 3.1 of 10 bytes; apart, 1 and 2 would be 6 on each side.
    assert!((found[0].after.load - 0.31).abs() < 1e-12, "{found:?}");
    assert!((routes.slices[0].weight - 6.1 / 12.1).abs() < 1e-12);
}

#[test]
fn exchanges_repair_what_volumes_cannot_see() {
    let network = network();
    // By volume, 1 fills the first slice, and the others the second. But of the copies of 1, links
    // carry one.
    let single = |source: u8| content(1.0, &[(3 + u32::from(source) % 2, source)]);
    let counted =
        counted(vec![content(2.0, &[(3, 1), (4, 1)]), single(2), single(3), single(4), single(5)]);
    let mut routes = routes(0.5);
    let found = assign(&task(&network, &WIDE, 1.0), &counted, &mut routes, &Unwatched).unwrap();
    assert_eq!((found[0].before.load, found[0].after.load), (0.4, 0.3));
    assert!(found[0].exchanges > 0);
    // A bundle that fills more than a slice is opened.
    let together = [content(5.0, &[(3, 1), (3, 2)]), content(1.0, &[(3, 3)])];
    let (apart, threshold) = bundles(&together, &volumes(&together), 0.3, 6.0);
    assert_eq!((apart.len(), threshold), (3, 1.2));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each prefix is in one slice, weights add up to 1, exchanges never hurt, and the score is that
    /// of every member carried over its own slice's links.
    #[test]
    fn every_prefix_has_a_slice(
        content in prop::collection::vec((1..50_u32, prop::collection::btree_set((3..5_u32, 0..7_u8), 1..5)), 1..12),
        weight in 0.1..0.9,
        load: bool,
        threshold in prop_oneof![Just(THRESHOLD), Just(1.0)],
    ) {
        let network = network();
        let content: Vec<Content> = content.iter().map(|(bytes, members)| super::tests::content(f64::from(*bytes), &members.iter().copied().collect::<Vec<_>>())).collect();
        let counted = counted(content.clone());
        let task = Task { load, limit: (!load).then_some(1.0), ..task(&network, &WIDE, threshold) };
        let mut routes = routes(weight);
        let found = assign(&task, &counted, &mut routes, &Unwatched).unwrap()[0];
        prop_assert!(!found.before.beats(&found.after), "{found:?}");
        let sum: f64 = routes.slices.iter().map(|slice| slice.weight).sum();
        prop_assert!((sum - 1.0).abs() < 1e-9);
        let of = |source: Source| {
            let address = source.map_or(Ipv4Addr::new(9, 9, 9, 9), |prefix| match prefix.address {
                std::net::IpAddr::V4(address) => address,
                std::net::IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
            });
            // The longest match.
            let all = routes.slices.iter().enumerate().flat_map(|(at, slice)| slice.prefixes.iter().map(move |prefix| (prefix, at)));
            let found: Vec<_> = all.filter(|(prefix, _)| prefix.contains(address.into())).collect();
            found.iter().max_by_key(|(prefix, _)| prefix.length).map(|(_, at)| *at).unwrap()
        };
        let mut loads = [0.0; 5];
        for one in &content {
            for slice in 0..routes.slices.len() {
                let here = one.members.iter().filter(|member| of(member.prefix) == slice);
                let links: std::collections::BTreeSet<LinkId> = here.flat_map(|member| {
                    let paths = &routes.slices[slice].paths;
                    paths.iter().find(|path| path.0 == member.egress).unwrap().1.clone()
                }).collect();
                links.into_iter().for_each(|link| loads[link.index()] += one.bytes);
            }
        }
        let busiest = loads[0].max(loads[1]) / 10.0;
        let expected = if load { found.after.load } else { found.after.excess };
        let known = if load { busiest } else { (busiest - 1.0_f64).max(0.0) };
        prop_assert!((expected - known).abs() < 1e-9, "{expected} {known}");
        let footprint: f64 = loads.iter().zip(&network.links).map(|(load, link)| load * link.latency).sum();
        prop_assert!((footprint - found.after.footprint).abs() < 1e-9 * footprint);
    }
}
