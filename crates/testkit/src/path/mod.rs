//! An IP path between two network namespaces with delay, rate, loss and a queue, in user space.
//!
//! Each namespace has a tun device. A packet that leaves one device is queued, serialized at the
//! rate, held for the delay, and then delivered to the other device. Works on kernels without
//! netem. Needs Linux and root; [`Path::unavailable`] says what is missing.
//!
//! The kernel passes runs of TCP or UDP segments (GSO). The emulator cuts a run into pieces that
//! take a millisecond at the rate, and next to segments that are lost or find the queue full. It
//! counts, loses and queues single segments, headers included.
//!
//! Throughput of one TCP flow without rate limit or delay; sender, receiver and emulator share two
//! cores (release build, 2 GB by `oncewire-path-probe`; the worse of two runs):
//!
//! | MTU | runs of segments | single packets |
//! |---|---|---|
//! | 1,500 | 11 Gbit/s | 3.0 Gbit/s |
//! | 9,000 | 11 Gbit/s | 6.5 Gbit/s |
//! | 65,000 | 13 Gbit/s | 8.8 Gbit/s |
//!
//! At 1 Gbit/s, 200 ms of round trip and an MTU of 1,500, the emulator takes 15 % of one core with
//! runs, 57 % without.

mod config;
mod gso;
mod io;
mod namespace;
mod wire;

pub use config::{Bursts, Direction, DirectionConfig, PathConfig};
pub use namespace::clean_up;
pub use wire::{DirectionStats, MAX_HELD_BYTES, PathStats};

use crate::servers::tool;
use io::OneWay;
use namespace::{Endpoint, Namespace, clean_up_stale, command_in, run, sysctl};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use tun_rs::InterruptEvent;
use wire::Wire;

/// Why a path could not be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// This machine cannot emulate a path: not root, no `ip` program, or no tun device. Tests skip
    /// on it.
    #[error("no path can be emulated here: {0}")]
    Unavailable(String),
    /// A parameter is out of its range.
    #[error("{name} is {value}; it must be {must}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// Its range.
        must: &'static str,
    },
    /// A command could not be started, or failed.
    #[error("`{command}` failed: {said}")]
    Command {
        /// The command.
        command: String,
        /// Its standard error, or why it did not start.
        said: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// An open path. Dropping it stops its threads and deletes its namespaces. A process that still
/// runs in one keeps that namespace, without a path, until the process ends.
pub struct Path {
    /// From A to B, from B to A.
    ways: [Arc<OneWay>; 2],
    event: Arc<InterruptEvent>,
    threads: Vec<JoinHandle<()>>,
    namespaces: [Namespace; 2],
}

const A4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);

impl Path {
    /// The reason why no path can be opened on this machine, or `None`: not root, no `ip` program,
    /// or no tun device.
    pub fn unavailable() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("network namespaces need root".to_owned());
        }
        if tool("ip").is_none() {
            return Some("the ip program (iproute2) is not installed".to_owned());
        }
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Some("there is no /dev/net/tun".to_owned());
        }
        None
    }

    /// Opens a path. The first one of a process installs handlers for SIGINT, SIGTERM and SIGHUP
    /// that delete the namespaces and exit with status 130. A process that has installed its own
    /// handlers must call [`clean_up`] instead.
    ///
    /// # Errors
    /// [`PathError::Unavailable`] where tests should skip; other variants say what failed.
    pub fn open(config: PathConfig) -> Result<Path, PathError> {
        config.a_to_b.check()?;
        config.b_to_a.check()?;
        if config.mtu < 1280 {
            return Err(PathError::Parameter {
                name: "mtu",
                value: config.mtu.to_string(),
                must: "1280 to 65535",
            });
        }
        if let Some(reason) = Path::unavailable() {
            return Err(PathError::Unavailable(reason));
        }
        static SIGNALS: Once = Once::new();
        SIGNALS.call_once(|| {
            clean_up_stale();
            let _ = ctrlc::try_set_handler(|| {
                clean_up();
                std::process::exit(130);
            });
        });
        // The devices have the same names, which may have at most 15 bytes.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (pid, n) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 1000);
        let namespaces = ["a", "b"].map(|end| Namespace(format!("owp{pid}n{n}{end}")));
        let a = Endpoint::open(&namespaces[0].0, &config, A4, A6)?;
        let b = Endpoint::open(&namespaces[1].0, &config, B4, B6)?;
        let event =
            Arc::new(InterruptEvent::new().map_err(|source| PathError::System {
                doing: "making an event descriptor",
                source,
            })?);
        let round_trip = config.a_to_b.delay + config.b_to_a.delay;
        // Different seeds, so that the directions are independent.
        let ways = [(config.a_to_b, config.seed), (config.b_to_a, !config.seed)]
            .map(|(direction, seed)| OneWay::new(Wire::new(direction, round_trip, seed)));
        let mut path = Path { ways, event, threads: Vec::new(), namespaces };
        for (way, from, to) in [(0, &a, &b), (1, &b, &a)] {
            let (one_way, offload) = (path.ways[way].clone(), config.offload);
            let (reader, writer, event) =
                (from.device.clone(), to.device.clone(), path.event.clone());
            let for_writer = one_way.clone();
            path.spawn(&from.namespace, move || io::read(&reader, &event, &one_way, offload))?;
            path.spawn(&to.namespace, move || io::write(&writer, &for_writer, offload))?;
        }
        Ok(path)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), PathError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        self.threads.push(
            thread.map_err(|source| PathError::System { doing: "starting a thread", source })?,
        );
        Ok(())
    }

    /// Name of the namespace A, for `ip netns exec`.
    pub fn ns_a(&self) -> &str {
        &self.namespaces[0].0
    }

    /// Name of the namespace B.
    pub fn ns_b(&self) -> &str {
        &self.namespaces[1].0
    }

    /// IPv4 address of A.
    pub fn addr_a(&self) -> IpAddr {
        A4.into()
    }

    /// IPv4 address of B.
    pub fn addr_b(&self) -> IpAddr {
        B4.into()
    }

    /// IPv6 address of A; absent from a kernel without IPv6.
    pub fn addr6_a(&self) -> IpAddr {
        A6.into()
    }

    /// IPv6 address of B; absent from a kernel without IPv6.
    pub fn addr6_b(&self) -> IpAddr {
        B6.into()
    }

    /// A command that runs `program` in A. The child's process id is the program's.
    pub fn command_in_a(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        command_in(self.ns_a(), program.as_ref())
    }

    /// A command that runs `program` in B.
    pub fn command_in_b(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        command_in(self.ns_b(), program.as_ref())
    }

    /// Sets TCP's congestion control in both namespaces, for connections opened from now on.
    /// Without it they use the machine's default.
    ///
    /// # Errors
    /// [`PathError::Command`] when the kernel does not know it.
    pub fn set_congestion_control(&self, name: &str) -> Result<(), PathError> {
        for (ns, addr) in [(self.ns_a(), A4), (self.ns_b(), B4)] {
            // On the route: a namespace's own default is limited to what the machine allows all
            // users.
            let v4 = format!(
                "-n {ns} route replace 10.77.0.0/24 dev {ns} scope link src {addr} congctl {name}"
            );
            run(&v4.split(' ').collect::<Vec<_>>())?;
            let v6 = format!(
                "-n {ns} -6 route replace fd77::/64 dev {ns} proto kernel metric 256 congctl {name}"
            );
            // Fails on a kernel without IPv6.
            let _ = run(&v6.split(' ').collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Sets a kernel parameter of both namespaces: `sysctl("net.ipv4.tcp_slow_start_after_idle",
    /// "0")`.
    ///
    /// # Errors
    /// [`PathError::Command`] when the kernel does not know it or refuses the value.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), PathError> {
        sysctl(self.ns_a(), name, value)?;
        sysctl(self.ns_b(), name, value)
    }

    /// Sets the random loss of both directions, from the next packet on.
    ///
    /// # Errors
    /// [`PathError::Parameter`] when it is not a probability.
    pub fn set_loss(&self, probability: f64) -> Result<(), PathError> {
        self.change(Direction::AToB, |config| config.loss = probability)?;
        self.change(Direction::BToA, |config| config.loss = probability)
    }

    /// Changes one direction, from the next packet on. Packets in flight keep their times.
    ///
    /// # Errors
    /// [`PathError::Parameter`] when a parameter is out of its range; nothing changes then.
    pub fn change(
        &self,
        direction: Direction,
        change: impl FnOnce(&mut DirectionConfig),
    ) -> Result<(), PathError> {
        let other = self.way(match direction {
            Direction::AToB => Direction::BToA,
            Direction::BToA => Direction::AToB,
        });
        let other_delay = other.lock().config.delay;
        let mut wire = self.way(direction).lock();
        let mut config = wire.config.clone();
        change(&mut config);
        config.check()?;
        wire.round_trip = config.delay + other_delay;
        wire.config = config;
        let round_trip = wire.round_trip;
        drop(wire);
        other.lock().round_trip = round_trip;
        Ok(())
    }

    /// While true, all packets of both directions are dropped, including those in flight.
    pub fn set_cut(&self, cut: bool) {
        for direction in [Direction::AToB, Direction::BToA] {
            self.set_cut_one_way(direction, cut);
        }
    }

    /// Like [`Path::set_cut`] for one direction.
    pub fn set_cut_one_way(&self, direction: Direction, cut: bool) {
        let mut wire = self.way(direction).lock();
        wire.cut = cut;
        if cut {
            wire.stats.dropped_cut += wire.held.iter().map(|held| held.packets).sum::<u64>();
            wire.held.clear();
            wire.held_bytes = 0;
        }
    }

    /// The counters so far.
    pub fn stats(&self) -> PathStats {
        PathStats { a_to_b: self.ways[0].lock().stats, b_to_a: self.ways[1].lock().stats }
    }

    fn way(&self, direction: Direction) -> &OneWay {
        match direction {
            Direction::AToB => &self.ways[0],
            Direction::BToA => &self.ways[1],
        }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for way in &self.ways {
            way.stop();
        }
        let _ = self.event.trigger();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let config = PathConfig::default().loss(1.5);
        assert!(matches!(Path::open(config), Err(PathError::Parameter { name: "loss", .. })));
        let config = PathConfig { mtu: 100, ..PathConfig::default() };
        assert!(matches!(Path::open(config), Err(PathError::Parameter { name: "mtu", .. })));
    }
}
