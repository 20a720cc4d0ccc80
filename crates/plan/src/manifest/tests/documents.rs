//! Documents and errors.

use super::*;

use crate::{LinkId, PathId, network::Link};

#[test]
fn the_documents_in_the_documentation_are_these() {
    let (instance, solution) = example();
    let plan =
        Plan::new(&instance, &solution, &Options { version: 3, ..Options::default() }).unwrap();
    validate(&plan, &instance).unwrap();
    // Read, not included: the package must compile without it.
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PLANNERS.md"))
            .unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Manifests")).unwrap();
    let documents: Vec<&str> =
        section.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let device = &plan.device_manifests()[0];
    let ingress = &plan.ingress_manifests()[0];
    let written = [plan.to_json(), device.to_json(), ingress.to_json()];
    assert_eq!(documents.len(), written.len(), "{written:#?}");
    for (document, written) in documents.iter().zip(&written) {
        assert_eq!(plain(document), plain(written));
    }
    assert_eq!(&Plan::from_json(documents[0]).unwrap(), &plan);
    assert_eq!(&DeviceManifest::from_json(documents[1]).unwrap(), device);
    assert_eq!(&IngressManifest::from_json(documents[2]).unwrap(), ingress);
    // What the text says of them.
    assert_eq!(
        [(0, 1), (1, 0)].map(|(p, q)| ingress.overlap(PathId(p), PathId(q))),
        [2147483648, 858993459]
    );
}

// More than 100 lines: a table of cases.
#[test]
fn bad_documents_are_refused_in_words() {
    let (instance, solution) = example();
    let plan =
        Plan::new(&instance, &solution, &Options { version: 3, ..Options::default() }).unwrap();
    let (whole, device) = (plan.to_json(), plan.device_manifests()[0].to_json());
    let ingress = plan.ingress_manifests()[0].to_json();
    let cases: &[(&str, &str, &str)] = &[
        (r#""format":1"#, r#""format":2"#, "format 2; this program reads format 1"),
        ("oncewire-header-1", "md5", "for the header hash \"md5\""),
        (
            r#""version":3"#,
            r#""version":9007199254740992"#,
            "version 9007199254740992; the most is",
        ),
        (r#""version":3"#, r#""version":-3"#, "invalid value: integer `-3`"),
        (r#""version":3"#, r#""version":3,"colour":1"#, "unknown field `colour`"),
        (r#""version":3,"#, "", "missing field `version`"),
        (
            r#""network":"example""#,
            r#""network":"a\nb""#,
            "a name with control characters: \"a\\nb\"",
        ),
        (r#""version":3"#, r#""version":3,"a\u001b\n":1"#, "unknown field `a  `"),
        (r#""memory":6000000000"#, r#""memory":5"#, "take"),
    ];
    for document in [&whole, &device] {
        for (from, to, expected) in cases {
            let changed = document.replacen(from, to, 1);
            assert_ne!(&changed, document);
            let error = if document == &whole {
                message(Plan::from_json(&changed))
            } else {
                message(DeviceManifest::from_json(&changed))
            };
            assert!(error.contains(expected), "{error} instead of {expected}");
        }
    }
    let of_plan: &[(&str, &str, &str)] = &[
        (r#""hops":[0,3]"#, r#""hops":[0,9]"#, "path 1 crosses device 9, but there are 4"),
        (r#""hops":[0,3]"#, r#""hops":[0,0]"#, "comes to device 0 twice"),
        (r#""hops":[0,3]"#, r#""hops":[3,0]"#, "come to device 0 by different ways"),
        (r#""path":1"#, r#""path":0"#, "two paths have the id 0"),
        (r#""egress":"R4""#, r#""egress":"R3""#, "two paths from I to R3"),
        (r#"[2,2576980378,"#, r#"[2,4294967297,"#, "path 0 has a range to 4294967297"),
        (r#"[2,2576980378,"#, r#"[2,1,"#, "path 0 has an empty range"),
        (r#"[2,2576980378,"#, r#"[1,2576980378,"#, "not in the order of its devices"),
        (r#"[2,2576980378,"#, r#"[3,2576980378,"#, "not in the order of its devices"),
        (r#"[2,2576980378,100000000]"#, r#"[2,2576980378,0]"#, "a bucket of 0 bytes"),
        (
            r#"[2,2576980378,100000000]"#,
            r#"[2,2576980378,9007199254740992]"#,
            "a bucket of 9007199254740992 bytes",
        ),
        (r#""name":"R1 -> R2""#, r#""name":"I -> R1""#, "two devices have the name"),
        (r#""ingress":0"#, r#""ingress":1"#, "path 0 enters at ingress 1, but there are 1"),
        (r#""memory":3000000000"#, r#""memory":3"#, "the buckets of I take"),
        (r#""epoch":10.0"#, r#""epoch":-1.0"#, "epoch is -1"),
    ];
    for (from, to, expected) in of_plan {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(changed, whole, "{from}");
        let error = message(Plan::from_json(&changed));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let of_device: &[(&str, &str, &str)] = &[
        ("[1,0,", "[0,0,", "path 0 comes twice or out of order"),
        ("[1,0,2147483648,", "[1,5,5,", "empty range"),
        ("[1,0,2147483648,", "[1,0,4294967297,", "range to 4294967297"),
        ("[1,0,", "[1,", "invalid length 3"),
    ];
    for (from, to, expected) in of_device {
        let changed = device.replacen(from, to, 1);
        assert_ne!(changed, device, "{from}");
        let error = message(DeviceManifest::from_json(&changed));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let of_ingress: &[(&str, &str, &str)] = &[
        (
            r#""tree":[[0,0],"#,
            r#""tree":[[1,0],"#,
            "place 1 of the tree comes before its parent, 1",
        ),
        (r#""tree":[[0,0],[1,1]"#, r#""tree":[[0,0],[1,0]"#, "device 0 is in the tree twice"),
        (r#""leaf":4"#, r#""leaf":5"#, "path 1 ends at place 5 of the tree, which has 4"),
        (r#""leaf":4"#, r#""leaf":3"#, "a range at place 4 of the tree, out of order or not on it"),
        (r#""path":1"#, r#""path":0"#, "path 0 comes twice or out of order"),
        (r#""egress":"R4""#, r#""egress":"R3""#, "two paths from I to R3"),
    ];
    for (from, to, expected) in of_ingress {
        let changed = ingress.replacen(from, to, 1);
        assert_ne!(changed, ingress, "{from}");
        let error = message(IngressManifest::from_json(&changed));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let chain: Vec<String> = (0..=MAX_HOPS).map(|at| format!("[{at},{at}]")).collect();
    let deep = format!(
        r#"{{"format":1,"version":1,"network":"","hash":"{HASH}","ingress":0,"name":"","memory":null,"tree":[{}],"paths":[]}}"#,
        chain.join(",")
    );
    assert!(message(IngressManifest::from_json(&deep)).contains("more than 255 devices"));
    let long = device.replacen("I -> R1", &"x".repeat(MAX_NAME + 1), 1);
    assert!(message(DeviceManifest::from_json(&long)).contains("a name that is too long: \"xxx"));
    assert!(
        message(DeviceManifest::from_json(&device.replacen("device", &"x".repeat(5000), 1))).len()
            < 400
    );
    assert!(message(Plan::from_json(&"[".repeat(1 << 20))).contains("not a plan"));
    assert!(message(Plan::from_json(&" ".repeat(MAX_DOCUMENT + 1))).contains("the most is"));
}

#[test]
fn bad_solutions_are_refused_in_words() {
    let (instance, good) = example();
    let with = |cached: &[f64]| Solution { cached: cached.to_vec(), ..good.clone() };
    let new = |solution: &Solution| Plan::new(&instance, solution, &Options::default());
    assert!(
        message(new(&with(&[0.1]))).contains("the solution has 1 shares, the paths have 5 hops")
    );
    assert!(message(new(&with(&[f64::NAN, 0.0, 0.0, 0.0, 0.0]))).contains("NaN of path 0"));
    assert!(message(new(&with(&[0.0, -0.1, 0.0, 0.0, 0.0]))).contains("-0.1 of path 0"));
    assert!(
        message(new(&with(&[0.5, 0.3, 0.3, 0.0, 0.0]))).contains("path 0; it can be at most 1")
    );
    assert!(
        message(Plan::new(&instance, &good, &Options { headroom: 0.5, ..Options::default() }))
            .contains("a headroom of 0.5")
    );
    assert!(
        message(Plan::new(&instance, &good, &Options { smallest: f64::NAN, ..Options::default() }))
            .contains("a smallest share of NaN")
    );
    let mut full = instance.clone();
    full.devices[0].memory = 1e9;
    assert!(
        message(Plan::new(&full, &good, &Options::default()))
            .contains("I -> R1 cache 1200000000 bytes, but it has room for 1000000000")
    );
    let mut full = instance.clone();
    full.ingresses[0].memory = 1e9;
    assert!(
        message(Plan::new(&full, &good, &Options::default()))
            .contains("the ingress I cache 2100000000 bytes")
    );
    // A solver's rounding is no fault.
    assert_eq!(
        new(&with(&[0.2, 0.8 + 1e-9, -1e-9, 0.5, 0.25])).unwrap().paths()[0].covered(),
        SPACE
    );
    // Where memory is short, headroom gives way.
    let mut snug = instance.clone();
    snug.devices[0].memory = 1.5e9;
    let plan = Plan::new(&snug, &good, &Options { headroom: 1.4, ..Options::default() }).unwrap();
    let bytes: Vec<u64> = plan.device_manifests().iter().map(DeviceManifest::bytes).collect();
    assert!((1_499_999_990..=1_500_000_000).contains(&bytes[0]), "{bytes:?}");
    assert_eq!(bytes[1..], [420_000_000, 140_000_000, 700_000_000]);
}

/// A fault anywhere in a plan is found by the walk.
#[test]
fn the_walk_finds_what_is_wrong() {
    let (instance, solution) = example();
    let plan = Plan::new(&instance, &solution, &Options::default()).unwrap();
    type Fault = fn(&mut Plan, &mut Instance);
    let faults: &[(Fault, &str)] = &[
        (|plan, _| plan.paths[0].ranges[1].from += 1, "where one from"),
        (|plan, _| plan.paths[0].ranges[1].from -= 1, "where one from"),
        (|plan, _| plan.paths[0].ranges.swap(0, 1), "have different buckets"),
        (|plan, _| plan.paths[0].ranges[1].hop = 0, "out of order"),
        (|plan, _| plan.paths[0].hops.swap(0, 1), "has other devices in the plan"),
        (|plan, _| plan.paths[0].ranges[0].bytes *= 2, "a bucket of"),
        (|plan, _| plan.paths[0].ranges[0].bytes -= 1000, "a bucket of"),
        (|_, instance| instance.devices[3].memory = 1.0, "the buckets of R1 -> R4 take"),
        (|_, instance| instance.ingresses[0].memory = 1.0, "the buckets of I take"),
        (|_, instance| instance.ingresses[0].encodings = 1.0, "the ingress encodes"),
        (|_, instance| instance.devices.truncate(3), "is not this network's"),
        (|plan, _| plan.paths[1].egress = "R3".into(), "does not know the path to"),
        (|plan, _| plan.ingresses[0].name = "R1".into(), "is not the network's"),
    ];
    for (fault, expected) in faults {
        let (mut plan, mut instance) = (plan.clone(), instance.clone());
        validate(&plan, &instance).unwrap();
        fault(&mut plan, &mut instance);
        let error = message(validate(&plan, &instance));
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}

#[test]
fn ids_stay_with_their_paths() {
    let (instance, solution) = example();
    let old =
        Plan::new(&instance, &solution, &Options { version: 3, ..Options::default() }).unwrap();
    // The first path goes: the second keeps its id, though it is the first now. Then one comes
    // back.
    let second = Route {
        from: NodeId(0),
        to: NodeId(4),
        slice: 0,
        links: [0, 3].map(LinkId).to_vec(),
        volume: 2e9,
    };
    let another = Route {
        from: NodeId(0),
        to: NodeId(2),
        slice: 0,
        links: [0, 1].map(LinkId).to_vec(),
        volume: 2e9,
    };
    let routes = vec![second, another];
    let less = Instance::new(
        instance.network.clone(),
        routes,
        &Provision::default(),
        &Placement::Links,
        profile(),
    )
    .unwrap();
    let answer = Solution { cached: vec![0.1, 0.0, 0.5, 0.25], ..solution.clone() };
    let new = Plan::after(&old, &less, &answer, &Options::default()).unwrap();
    assert_eq!(new.version(), 4);
    let named: Vec<(u32, &str)> =
        new.paths().iter().map(|path| (path.id.0, path.egress.as_str())).collect();
    assert_eq!(named, [(2, "R2"), (1, "R4")]);
    validate(&new, &less).unwrap();
    let text = diff(&old, &new).to_string();
    assert!(
        text.starts_with(
            "version 3 to 4: 1 ranges added, 3 removed, 0 moved, 0 resized, 2 unchanged;"
        ),
        "{text}"
    );
    assert!(
        text.contains("\nR2 -> R3: 100000000 bytes useless\n  removed  I -> R3  [0.5000, 0.6000) 100000000 B  =>  -\n"),
        "{text}"
    );
    let change = Transition::new(Arc::new(old.clone()), Arc::new(new.clone())).unwrap();
    let spare = change.spare();
    assert_eq!(
        (spare[0].old, spare[0].new, spare[0].both),
        (1_200_000_000, 1_200_000_000, 1_400_000_000)
    );
    assert_eq!(spare[0].beyond(Some(1_300_000_000)), 100_000_000);
    assert_eq!(
        change.ingress_spare(),
        [Spare { old: 2_100_000_000, new: 1_700_000_000, both: 2_300_000_000 }]
    );
    // Plans that were not made for each other.
    assert!(
        message(Transition::new(Arc::new(new.clone()), Arc::new(old.clone())))
            .contains("the new one must be higher")
    );
    let stranger =
        Plan::new(&less, &answer, &Options { version: 9, ..Options::default() }).unwrap();
    assert!(
        message(Transition::new(Arc::new(old), Arc::new(stranger)))
            .contains("path 0 is not the same in both plans")
    );
}

/// Two trees from I to R4, of 10^9 bytes each, with shares of 0.5 at R4.
#[test]
fn slices_have_manifests_of_their_own_and_one_store() {
    let (example, _) = example();
    let mut network = example.network.clone();
    let link = |from, to| Link { from: NodeId(from), to: NodeId(to), ..network.links[0] };
    network.links.push(link(0, 4));
    let route = |slice, links: &[u32]| Route {
        from: NodeId(0),
        to: NodeId(4),
        slice,
        links: links.iter().copied().map(LinkId).collect(),
        volume: 1e9,
    };
    let routes = vec![route(0, &[0, 3]), route(1, &[4])];
    let provision = Provision::default();
    let build = |routes| {
        Instance::new(network.clone(), routes, &provision, &Placement::Links, profile()).unwrap()
    };
    let mut instance = build(routes.clone());
    let solution = Solution::given(vec![0.0, 0.5, 0.5]);
    let plan = Plan::new(&instance, &solution, &Options::default()).unwrap();
    validate(&plan, &instance).unwrap();
    let text = plan.to_json();
    assert!(text.contains(r#"{"name":"I","memory":3000000000},{"name":"I","slice":1,"memory""#));
    assert_eq!(Plan::from_json(&text).unwrap(), plan);
    let manifests = plan.ingress_manifests();
    assert_eq!([manifests[0].slice(), manifests[1].slice()], [0, 1]);
    assert_eq!(IngressManifest::from_json(&manifests[1].to_json()).unwrap(), manifests[1]);
    assert_eq!(manifests[0].overlap(PathId(0), PathId(1)), 0);

    // Either slice would fit into this store, both do not.
    let small = text.replace(r#""memory":3000000000"#, r#""memory":900000000"#);
    assert!(message(Plan::from_json(&small)).contains("the buckets of I take 1000000000 bytes"));
    let twins = text.replace(r#","slice":1"#, "");
    assert!(message(Plan::from_json(&twins)).contains("two ingresses have the name \"I\""));
    for ingress in &mut instance.ingresses {
        ingress.memory = 9e8;
    }
    assert!(message(validate(&plan, &instance)).contains("the buckets of I take"));
    let full = message(Plan::new(&instance, &solution, &Options::default()));
    assert!(full.contains("cache 1000000000 bytes, but it has room for 900000000"), "{full}");

    // The paths change slices: they are other paths then.
    let swapped = build(vec![route(1, &[0, 3]), route(0, &[4])]);
    let answer = Solution::given(vec![0.5, 0.0, 0.5]);
    let next = Plan::after(&plan, &swapped, &answer, &Options::default()).unwrap();
    assert_eq!(next.paths().iter().map(|path| path.id.0).collect::<Vec<_>>(), [2, 3]);
    assert!(diff(&plan, &next).to_string().contains("I (slice 1) -> R4"));
    let change = Transition::new(Arc::new(plan), Arc::new(next)).unwrap();
    let spare = Spare { old: 1_000_000_000, new: 1_000_000_000, both: 2_000_000_000 };
    assert_eq!(change.ingress_spare(), [spare; 2]);
}

#[test]
fn parallel_links_have_names_of_their_own() {
    let network = network(&["a", "b", "c"], &[(0, 1), (0, 1), (1, 2), (0, 1)]);
    let routes = vec![Route {
        from: NodeId(0),
        to: NodeId(2),
        slice: 0,
        links: [3, 2].map(LinkId).to_vec(),
        volume: 1.0,
    }];
    let instance =
        Instance::new(network, routes, &Provision::default(), &Placement::Links, profile())
            .unwrap();
    let answer = Solution { cached: vec![1.0, 0.0], ..example().1 };
    let plan = Plan::new(&instance, &answer, &Options::default()).unwrap();
    let names: Vec<&str> = plan.devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["a -> b", "a -> b (2)", "b -> c", "a -> b (3)"]);
}

#[test]
fn what_is_no_longer_of_use_is_counted() {
    let (instance, solution) = example();
    let old = Plan::new(&instance, &solution, &Options::default()).unwrap();
    let mut new = old.clone();
    let totals = |new: &Plan| diff(&old, new).totals;
    // Half the bucket.
    new.paths[1].ranges[0].bytes = 500_000_000;
    assert_eq!((totals(&new).resized, totals(&new).useless), (1, 500_000_000));
    // Half the hashes go to the next device, which has a bucket as large as before.
    new.paths[1].ranges[0] = Range { to: SPACE / 4, ..old.paths[1].ranges[0] };
    new.paths[1].ranges[1].from = SPACE / 4;
    assert_eq!((totals(&new).moved, totals(&new).useless), (2, 500_000_000));
    assert_eq!(totals(&new).hands, 0.125);
    // Half the hashes, and room for less than them.
    new.paths[1].ranges[0].bytes = 100_000_000;
    assert_eq!(totals(&new).useless, 900_000_000);
    // Back again: the next device loses half of the hashes it has now, and has the same bucket.
    assert_eq!(diff(&new, &old).totals.useless, 250_000_000);
}

/// A node that gets a plan must know whether to wait, to ask again or to report somebody.
#[test]
fn stale_foreign_and_broken_plans_are_told_apart() {
    let (instance, solution) = example();
    let version = |version| {
        let options = Options { version, ..Options::default() };
        Arc::new(Plan::new(&instance, &solution, &options).unwrap())
    };
    let (old, new) = (version(3), version(4));
    let follow = |new: &Arc<Plan>| Transition::new(old.clone(), new.clone()).unwrap_err();
    assert!(Transition::new(old.clone(), new.clone()).is_ok());
    for late in [&old, &version(2)] {
        assert_eq!(follow(late).kind(), ManifestErrorKind::Stale);
    }
    let changed = |change: &dyn Fn(&mut Plan)| {
        let mut plan = Plan::clone(&new);
        change(&mut plan);
        follow(&Arc::new(plan)).kind()
    };
    let elsewhere = changed(&|plan| plan.network = "elsewhere".into());
    let renamed = changed(&|plan| plan.devices[0].name = "other".into());
    let another_path = changed(&|plan| plan.paths[0].egress = "R4".into());
    assert_eq!([elsewhere, renamed, another_path], [ManifestErrorKind::Foreign; 3]);

    let text = new.to_json();
    let read = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        Plan::from_json(&changed).unwrap_err().kind()
    };
    assert_eq!(read(r#""format":1"#, r#""format":2"#), ManifestErrorKind::Foreign);
    assert_eq!(read(HASH, "md5"), ManifestErrorKind::Foreign);
    assert_eq!(read("{", "["), ManifestErrorKind::Broken);
    assert_eq!(read(r#""path":1"#, r#""path":0"#), ManifestErrorKind::Broken);
    let none = Plan::new(&instance, &Solution::given(vec![]), &Options::default());
    assert_eq!(none.unwrap_err().kind(), ManifestErrorKind::Unfit);
}
