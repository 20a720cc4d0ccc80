//! A day of `oncewire link` in seconds: downloads while the path loses, ends are killed, the path is cut
//! and an end moves. Needs root and the `ip` program.
//!
//! 24 hours in ten minutes: `ONCEWIRE_SOAK_SECONDS=600 cargo test --release -p oncewire --test tunnel
//! link_soak -- --nocapture`

use crate::link::{End, Link};
use crate::support::{descriptors, finish, resident, succeed, wait_until};
use oncewire_testkit::need_tool;
use oncewire_testkit::path::PathConfig;
use oncewire_testkit::servers::{Rng, Running, incompressible, text_like};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What one end keeps of each direction: `--cache`.
const CACHE: u64 = 16 << 20;
/// Events of a day.
const HOURS: u64 = 24;

/// Ends the downloads, even if the test has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Downloads one of the files until `stop`. What arrives is right, or `curl` says that it failed.
fn download(link: &Link, files: &[Vec<u8>], seed: u64, stop: &AtomicBool, counts: &[AtomicU64; 3]) {
    let mut rng = Rng::new(seed);
    while !stop.load(Relaxed) {
        let file = rng.below(files.len() as u64) as usize;
        let mut client = link.command(0, "curl");
        let url = format!("http://10.2.0.1:8080/{file}");
        let output = finish(client.args(["-s", "--max-time", "10", &url]));
        let [bytes, whole, failed] = counts;
        if output.status.success() {
            assert!(output.stdout == files[file], "wrong bytes in file {file}");
            bytes.fetch_add(output.stdout.len() as u64, Relaxed);
            whole.fetch_add(1, Relaxed);
        } else {
            assert!(files[file].starts_with(&output.stdout), "wrong bytes in file {file}");
            failed.fetch_add(1, Relaxed);
        }
    }
}

/// What happens in this hour.
fn happen(hour: u64, link: &Link, ends: &mut [End; 2], hour_lasts: Duration) {
    let device = link.path.ns_a();
    let ip = |line: &str| {
        let line = line.replace("DEVICE", device);
        succeed(link.command(0, "ip").args(line.split_whitespace()));
    };
    match hour % 6 {
        1 => {
            ends[0].kill();
            ends[0] = link.start(0);
        }
        2 => {
            ip("link set dev DEVICE down");
            std::thread::sleep(hour_lasts / 4);
            ip("link set dev DEVICE up");
        }
        3 => {
            // There, and back after six hours.
            let (new, old) = if hour % 12 == 3 { (5, 1) } else { (1, 5) };
            ip(&format!("address add 10.77.0.{new}/24 dev DEVICE"));
            ip(&format!("address del 10.77.0.{old}/24 dev DEVICE"));
        }
        // In the second half of the day B stays, so that its memory can be watched.
        4 if hour < HOURS / 2 => {
            ends[1].kill();
            ends[1] = link.start(1);
        }
        _ => {}
    }
    wait_until("the link is up", || ends.iter().all(End::is_up));
}

#[test]
fn a_day_of_the_link() {
    let (_curl, python) = (need_tool!("curl"), need_tool!("python3"));
    let seconds = std::env::var("ONCEWIRE_SOAK_SECONDS")
        .map_or(5, |text| text.parse().expect("a number of seconds"));
    let mut config = PathConfig::default();
    for direction in [&mut config.a_to_b, &mut config.b_to_a] {
        direction.loss = 0.005;
        direction.reorder = 0.01;
        direction.delay = Duration::from_millis(2);
    }
    let Some(mut link) = Link::new(config) else { return };
    link.path.sysctl("net.ipv4.conf.all.promote_secondaries", "1").unwrap();
    link.options = vec!["--cache", "16M", "--renew-keys", "1s"];
    let mut ends = link.connected();
    let files: Vec<Vec<u8>> = (0..8)
        .map(|file| match file % 4 {
            0 => text_like(file, 1_500_000),
            1 => incompressible(file, 1_000_000),
            2 => text_like(file, 300),
            _ => [text_like(0, 700_000), incompressible(file, 1000)].concat(),
        })
        .collect();
    for (name, content) in files.iter().enumerate() {
        std::fs::write(link.dir.path().join(name.to_string()), content).unwrap();
    }
    let mut server = link.command(1, python.to_str().unwrap());
    server.args(["-m", "http.server", "--bind", "10.2.0.1", "8080"]).current_dir(link.dir.path());
    // The address goes away with the device when B is killed.
    link.path.sysctl("net.ipv4.ip_nonlocal_bind", "1").unwrap();
    let _server = Running::start(server.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let open = |ends: &[End; 2]| [0, 1].map(|end| descriptors(&ends[end].process));
    let before = open(&ends);
    let (stop, counts) = (AtomicBool::new(false), [0; 3].map(AtomicU64::new));
    let hour_lasts = Duration::from_secs(seconds) / HOURS as u32;
    let mut sizes = Vec::new();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (link, files, stop, counts) = (&link, &files, &stop, &counts);
            scope.spawn(move || download(link, files, seed, stop, counts));
        }
        let _stop = Stop(&stop);
        for hour in 0..HOURS {
            let done = counts[1].load(Relaxed);
            happen(hour, &link, &mut ends, hour_lasts);
            std::thread::sleep(hour_lasts);
            // Whatever happened, it goes on.
            wait_until("a download", || counts[1].load(Relaxed) > done);
            sizes.push(resident(&ends[1].process));
        }
    });
    let [bytes, whole, failed] = counts.map(AtomicU64::into_inner);
    let middle = sizes[sizes.len() * 2 / 3];
    let last = *sizes.last().expect("hours");
    eprintln!(
        "{whole} downloads of {bytes} bytes, {failed} cut off; {before:?} descriptors; resident {middle} then {last}; {}",
        ends[1].status().unwrap(),
    );
    wait_until("descriptors are as before", || open(&ends) == before);
    // In seconds, logs are not full before the end.
    if seconds >= 60 {
        assert!(last <= middle + middle / 10 + (4 << 20), "memory grows from {middle} to {last}");
    }
    assert!(last <= 2 * CACHE + (64 << 20), "{last} resident with --cache 16M");
    for drop in ["malformed", "violations"] {
        assert_eq!(ends[1].number(&format!("/dropped/{drop}")), 0, "{:?}", ends[1].status());
    }
}
