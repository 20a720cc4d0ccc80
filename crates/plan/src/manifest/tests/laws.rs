//! Laws on random networks and shares.

use super::{
    transitions::{Play, successive},
    *,
};

use crate::{DeviceId, HeaderHash, PathId};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The pairs that stand for all have every place of parting that there is.
    #[test]
    fn some_pairs_stand_for_all(seed: u64, nodes in 2usize..12) {
        let mut random = Random::with_seed(seed);
        let instance = instance(nodes, &mut random);
        for ingress in 0..instance.ingresses.len() {
            let paths = instance.paths_of(ingress);
            let place = |p: usize, q: usize| {
                let (p, q) = (&instance.paths[p].hops, &instance.paths[q].hops);
                p.iter().zip(q).take_while(|(a, b)| a.device == b.device).count()
            };
            let all: BTreeSet<(usize, usize)> =
                paths.clone().flat_map(|p| paths.clone().map(move |q| (p, q))).map(|(p, q)| (q, place(p, q))).collect();
            let few = super::validate::partings(&instance, paths);
            prop_assert_eq!(few.iter().map(|&(p, q)| (q, place(p, q))).collect::<BTreeSet<_>>(), all);
            let places: usize = instance.paths_of(ingress).map(|q| instance.paths[q].hops.len() + 2).sum();
            prop_assert!(few.len() <= places, "{} pairs", few.len());
        }
    }

    /// The independent walk finds nothing wrong, and no path has another share than the solution's
    /// by more than what was dropped and rounded.
    #[test]
    fn a_plan_is_its_solution_in_whole_hashes(seed: u64, nodes in 2usize..9) {
        let (instance, solution, options, plan) = planned(seed, nodes);
        validate(&plan, &instance).unwrap();
        for (number, path) in plan.paths().iter().enumerate() {
            for (hop, &share) in solution.of_path(&instance, number).iter().enumerate() {
                let range = path.ranges.iter().find(|range| range.hop as usize == hop);
                let got = range.map_or(0.0, |range| (range.to - range.from) as f64 / SPACE as f64);
                let unit = 2.0 / SPACE as f64;
                let volume = instance.paths[number].volume;
                if let Some(range) = range {
                    prop_assert!((got - share).abs() <= unit, "{got} for {share}");
                    prop_assert!((range.to - range.from) as f64 >= options.smallest * SPACE as f64);
                } else {
                    // Too small a share, or a bucket of less than a byte (or of up to one more,
                    // where whole bytes of memory were shared).
                    prop_assert!(share <= options.smallest + unit || share * volume < 3.0, "{share} of {volume} dropped");
                }
            }
        }
    }

    /// Manifests say for each hash what the plan's definition says, at the ends of ranges too; and
    /// the compact overlap is the matrix's.
    #[test]
    fn manifests_agree_with_the_plain_definitions(seed: u64, nodes in 2usize..8) {
        let (instance, _, _, plan) = planned(seed, nodes);
        let mut random = Random::with_seed(!seed);
        let devices = plan.device_manifests();
        let ingresses = plan.ingress_manifests();
        for (number, path) in plan.paths().iter().enumerate() {
            let manifest = &ingresses[path.ingress as usize];
            for hash in hashes(path, &mut random) {
                // Ranges in on-path order (thesis, section 3.2): the first whose end lies behind
                // the hash.
                let holder = path.ranges.iter().find(|range| u64::from(hash) < range.to);
                let device = holder.map(|range| path.hops[range.hop as usize]);
                prop_assert_eq!(manifest.holder(path.id, hash), holder.map(|range| (range.hop, path.hops[range.hop as usize])));
                prop_assert_eq!(plan.path(path.id).unwrap().holder(hash), device);
                for (at, manifest) in DeviceId::all().zip(&devices) {
                    prop_assert_eq!(manifest.holds(path.id, hash), device == Some(at));
                }
            }
            for q in instance.paths_of(path.ingress as usize) {
                let (p, with) = (&instance.paths[number], &plan.paths()[q]);
                let common = p.hops.iter().zip(&instance.paths[q].hops).take_while(|(a, b)| a == b).count();
                let bound = with.ranges.iter().filter(|range| (range.hop as usize) < common).map(|range| range.to).max().unwrap_or(0);
                prop_assert_eq!(manifest.overlap(path.id, with.id), bound);
                for hash in hashes(with, &mut random) {
                    let lies_on_p = with.holder(hash).is_some_and(|device| p.hops.iter().any(|hop| hop.device == device));
                    prop_assert_eq!(manifest.may_encode(path.id, with.id, hash), lies_on_p);
                }
            }
            prop_assert_eq!(manifest.overlap(path.id, path.id), path.covered());
            prop_assert_eq!(manifest.overlap(path.id, PathId(u32::MAX)), 0);
        }
    }

    #[test]
    fn documents_come_back_as_they_went(seed: u64, nodes in 2usize..8) {
        let (_, _, _, plan) = planned(seed, nodes);
        prop_assert_eq!(&Plan::from_json(&plan.to_json()).unwrap(), &plan);
        for manifest in plan.device_manifests() {
            prop_assert_eq!(&DeviceManifest::from_json(&manifest.to_json()).unwrap(), &manifest);
        }
        for manifest in plan.ingress_manifests() {
            prop_assert_eq!(&IngressManifest::from_json(&manifest.to_json()).unwrap(), &manifest);
        }
    }

    /// Whatever becomes of a document: it is refused in a line, or what is read keeps the laws, and
    /// looking things up in it never panics.
    #[test]
    fn changed_documents_are_refused_or_sound(seed: u64, nodes in 2usize..6) {
        let (_, _, _, plan) = planned(seed, nodes);
        let mut random = Random::with_seed(!seed);
        let mut changed = |text: String| {
            let mut bytes = text.into_bytes();
            for _ in 0..=random.usize(..3) {
                let at = random.usize(..bytes.len());
                // Other digits keep most documents readable: those reach the checks behind the
                // parser.
                let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                let digit = digits[random.usize(..digits.len())];
                match random.usize(..8) {
                    0 => { bytes.remove(at); }
                    1 => bytes[at] = random.u64(..) as u8 & 127,
                    2 => bytes.insert(at, b"0123456789[]{},:\"-.e"[random.usize(..20)]),
                    3 => { bytes.truncate(at.max(1)); break }
                    _ => bytes[digit] = b'0' + random.usize(..10) as u8,
                }
            }
            String::from_utf8(bytes).unwrap_or_default()
        };
        for _ in 0..20 {
            match Plan::from_json(&changed(plan.to_json())) {
                Ok(read) => {
                    for manifest in read.ingress_manifests() {
                        for path in manifest.paths() {
                            prop_assert_eq!(manifest.overlap(path.id, path.id), read.path(path.id).unwrap().covered());
                        }
                    }
                    diff(&plan, &read).to_string();
                }
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
            let device = &plan.device_manifests();
            if let Some(device) = device.first()
                && let Ok(read) = DeviceManifest::from_json(&changed(device.to_json()))
            {
                for entry in read.entries() {
                    prop_assert!(read.holds(entry.path, HeaderHash(entry.from as u32)) && entry.to <= SPACE);
                }
            }
            if let Ok(read) = IngressManifest::from_json(&changed(plan.ingress_manifests()[0].to_json())) {
                for (p, q) in read.paths().iter().zip(read.paths().iter().rev()) {
                    let bound = read.overlap(p.id, q.id);
                    prop_assert!(bound == 0 || q.ranges.iter().any(|range| range.to == bound));
                    read.holder(q.id, HeaderHash(u32::MAX));
                }
            }
        }
    }

    /// A diff says, per device and path, what comparing the entries says; hashes that change hands
    /// are those that do.
    #[test]
    fn a_diff_is_the_difference(seed: u64, nodes in 2usize..7) {
        let (old, new) = successive(seed, nodes);
        let found = diff(&old, &new);
        let entries = |plan: &Plan| -> BTreeMap<(String, PathId), Entry> {
            let manifests = plan.device_manifests();
            manifests.iter().flat_map(|one| one.entries().iter().map(|entry| ((one.name().to_string(), entry.path), *entry))).collect()
        };
        let (mut before, after) = (entries(&old), entries(&new));
        let mut useless = 0;
        for device in &found.devices {
            prop_assert_eq!(device.useless, device.changes.iter().map(|change| change.useless).sum::<u64>());
            useless += device.useless;
            for change in &device.changes {
                let id = change.before.or(change.after).unwrap().path;
                let key = (device.name.clone(), id);
                prop_assert_eq!(before.get(&key).copied(), change.before);
                prop_assert_ne!(change.before, change.after);
                match change.after {
                    Some(entry) => before.insert(key, entry),
                    None => before.remove(&key),
                };
                let kind = match (change.before, change.after) {
                    (None, _) => Kind::Added,
                    (_, None) => Kind::Removed,
                    (Some(a), Some(b)) if a.from == b.from && a.to == b.to => Kind::Resized,
                    _ => Kind::Moved,
                };
                prop_assert_eq!(change.kind, kind);
            }
        }
        // The old entries with the changes applied are the new ones.
        prop_assert_eq!(before, after);
        prop_assert_eq!(found.totals.useless, useless);
        let (mut changed, mut all) = (0.0, 0.0);
        let ids: std::collections::BTreeSet<PathId> = old.paths().iter().chain(new.paths()).map(|path| path.id).collect();
        for id in ids {
            all += SPACE as f64;
            let ends: std::collections::BTreeSet<u64> =
                [&old, &new].into_iter().filter_map(|plan| plan.path(id)).flat_map(|path| &path.ranges).flat_map(|range| [range.from, range.to]).collect();
            let ends: Vec<u64> = ends.into_iter().collect();
            for pair in ends.windows(2) {
                let holder = |plan: &Plan| plan.path(id).and_then(|path| path.holder(HeaderHash(pair[0] as u32)));
                if holder(&old) != holder(&new) {
                    changed += (pair[1] - pair[0]) as f64;
                }
            }
        }
        prop_assert!((found.totals.hands - changed / all).abs() < 1e-12);
        prop_assert_eq!(diff(&old, &old).devices, vec![]);
        prop_assert_eq!(diff(&new, &new).totals.hands, 0.0);
    }

    /// Where nothing is under way, a transition allows what the overlap bound of the one plan
    /// allows, by the same holder.
    #[test]
    fn before_and_after_a_transition_the_bound_decides(seed: u64, nodes in 2usize..7) {
        let (old, new) = successive(seed, nodes);
        let change = Transition::new(old.clone(), new.clone()).unwrap();
        let mut random = Random::with_seed(!seed);
        let mut progress = Progress::new(old.devices().len());
        for (plan, state) in [(&old, State::Old), (&new, State::New)] {
            for device in DeviceId::first(old.devices().len()) {
                if state == State::New {
                    progress.acknowledge(device);
                    prop_assert!(progress.release(device));
                }
            }
            prop_assert!(progress.all(state));
            let manifests = plan.ingress_manifests();
            for p in plan.paths() {
                for q in plan.paths().iter().filter(|q| q.ingress == p.ingress) {
                    for hash in hashes(q, &mut random) {
                        // What only the other plan has is no copy here, though an unchanged bucket
                        // is both plans'.
                        let mut copies = change.copies(&progress, q.id, hash);
                        if state == State::Old { copies.new = None } else { copies.old = None }
                        let decoder = change.decoder(&progress, p.id, q.id, hash, copies);
                        let manifest = &manifests[p.ingress as usize];
                        prop_assert_eq!(decoder.is_some(), manifest.may_encode(p.id, q.id, hash));
                        if let Some(decoder) = decoder {
                            prop_assert_eq!(manifest.holder(q.id, hash), Some((decoder.hop, decoder.device)));
                        }
                        for device in DeviceId::first(plan.devices().len()) {
                            prop_assert_eq!(change.stores(device, state, q.id, hash), q.holder(hash) == Some(device));
                        }
                    }
                }
            }
        }
    }

    /// Any order of manifests, acknowledgments, releases and packets: what is allowed is decoded,
    /// and the device that was named has the packet.
    #[test]
    fn whatever_the_order_an_allowed_encoding_is_decoded(seed: u64, nodes in 2usize..9) {
        Play::new(seed, nodes).run(400);
    }
}
