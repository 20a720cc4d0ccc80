//! CPU time, memory, descriptors and threads of this process, from `/proc` (proc(5)), under the
//! names and with the help texts that Prometheus asks of client libraries.

use nix::unistd::{SysconfVar, sysconf};
use oncewire_session::MetricKind;
use std::fs;

/// A metric of this process.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricKind,
    pub(super) value: f64,
}

/// What `/proc` tells. A metric whose file cannot be read or understood is left out.
pub(super) fn measure() -> Vec<Measured> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    let memory = read("/proc/self/status");
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().map(|ticks| ticks as f64);
    let times = ticks.and_then(|ticks| times(&stat, ticks));
    let start = times.and_then(|(_, after)| Some(boot_time(&read("/proc/stat"))? + after));
    let gauge = |name, help, value| (name, help, MetricKind::Gauge, value);
    let all = [
        (
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            MetricKind::Counter,
            times.map(|(cpu, _)| cpu),
        ),
        // The directory that is being read has a descriptor of its own.
        gauge(
            "process_open_fds",
            "Number of open file descriptors.",
            fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1) as f64),
        ),
        gauge(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            most_descriptors(&read("/proc/self/limits")),
        ),
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            kilobytes(&memory, "VmSize:"),
        ),
        gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            kilobytes(&memory, "VmRSS:"),
        ),
        gauge(
            "process_threads",
            "Number of OS threads in the process.",
            field(&memory, "Threads:"),
        ),
        gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            start,
        ),
    ];
    let found = all
        .into_iter()
        .filter_map(|(name, help, kind, value)| Some(Measured { name, help, kind, value: value? }));
    found.collect()
}

/// CPU time, and the start after boot, both in seconds: fields 14, 15 and 22 of `/proc/PID/stat`.
fn times(stat: &str, ticks: f64) -> Option<(f64, f64)> {
    // The second field is the program's name in parentheses, which may hold any of them itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let seconds = |field: usize| Some(fields.get(field - 3)?.parse::<f64>().ok()? / ticks);
    Some((seconds(14)? + seconds(15)?, seconds(22)?))
}

/// The time of boot in seconds since the epoch, from `/proc/stat`.
fn boot_time(stat: &str) -> Option<f64> {
    field(stat, "btime ")
}

/// The soft limit of descriptors, from `/proc/PID/limits`. `None` if there is none.
fn most_descriptors(limits: &str) -> Option<f64> {
    field(limits, "Max open files")
}

/// Bytes of a line in kilobytes.
fn kilobytes(text: &str, label: &str) -> Option<f64> {
    Some(field(text, label)? * 1024.0)
}

/// The number after a label that begins a line.
fn field(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        let stat = "7 (a) R 1 (b) S 1 7 7 0 -1 0 1 2 3 4 150 50 0 0 20 0 9 0 1200 5 6";
        assert_eq!(times(stat, 100.0), Some((2.0, 12.0)));
        assert_eq!(times("", 100.0), None);
        assert_eq!(times("7 (a) S 1", 100.0), None);
    }

    #[test]
    fn an_absent_limit_has_no_number() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files";
        assert_eq!(most_descriptors(limits), Some(1024.0));
        assert_eq!(most_descriptors("Max open files   unlimited   unlimited   files"), None);
    }

    #[test]
    fn this_process_has_them_all() {
        let measured = measure();
        let of = |name: &str| measured.iter().find(|metric| metric.name == name).unwrap().value;
        assert_eq!(measured.len(), 7);
        assert!(of("process_open_fds") >= 1.0 && of("process_open_fds") <= of("process_max_fds"));
        assert!(of("process_resident_memory_bytes") > 65536.0);
        assert!(of("process_virtual_memory_bytes") >= of("process_resident_memory_bytes"));
        assert!(of("process_threads") >= 1.0 && of("process_cpu_seconds_total") >= 0.0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let start = of("process_start_time_seconds");
        assert!(start > 1.0e9 && start <= now + 2.0, "{start} {now}");
    }
}
