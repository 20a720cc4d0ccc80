//! A network of nodes on this machine, with the packets of a capture (`oncewire_testkit::lab`).

#[cfg(target_os = "linux")]
fn main() {
    std::process::exit(linux::main());
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("oncewire-lab: needs Linux");
    std::process::exit(1);
}

#[cfg(target_os = "linux")]
mod linux {
    use oncewire_testkit::lab::{self, Kill, Outcome, Settings};
    use oncewire_testkit::servers::tool;
    use std::path::PathBuf;
    use std::time::Duration;

    const USAGE: &str = "usage: oncewire-lab TOPOLOGY.json --capture FILE [OPTIONS]

Starts a node of the topology each as a process, sends the packets of the capture
through them, compares what leaves with what entered, and prints the bytes on all
links beside what `oncewire emulate` says. Hop-by-hop is a packet link on each
cable. Needs Linux and root.

  --capture FILE     the packets: pcap or pcapng, also compressed
  --packets N        use at most N of them
  --memory BYTES     bytes of each cache and packet store [default: an eighth of
                     the packets']
  --time SECONDS     how long they take in all [default: 20]
  --loss PERCENT     lose this share of the datagrams on each link, such as 0.1%
  --kill NODE@TIME   then run with a controller, and kill a node, such as Denver@20s
  --program FILE     the oncewire program [default: the one in the PATH]
  --keep DIR         leave manifests, keys and logs in this new directory";

    pub(super) fn main() -> i32 {
        let args: Vec<String> = std::env::args().skip(1).collect();
        if args.iter().any(|arg| arg == "--help" || arg == "-h") {
            println!("{USAGE}");
            return 0;
        }
        let (mut settings, keep) = match settings(&args) {
            Ok(settings) => settings,
            Err(why) => {
                eprintln!("oncewire-lab: {why}\n\n{USAGE}");
                return 2;
            }
        };
        // Other processes and the working directory need the place.
        let made = std::fs::create_dir(&settings.directory)
            .and_then(|()| settings.directory.canonicalize());
        match made {
            Ok(directory) => settings.directory = directory,
            Err(error) => {
                eprintln!("oncewire-lab: {}: {error}", settings.directory.display());
                return 1;
            }
        }
        let outcome = lab::run(&settings);
        if !keep {
            let _ = std::fs::remove_dir_all(&settings.directory);
        }
        match outcome {
            Ok(outcome) => {
                print(&settings, &outcome);
                0
            }
            Err(error) => {
                eprintln!("oncewire-lab: {error}");
                1
            }
        }
    }

    fn settings(args: &[String]) -> Result<(Settings, bool), String> {
        let (mut topology, mut capture, mut keep) = (None, None, None);
        let (mut packets, mut memory, mut loss, mut kill) = (usize::MAX, None, 0.0, None);
        let (mut program, mut time) = (None, Duration::from_secs(20));
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if !arg.starts_with("--") {
                if topology.replace(PathBuf::from(arg)).is_some() {
                    return Err(format!("{arg}: a second topology"));
                }
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("{arg} needs a value"))?;
            let wrong = || format!("{arg} {value}: not valid");
            match arg.as_str() {
                "--capture" => capture = Some(PathBuf::from(value)),
                "--packets" => packets = value.parse().map_err(|_| wrong())?,
                "--memory" => memory = Some(value.parse().map_err(|_| wrong())?),
                "--time" => {
                    let seconds =
                        value.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
                    time = Duration::from_secs(seconds.ok_or_else(wrong)?);
                }
                "--program" => program = Some(PathBuf::from(value)),
                "--keep" => keep = Some(PathBuf::from(value)),
                "--loss" => {
                    let percent = value.strip_suffix('%').and_then(|text| text.parse().ok());
                    let range = |percent: &f64| (0.0..=50.0).contains(percent);
                    loss = percent.filter(range).ok_or_else(wrong)? / 100.0;
                }
                "--kill" => {
                    let (node, time) = value.split_once('@').ok_or_else(wrong)?;
                    let seconds = time.strip_suffix('s').and_then(|text| text.parse().ok());
                    let seconds = seconds.filter(|&seconds| seconds <= 3600).ok_or_else(wrong)?;
                    kill = Some(Kill { node: node.into(), after: Duration::from_secs(seconds) });
                }
                _ => return Err(format!("{arg} is no option")),
            }
        }
        let program = program.or_else(|| tool("oncewire"));
        let program = program.ok_or("oncewire is not in the PATH: name it with --program")?;
        let missing = |path: &PathBuf, error| format!("{}: {error}", path.display());
        let program = program.canonicalize().map_err(|error| missing(&program, error))?;
        let temporary = format!("oncewire-lab-{}", std::process::id());
        let settings = Settings {
            program,
            topology: topology.ok_or("no topology")?,
            capture: capture.ok_or("no --capture")?,
            packets,
            memory,
            time,
            loss,
            kill,
            directory: keep.clone().unwrap_or_else(|| std::env::temp_dir().join(temporary)),
            verbose: true,
        };
        Ok((settings, keep.is_some()))
    }

    fn print(settings: &Settings, outcome: &Outcome) {
        let left = outcome.left_out;
        println!(
            "{} nodes, {} packets with {:.1} MB, caches and stores of {:.2} MB",
            outcome.nodes,
            outcome.packets,
            outcome.bytes as f64 / 1e6,
            outcome.memory as f64 / 1e6
        );
        println!(
            "left out: {} within a node, {} other protocols, {} truncated, {} too long",
            left.own, left.other, left.truncated, left.too_long
        );
        println!(
            "packets times links: {:.1} MB; saved: share of these\n",
            outcome.packet_links as f64 / 1e6
        );
        println!(
            "scheme      bytes on links   live saved  emulated  difference  delivered  lost  took    CPU"
        );
        for scheme in &outcome.schemes {
            let percent = |share: Option<f64>| match share {
                Some(share) => format!("{:.2} %", 100.0 * share),
                None => "-".into(),
            };
            let points = scheme.saved.zip(scheme.emulated).map(|(live, emulated)| live - emulated);
            let points = match points.filter(|_| scheme.name != "bare") {
                Some(points) => format!("{:+.2}", 100.0 * points),
                None => "-".into(),
            };
            let (bytes, delivered, lost, took, cpu) = match &scheme.live {
                Some(live) => {
                    let bytes = format!("{:.2} MB", live.link_bytes as f64 / 1e6);
                    let took = format!("{:.0} s", live.time.as_secs_f64());
                    let cpu = format!("{:.2} s", live.cpu.as_secs_f64());
                    (bytes, live.delivered.to_string(), live.lost.to_string(), took, cpu)
                }
                None => ("-".into(), "-".into(), "-".into(), "-".into(), "-".into()),
            };
            println!(
                "{:<11} {bytes:>14} {:>12} {:>9} {points:>11} {delivered:>10} {lost:>5} {took:>5} \
                 {cpu:>6}",
                scheme.name,
                percent(scheme.saved),
                percent(scheme.emulated),
            );
        }
        for scheme in &outcome.schemes {
            let Some(live) = &scheme.live else { continue };
            let counted: Vec<String> =
                live.counted.iter().map(|(name, value)| format!("{name} {value}")).collect();
            println!("\n{}: {}", scheme.name, counted.join(", "));
        }
        if let (Some(death), Some(kill)) = (&outcome.killed, &settings.kill) {
            println!(
                "\n{} killed after {:?}: of {} packets {} were lost before, {} after it, {} of these a second or more after it, between {} pairs of nodes, the last {:.2} s after it",
                kill.node,
                kill.after,
                death.sent,
                death.lost_before,
                death.lost_after,
                death.lost_late,
                death.pairs,
                death.last.as_secs_f64()
            );
        }
    }
}
