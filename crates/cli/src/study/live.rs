//! Packets of an interface, as they come.

use crate::failure::{Failure, Outcome};
use oncewire_packet::{LinkType, Record};
use pnet_datalink::{Channel, Config, NetworkInterface};
use std::fs::read_to_string;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Longest packet that is taken whole: an offloaded segment of 64 KiB with its headers.
const LONGEST: usize = 128 << 10;

/// What was captured, as the interface counted it meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Captured {
    pub(super) packets: u64,
    /// Packets that the interface received and sent in that time, if the system tells. More than `packets` means that some were lost to the
    /// study.
    pub(super) seen: Option<u64>,
}

/// Gives every packet of the interface to `take`, until `duration` has passed, `enough` is set or `take` fails.
pub(super) fn capture(
    name: &str,
    duration: Option<Duration>,
    enough: &AtomicBool,
    mut take: impl FnMut(&Record<'_>) -> Outcome,
) -> Outcome<Captured> {
    let interfaces = pnet_datalink::interfaces();
    let interface = interfaces.iter().find(|interface| interface.name == name).ok_or_else(|| {
        let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        Failure::usage(format!("there is no interface {name}; use one of {}", names.join(", ")))
    })?;
    let link = link_type(name)?;
    let config = Config {
        read_buffer_size: LONGEST,
        // How often the end is looked for when nothing comes.
        read_timeout: Some(Duration::from_millis(100)),
        ..Config::default()
    };
    let mut receiver = match pnet_datalink::channel(interface, config) {
        Ok(Channel::Ethernet(_, receiver)) => receiver,
        Ok(_) => return Err(Failure::failed(format!("cannot capture from {name}: its kind of link is not supported"))),
        Err(error) => return Err(denied(name, &error)),
    };
    let before = counted(interface);
    let begun = Instant::now();
    let mut captured = Captured { packets: 0, seen: None };
    while !enough.load(Ordering::Relaxed) && duration.is_none_or(|duration| begun.elapsed() < duration) {
        match receiver.next() {
            Ok(data) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let time = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
                let wire_len = u32::try_from(data.len()).unwrap_or(u32::MAX);
                captured.packets += 1;
                take(&Record { time, link, wire_len, data })?;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io("capture from", name, &error)),
        }
    }
    captured.seen = before.zip(counted(interface)).map(|(before, after)| after.saturating_sub(before));
    Ok(captured)
}

fn denied(name: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Failure::failed(format!(
            "cannot capture from {name}: it needs the right to; run it as root, give the program CAP_NET_RAW (setcap cap_net_raw+ep), or pipe \
             `tcpdump -i {name} -s 0 -w -` into `oncewire study -`"
        ));
    }
    Failure::io("capture from", name, error)
}

/// What the packets of an interface begin with, by the kernel's ARPHRD number.
fn link_type(name: &str) -> Outcome<LinkType> {
    let kind = read_to_string(format!("/sys/class/net/{name}/type")).unwrap_or_default();
    match kind.trim() {
        // Ethernet, and the loopback with its empty addresses.
        "1" | "772" | "" => Ok(LinkType::ETHERNET),
        // tun, PPP, IP in IP: packets begin with IP.
        "65534" | "512" | "768" | "769" | "776" | "778" => Ok(LinkType::RAW),
        "801" => Ok(LinkType::IEEE802_11),
        "803" => Ok(LinkType::IEEE802_11_RADIOTAP),
        other => Err(Failure::failed(format!(
            "cannot capture from {name}: its packets are of a kind (ARPHRD {other}) that only tcpdump knows; pipe `tcpdump -i {name} -s 0 -w -` into \
             `oncewire study -`"
        ))),
    }
}

/// Packets received and sent by the interface so far. On the loopback each is both, and seen twice by a capture too.
fn counted(interface: &NetworkInterface) -> Option<u64> {
    let of = |what: &str| {
        let path = format!("/sys/class/net/{}/statistics/{what}_packets", interface.name);
        read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    Some(of("rx")? + of("tx")?)
}
