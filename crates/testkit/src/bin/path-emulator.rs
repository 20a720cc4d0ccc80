//! Runs a script or command with two network namespaces that an emulated path joins, then prints
//! the path's counters.

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("oncewire-path-emulator: needs Linux");
    std::process::exit(1);
}

#[cfg(target_os = "linux")]
mod linux {
    use oncewire_testkit::path::{Bursts, DirectionStats, Path, PathConfig};
    use oncewire_testkit::servers::Running;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::str::FromStr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const USAGE: &str = "usage: oncewire-path-emulator [OPTION VALUE]... (--script FILE | -- COMMAND [ARGUMENT]...)

Runs the shell script or command with NS_A, NS_B, ADDR_A, ADDR_B, ADDR6_A and ADDR6_B set: two network namespaces and their
addresses, joined by the path. `ip netns exec $NS_A curl http://$ADDR_B/` runs a client in A. At the end it prints one JSON object
per direction on standard error and exits with the script's status. Needs Linux and root.

  --delay-ms MS         one-way delay, both directions (0)
  --delay-ba-ms MS      one-way delay from B to A
  --rate-mbit MBIT      rate, both directions (unlimited)
  --rate-ba-mbit MBIT   rate from B to A
  --loss P              probability that a packet is lost, both directions (0)
  --burst ENTER,LEAVE   Gilbert-Elliott: probabilities per packet to enter and leave a state that loses all packets
  --reorder P           probability that a packet is held back (0)
  --reorder-ms MS       how long it is held back (5)
  --queue-kb KB         queue limit in kB (one round trip at the rate)
  --mtu BYTES           largest packet, 1280 to 65535 (1500)
  --seed N              seed of losses (1)
  --tcp-buffer-mb MB    largest TCP buffer in both namespaces (three bandwidth-delay products)
  --congestion NAME     TCP congestion control of the path (the machine's default)
  --offload on|off      pass runs of segments (GSO) instead of single packets (on)";

    type Change = Box<dyn Fn(&mut PathConfig)>;

    fn wrong(what: &str) -> ! {
        eprintln!("oncewire-path-emulator: {what}\n{USAGE}");
        std::process::exit(2);
    }

    fn number<T: FromStr>(option: &str, value: &str) -> T {
        value.parse().unwrap_or_else(|_| wrong(&format!("{option} {value}: not a number in range")))
    }

    fn time(option: &str, value: &str) -> Duration {
        Duration::try_from_secs_f64(number::<f64>(option, value) / 1000.0)
            .unwrap_or_else(|_| wrong(&format!("{option} {value}: not a time")))
    }

    fn rate(option: &str, value: &str) -> Option<u64> {
        Some((number::<f64>(option, value) * 1e6) as u64)
    }

    pub(super) fn main() {
        let mut args = std::env::args().skip(1);
        let mut delays = (Duration::ZERO, None);
        let mut rates = (None, None);
        let mut later: Vec<Change> = Vec::new();
        let mut command: Vec<String> = Vec::new();
        let mut congestion = None;
        while let Some(option) = args.next() {
            if option == "--" {
                command = args.collect();
                break;
            }
            if option == "--help" {
                println!("{USAGE}");
                return;
            }
            let Some(value) = args.next() else { wrong(&format!("{option} needs a value")) };
            let (o, v) = (option.as_str(), value.as_str());
            match o {
                "--delay-ms" => delays.0 = time(o, v),
                "--delay-ba-ms" => delays.1 = Some(time(o, v)),
                "--rate-mbit" => rates.0 = rate(o, v),
                "--rate-ba-mbit" => rates.1 = Some(rate(o, v)),
                "--loss" => {
                    let loss = number(o, v);
                    later.push(Box::new(move |c| (c.a_to_b.loss, c.b_to_a.loss) = (loss, loss)));
                }
                "--burst" => {
                    let Some((enter, leave)) = v.split_once(',') else {
                        wrong("--burst needs ENTER,LEAVE")
                    };
                    let bursts = Some(Bursts {
                        enter: number(o, enter),
                        leave: number(o, leave),
                        loss: 1.0,
                    });
                    later.push(Box::new(move |c| {
                        (c.a_to_b.bursts, c.b_to_a.bursts) = (bursts, bursts)
                    }));
                }
                "--reorder" => {
                    let p = number(o, v);
                    later.push(Box::new(move |c| (c.a_to_b.reorder, c.b_to_a.reorder) = (p, p)));
                }
                "--reorder-ms" => {
                    let by = time(o, v);
                    later.push(Box::new(move |c| {
                        (c.a_to_b.reorder_by, c.b_to_a.reorder_by) = (by, by)
                    }));
                }
                "--queue-kb" => {
                    let queue = Some(number::<usize>(o, v).saturating_mul(1000));
                    later.push(Box::new(move |c| {
                        (c.a_to_b.queue_bytes, c.b_to_a.queue_bytes) = (queue, queue)
                    }));
                }
                "--mtu" => {
                    let mtu = number(o, v);
                    later.push(Box::new(move |c| c.mtu = mtu));
                }
                "--seed" => {
                    let seed = number(o, v);
                    later.push(Box::new(move |c| c.seed = seed));
                }
                "--tcp-buffer-mb" => {
                    let bytes = number::<u64>(o, v).saturating_mul(1_000_000);
                    later.push(Box::new(move |c| c.tcp_buffer_max = Some(bytes)));
                }
                "--offload" if v == "on" || v == "off" => {
                    let on = v == "on";
                    later.push(Box::new(move |c| c.offload = on));
                }
                "--congestion" => congestion = Some(value),
                "--script" => command = vec!["sh".to_owned(), value],
                _ => wrong(&format!("unknown: {o} {v}")),
            }
        }
        let Some((program, arguments)) = command.split_first() else {
            wrong("no --script and no command")
        };
        // The larger delay sizes the TCP buffers.
        let mut config = PathConfig::symmetric(delays.0.max(delays.1.unwrap_or_default()), rates.0);
        config.a_to_b.delay = delays.0;
        config.b_to_a.delay = delays.1.unwrap_or(delays.0);
        config.b_to_a.rate_bps = rates.1.unwrap_or(rates.0);
        for change in later {
            change(&mut config);
        }

        let stop = Arc::new(AtomicBool::new(false));
        let signaled = stop.clone();
        // Before the path installs its handlers: the script must end before its namespaces are
        // deleted.
        let _ = ctrlc::set_handler(move || signaled.store(true, Ordering::SeqCst));
        let status = run(config, congestion.as_deref(), program, arguments, &stop);
        std::process::exit(status);
    }

    fn run(
        config: PathConfig,
        congestion: Option<&str>,
        program: &str,
        arguments: &[String],
        stop: &AtomicBool,
    ) -> i32 {
        let fail = |e: &dyn std::fmt::Display| {
            eprintln!("oncewire-path-emulator: {e}");
            1
        };
        let path = match Path::open(config) {
            Ok(path) => path,
            Err(e) => return fail(&e),
        };
        if let Some(name) = congestion
            && let Err(e) = path.set_congestion_control(name)
        {
            return fail(&e);
        }
        let mut command = Command::new(program);
        command.args(arguments).env("NS_A", path.ns_a()).env("NS_B", path.ns_b()).process_group(0);
        for (name, addr) in [
            ("ADDR_A", path.addr_a()),
            ("ADDR_B", path.addr_b()),
            ("ADDR6_A", path.addr6_a()),
            ("ADDR6_B", path.addr6_b()),
        ] {
            command.env(name, addr.to_string());
        }
        let mut script = match Running::start(&mut command) {
            Ok(script) => script,
            Err(e) => return fail(&e),
        };
        let group = rustix::process::Pid::from_child(script.child());
        let status = loop {
            if stop.load(Ordering::SeqCst) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
                let _ = script.wait(Duration::from_secs(2));
                break 130;
            }
            match script.wait(Duration::from_millis(100)) {
                Ok(None) => {}
                Ok(Some(status)) => break status.code().unwrap_or(1),
                Err(e) => break fail(&e),
            }
        };
        // Background processes of the script would keep the namespaces.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        let stats = path.stats();
        print("a_to_b", &stats.a_to_b);
        print("b_to_a", &stats.b_to_a);
        status
    }

    fn print(name: &str, s: &DirectionStats) {
        eprintln!(
            "{{\"direction\":\"{name}\",\"sent_packets\":{},\"sent_bytes\":{},\"wire_packets\":{},\"wire_bytes\":{},\
             \"delivered_packets\":{},\"delivered_bytes\":{},\"dropped_loss\":{},\"dropped_queue\":{},\"dropped_cut\":{},\
             \"reordered\":{}}}",
            s.sent_packets,
            s.sent_bytes,
            s.wire_packets,
            s.wire_bytes,
            s.delivered_packets,
            s.delivered_bytes,
            s.dropped_loss,
            s.dropped_queue,
            s.dropped_cut,
            s.reordered
        );
    }
}
