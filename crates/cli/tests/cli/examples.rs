//! Every example in help runs as it is written, in a directory with the files it names.
//!
//! Programs that would use a network have a stand-in there. An example that needs more, or a
//! program that is missing, is reported as skipped.
#![cfg(unix)]

use crate::plan::MAP;
use crate::support::*;
use oncewire_testkit::servers::tool;
use oncewire_testkit::skipped;
use std::os::unix::fs::PermissionsExt;

/// The commands under `Examples:` in a help text; a line that ends in `\` goes on in the next one.
fn examples(verb: &str) -> Vec<String> {
    let help = help(verb);
    let lines = help
        .lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let text = lines.map(str::trim).collect::<Vec<_>>().join("\n").replace("\\\n", "");
    let commands: Vec<String> = text.lines().map(String::from).collect();
    assert!(!commands.is_empty(), "{verb} has no example");
    commands
}

/// Puts a program of this name in front of the real one.
fn stand_in(dir: &Dir, name: &str, script: &str) {
    std::fs::create_dir_all(dir.join("bin")).expect("a directory");
    let path = dir.write(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n").as_bytes());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// The first program of a pipeline that is missing.
fn missing(dir: &Dir, command: &str) -> Option<String> {
    let programs = command.split('|').filter_map(|part| part.split_whitespace().next());
    let found = |name: &str| {
        name == "oncewire" || dir.join("bin").join(name).exists() || tool(name).is_some()
    };
    programs.filter(|name| !found(name)).map(String::from).next()
}

/// Runs all examples of a command except those that start with a text in `elsewhere`, which gives
/// the reasons.
#[track_caller]
fn run_examples(verb: &str, dir: &Dir, elsewhere: &[(&str, &str)]) {
    let home = Dir::new();
    for name in [".bash_completion.d", ".zfunc", ".config/fish/completions"] {
        std::fs::create_dir_all(home.join(name)).expect("a directory");
    }
    let mut used = 0;
    for command in examples(verb) {
        if let Some((_, why)) = elsewhere.iter().find(|(start, _)| command.starts_with(start)) {
            skipped!("`{command}` {why}");
            used += 1;
        } else if let Some(program) = missing(dir, &command) {
            skipped!("`{command}` needs {program}");
        } else {
            let begun = std::time::Instant::now();
            let ran =
                Ran::of(shell(dir, &command).env("HOME", home.path()).output().expect("a shell"));
            assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
            println!("{:6.2} s {command}", begun.elapsed().as_secs_f64());
        }
    }
    assert_eq!(used, elsewhere.len(), "an example of {verb} that is skipped is no longer there");
}

/// A file with a part of two releases of the time-zone database.
fn files(dir: &Dir, names: &[&str], len: usize) {
    for name in names {
        dir.write(name, &versions(len));
    }
}

#[test]
fn of_keygen_demo_man_and_completions() {
    let dir = Dir::new();
    for (n, name) in ["image-v1.tar", "image-v2.tar"].into_iter().enumerate() {
        dir.write(name, &tz(n));
    }
    for verb in ["keygen", "demo", "man", "completions"] {
        run_examples(verb, &dir, &[]);
    }
}

#[test]
fn of_pack_and_unpack() {
    let dir = Dir::new();
    for (n, name) in
        [(0, "backup.tar"), (0, "release-1.tar"), (1, "release-2.tar"), (2, "monday.sql")]
    {
        dir.write(name, &tz(n));
    }
    stand_in(&dir, "nc", "cat backup.tar");
    stand_in(&dir, "ssh", "mkdir -p ~/there && cd ~/there && exec sh -c \"$2\"");
    run_examples("pack", &dir, &[]);
    dir.write("backup.tar", b"another");
    run_examples("unpack", &dir, &[]);
    same(&read(&dir.join("backup.tar")), &tz(0), "unpacked");
}

#[test]
fn of_bench() {
    let dir = Dir::new();
    files(&dir, &["release-1.tar", "release-2.tar", "dump.sql", "image.raw"], 60_000);
    run_examples("bench", &dir, &[]);
}

#[test]
fn of_index() {
    run_examples("index", &Dir::new(), &[]);
}

#[test]
fn of_train() {
    let dir = Dir::new();
    files(&dir, &["monday.tar", "tuesday.tar"], 60_000);
    run_examples("train", &dir, &[]);
}

#[test]
fn of_study() {
    let dir = Dir::new();
    let site = read(&root().join("docs/examples/site.pcap.zst"));
    std::fs::create_dir(dir.join("captures")).expect("a directory");
    std::fs::create_dir(dir.join("more")).expect("a directory");
    // The content says how a capture is compressed, not the name.
    for name in ["monday.pcap", "month.pcap", "captures/monday.pcap", "more/tuesday.pcap.gz"] {
        dir.write(name, &site);
    }
    stand_in(&dir, "tcpdump", "cat monday.pcap");
    files(&dir, &["release-1.tar", "release-2.tar"], 20_000);
    run_examples(
        "study",
        &dir,
        &[("oncewire study --interface", "captures from an interface for a minute")],
    );
}

/// A ring of 24 cities with chords.
fn ring() -> String {
    let node = |n: usize| {
        format!(
            r#"{{"id":"c{n}","label":"City {n}","population":{},"lat":{},"lon":{n}}}"#,
            1000 * (n + 1),
            40 + n % 9
        )
    };
    let link = |(a, b): (usize, usize)| {
        format!(r#"{{"a":"c{a}","b":"c{}","weight":1,"capacity_bps":1e9}}"#, b % 24)
    };
    let nodes: Vec<String> = (0..24).map(node).collect();
    let links: Vec<String> = (0..24).flat_map(|n| [(n, n + 1), (n, n + 5)]).map(link).collect();
    format!(r#"{{"name":"ring","nodes":[{}],"links":[{}]}}"#, nodes.join(","), links.join(","))
}

/// Four cities of a Rocketfuel map: links with weights, and latencies.
const CITIES: [(&str, &str); 4] = [
    ("New+York,+NY", "New York\tUS\tNY"),
    ("London", "London\tGB\tENG"),
    ("Paris", "Paris\tFR\t11"),
    ("Zurich", "Zurich\tCH\tZH"),
];

/// Two cities and a town, with positions.
const GRAPHML: &str = r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="Latitude" for="node" id="lat"/><key attr.name="Longitude" for="node" id="lon"/>
<graph edgedefault="undirected">
<node id="a"><data key="lat">50</data><data key="lon">0</data></node>
<node id="b"><data key="lat">51</data><data key="lon">0</data></node>
<node id="c"><data key="lat">52</data><data key="lon">1</data></node>
<edge source="a" target="b"/><edge source="b" target="c"/>
</graph></graphml>"#;

/// A line of seven cities with demands.
fn sndlib() -> String {
    let nodes = ["A", "B", "C", "D", "E", "F", "G"];
    let node = |(n, id): (usize, &&str)| {
        format!(r#"<node id="{id}"><coordinates><x>{n}</x><y>50</y></coordinates></node>"#)
    };
    let link = |ends: &[&str]| {
        format!(
            r#"<link id="{0}{1}"><source>{0}</source><target>{1}</target></link>"#,
            ends[0], ends[1]
        )
    };
    let demand = |ends: &[&str]| {
        let [a, b] = ends else { unreachable!("two ends") };
        format!(
            r#"<demand id="{a}{b}"><source>{a}</source><target>{b}</target><demandValue>5.0</demandValue></demand>"#
        )
    };
    format!(
        r#"<network xmlns="http://sndlib.zib.de/network" version="1.0"><networkStructure>
        <nodes coordinatesType="geographical">{}</nodes><links>{}</links></networkStructure><demands>{}{}</demands></network>"#,
        nodes.iter().enumerate().map(node).collect::<String>(),
        nodes.windows(2).map(link).collect::<String>(),
        demand(&["A", "G"]),
        demand(&["B", "D"]),
    )
}

#[test]
fn of_plan() {
    let dir = Dir::new();
    dir.write("sprint.json", ring().as_bytes());
    let pairs: Vec<String> =
        (0..4).map(|n| format!("{}1 {}1", CITIES[n].0, CITIES[(n + 1) % 4].0)).collect();
    let map = |value: u32| pairs.iter().map(|pair| format!("{pair} {value}\n")).collect::<String>();
    dir.write("3257.weights.intra", map(3).as_bytes());
    dir.write("3257.latencies.intra", map(20).as_bytes());
    let city = |(n, (_, city)): (usize, &(&str, &str))| {
        format!("{}\t{city}\t{}\t{}\t1000000\n", n + 1, 40 + n, n)
    };
    dir.write("cities.tsv", CITIES.iter().enumerate().map(city).collect::<String>().as_bytes());
    dir.write("geant.xml", sndlib().as_bytes());
    dir.write("isp.graphml", GRAPHML.as_bytes());
    dir.write("tm.txt", b"a c 3\nc a 1\na b 2\n");
    for before in [
        "oncewire emulate isp.graphml --traffic tm.txt --scale 0.1% --epochs 2 --quick --measured measured.tsv",
        "oncewire plan isp.graphml --traffic tm.txt --quick --manifests plan.json",
    ] {
        let ran = Ran::of(shell(&dir, before).output().expect("a shell"));
        assert_eq!(ran.code, Some(0), "{before}: {}", ran.err);
    }
    run_examples("plan", &dir, &[]);
}

#[test]
fn of_emulate() {
    let dir = Dir::new();
    dir.write("sprint.json", ring().as_bytes());
    dir.write("isp.json", &read(&root().join("docs/examples/abilene.json")));
    dir.write("geant.json", MAP.as_bytes());
    dir.write("monday.pcap", &read(&root().join("docs/examples/site.pcap.zst")));
    dir.write("pops.txt", b"10.20.0.0/16 Denver\n0.0.0.0/0 Atlanta\n2001:db8::/32 Seattle\n");
    run_examples("emulate", &dir, &[]);
}

#[test]
fn of_profile() {
    let dir = Dir::new();
    dir.write("sprint.json", &read(&root().join("docs/examples/abilene.json")));
    dir.write("monday.pcap", &read(&root().join("docs/examples/site.pcap.zst")));
    dir.write("pops.txt", b"10.20.0.0/16 Denver\n0.0.0.0/0 Atlanta\n2001:db8::/32 Seattle\n");
    let before = "oncewire route sprint.json --routes routes.json";
    let ran = Ran::of(shell(&dir, before).output().expect("a shell"));
    assert_eq!(ran.code, Some(0), "{before}: {}", ran.err);
    run_examples("profile", &dir, &[]);
}

/// The environment for the examples of a tunnel: a network namespace with the names they use, an
/// origin, and their files.
#[cfg(target_os = "linux")]
const SURROUNDINGS: &str = r#"
set -eu
mount -t tmpfs -o mode=755 tmpfs /etc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /etc/oncewire /run/oncewire-serve
printf '127.0.0.1 localhost site-b\n203.0.113.10 origin.example\n' > /etc/hosts
echo 'hosts: files' > /etc/nsswitch.conf
ip link set lo up
ip address add 203.0.113.10/32 dev lo
export XDG_RUNTIME_DIR=/run
oncewire keygen a.key > a.pub
oncewire keygen b.key > b.pub
oncewire keygen /etc/oncewire/serve.key > /etc/oncewire/authorized_peers
cp serve.toml /etc/oncewire/
mkdir origin
echo content > origin/index.html
python3 -m http.server --directory origin --bind 203.0.113.10 80 > /dev/null 2>&1 &
origin=$!
# Tries a command until it succeeds, as long as a process runs.
try() { process=$1; shift; until "$@" > got 2> why; do kill -0 "$process" || { cat why; exit 1; }; sleep 0.05; done; }
"#;

#[cfg(target_os = "linux")]
#[test]
fn of_serve_connect_status_and_check_config() {
    for program in ["unshare", "mount", "ip", "curl", "python3", "jq", "timeout"] {
        if tool(program).is_none() {
            skipped!("there is no {program}");
            return;
        }
    }
    let unshare = |dir: &Dir, script: &str| {
        let command = format!(
            "exec timeout 60 unshare --mount --net sh -c '{}'",
            script.replace('\'', r"'\''")
        );
        Ran::of(shell(dir, &command).output().expect("a shell"))
    };
    let dir = Dir::new();
    if unshare(&dir, "mount -t tmpfs tmpfs /etc").code != Some(0) {
        skipped!("namespaces need root");
        return;
    }
    dir.write("serve.toml", &read(&root().join("docs/examples/serve.toml")));
    let [serve, connect, status, check] =
        ["serve", "connect", "status", "check-config"].map(examples);
    let ([serve, of_file], [forward, proxy, curl, locked], [check]) =
        (&serve[..], &connect[..], &check[..])
    else {
        panic!("say here what to do with each example");
    };
    let script = format!(
        "{SURROUNDINGS}
        {serve} & serve=$!
        try $serve oncewire status
        {forward} & connect=$!
        try $connect curl -sf http://localhost:8080/
        cmp got origin/index.html
        kill $connect && wait $connect
        {proxy} & connect=$!
        try $connect {curl}
        cmp got origin/index.html
        {status}
        kill $connect && wait $connect
        (umask 077; echo 'ann:correct horse' > users)
        ip addr add 10.1.0.1/16 dev lo
        {locked} & connect=$!
        try $connect curl -sf --proxy-user 'ann:correct horse' --proxy socks5h://10.1.0.1:1080 \
            http://origin.example/
        cmp got origin/index.html
        ! curl -sf --proxy socks5h://10.1.0.1:1080 http://origin.example/
        kill $connect && wait $connect
        kill $serve && wait $serve
        {check}
        {of_file} & serve=$!
        try $serve oncewire status
        kill $serve && wait $serve
        kill $origin",
        status = status.join("\n"),
    );
    let ran = unshare(&dir, &script);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.err, String::from_utf8_lossy(&ran.out));
}
