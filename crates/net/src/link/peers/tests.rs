use super::*;
use crate::keys::SecretKey;
use std::collections::BTreeSet;

#[test]
fn an_association_goes_on_only_if_both_ends_name_it() {
    let keys = Keys::default();
    assert_eq!(keys.association(), [0; 16]);
    let matching = Matching { cache: 0, policy: Policy::Acked, sharing: Sharing::None };
    let new = || Association::new(1400, &matching, 1);
    let begin = |named, exported| keys.associate(named, exported, 1400, new).1;
    let first = begin([[0; 16]; 2], [1; 16]);
    assert_eq!(keys.association(), [1; 16]);
    first.forged.store(5, Relaxed);
    assert!(Arc::ptr_eq(&first, &begin([[1; 16]; 2], [2; 16])));
    for (ours, theirs) in [([1; 16], [0; 16]), ([0; 16], [1; 16]), ([1; 16], [9; 16])] {
        let held = begin([keys.association(); 2], [0; 16]);
        let begun = begin([ours, theirs], [1; 16]);
        assert!(!Arc::ptr_eq(&held, &begun));
    }
    // This end has begun another one since it said HELLO.
    let held = begin([[1; 16]; 2], [0; 16]);
    assert!(!Arc::ptr_eq(&held, &begin([[7; 16]; 2], [3; 16])));
    assert_eq!((keys.association(), keys.traffic().forged), ([3; 16], 5));
}

#[test]
fn the_oldest_keys_go_but_never_those_in_use() {
    let (mut opening, mut gone) = (Vec::new(), Vec::new());
    let mut sealing = None;
    for nth in 0..100 {
        opening.push(Arc::new(nth));
        gone.extend(surplus(&mut opening, sealing.as_ref()).iter().map(|keyed| **keyed));
        assert!(opening.len() <= MOST_KEYS);
        if nth == 5 {
            sealing = opening.last().cloned();
        }
    }
    assert!(opening.iter().any(|keyed| **keyed == 5));
    let expected: Vec<_> = (0..=84).filter(|&nth| nth != 5).collect();
    assert_eq!(gone, expected);
}

/// Two connections, one of each end's, become ready in any order at each end: both ends use the
/// same one in the end. And the newer one, if the first is old or of the same client.
#[test]
fn both_ends_choose_the_same_connection() {
    let now = Duration::ZERO;
    for first_at_lower in [true, false] {
        for first_at_higher in [true, false] {
            // Connections are named by whether the lower end is the client.
            let chosen = |first: bool, has_lower_key: bool| {
                let is_client = |connection: bool| connection == has_lower_key;
                let keeps = stays((is_client(first), now), is_client(!first), has_lower_key);
                if keeps { first } else { !first }
            };
            assert!(chosen(first_at_lower, true) && chosen(first_at_higher, false));
        }
    }
    for (is_client, newer, lower) in [(true, true, true), (false, false, false)] {
        assert!(!stays((is_client, now), newer, lower));
    }
    assert!(stays((true, now), false, true) && !stays((true, SAME_TIME), false, true));
}

fn key() -> PublicKey {
    SecretKey::generate().unwrap().public()
}

fn peers(networks: &[&[&str]]) -> Vec<PeerConfig> {
    let peer = |(at, networks): (usize, &&[&str])| PeerConfig {
        peer: Name { name: Some(format!("site-{at}")), ..Name::from(key()) },
        address: None,
        allowed: networks.iter().map(|net| net.parse().unwrap()).collect(),
    };
    networks.iter().enumerate().map(peer).collect()
}

fn problem(networks: &[&[&str]]) -> String {
    Routes::new(&key(), &peers(networks))
        .map(drop)
        .map_or_else(|why| why.to_string(), |()| "none".into())
}

#[test]
fn peers_are_found_by_network() {
    let peers = peers(&[
        &["10.1.0.0/16", "10.1.2.0/24", "fd01::/64"],
        &["10.2.0.77/16"],
        &["10.3.0.1/32", "0.0.0.0/8"],
    ]);
    let routes = Routes::new(&key(), &peers).unwrap();
    for (address, peer) in [
        ("10.1.2.3", Some(0)),
        ("fd01::7", Some(0)),
        ("10.2.255.255", Some(1)),
        ("10.3.0.1", Some(2)),
        ("0.1.2.3", Some(2)),
        ("10.3.0.2", None),
        ("fd02::1", None),
        ("::ffff:10.1.2.3", None),
    ] {
        assert_eq!(routes.peer_of(address.parse().unwrap()), peer, "{address}");
    }
}

#[test]
fn peers_that_do_not_go_together_are_named() {
    assert_eq!(problem(&[]), "a link needs a peer");
    assert_eq!(problem(&[&["::/0", "0.0.0.0/0"]]), "none");
    assert_eq!(problem(&[&["::/0"], &["0.0.0.0/0"]]), "none");
    assert_eq!(problem(&[&["10.0.0.0/16"], &[]]), "no network is behind site-1");
    assert_eq!(
        problem(&[&["10.1.0.0/16"], &["10.0.0.0/16", "10.1.2.0/24"]]),
        "10.1.2.0/24 behind site-1 overlaps 10.1.0.0/16 behind site-0"
    );
    assert_eq!(
        problem(&[&["10.1.2.3/32"], &["10.0.0.0/8"]]),
        "10.0.0.0/8 behind site-1 overlaps 10.1.2.3/32 behind site-0"
    );
    assert_eq!(
        problem(&[&["fd00::/8"], &["fd00::/8"]]),
        "fd00::/8 behind site-1 overlaps fd00::/8 behind site-0"
    );
    let mut same = peers(&[&["10.1.0.0/16"], &["10.2.0.0/16"]]);
    assert_eq!(
        Routes::new(&same[1].peer.key, &same).unwrap_err().to_string(),
        "the key of site-1 is this end's own; give that of the other end"
    );
    same[1].peer.key = same[0].peer.key;
    assert_eq!(Routes::new(&key(), &same).unwrap_err().to_string(), "site-1 has the key of site-0");
    let many: Vec<[String; 1]> =
        (0..=MAX_PEERS).map(|at| [format!("10.{}.{}.0/24", at / 256, at % 256)]).collect();
    let many: Vec<Vec<&str>> = many.iter().map(|nets| vec![nets[0].as_str()]).collect();
    let many: Vec<&[&str]> = many.iter().map(Vec::as_slice).collect();
    assert_eq!(problem(&many), "1025 peers, more than 1024");
    assert_eq!(problem(&many[1..]), "none");
}

proptest::proptest! {
    /// Beside a comparison of all pairs, and a search of all networks.
    #[test]
    fn as_all_pairs(networks in proptest::collection::vec(proptest::collection::vec((0u8..4, 0u8..4, 6u8..=24), 1..4), 1..5), addresses in proptest::collection::vec((0u8..4, 0u8..4), 8)) {
        let networks: Vec<Vec<IpNet>> = networks
            .iter()
            .map(|nets| nets.iter().map(|&(a, b, len)| IpNet::new([a, b, 0, 0].into(), len).unwrap().trunc()).collect())
            .collect();
        let mut peers = peers(&vec![&[] as &[&str]; networks.len()]);
        for (peer, nets) in peers.iter_mut().zip(&networks) {
            peer.allowed.clone_from(nets);
        }
        let overlaps = (0..networks.len()).any(|a| (0..a).any(|b| {
            networks[a].iter().any(|net| networks[b].iter().any(|other| net.contains(other) || other.contains(net)))
        }));
        let routes = Routes::new(&key(), &peers);
        proptest::prop_assert_eq!(routes.is_err(), overlaps);
        if let Ok(routes) = routes {
            for (a, b) in addresses {
                let address = IpAddr::from([a, b, 1, 1]);
                let owners: BTreeSet<usize> = (0..networks.len()).filter(|&at| networks[at].iter().any(|net| net.contains(&address))).collect();
                proptest::prop_assert_eq!(routes.peer_of(address), owners.first().copied());
            }
        }
    }
}
