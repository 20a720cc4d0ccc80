//! Network namespaces with tun devices, made and deleted by the `ip` program.

use super::{PathConfig, PathError};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Namespaces of this process that exist now; signal handlers delete them.
static OPEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
fn open_names() -> MutexGuard<'static, BTreeSet<String>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `ip`.
///
/// # Errors
/// [`PathError::Command`] when it cannot be started or fails.
pub(super) fn run(args: &[&str]) -> Result<(), PathError> {
    let failed =
        |said: String| PathError::Command { command: format!("ip {}", args.join(" ")), said };
    let output = Command::new("ip").args(args).output().map_err(|e| failed(e.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Deletes the namespaces of all open paths of this process. For a program that handles signals
/// itself and is about to exit.
pub fn clean_up() {
    for name in std::mem::take(&mut *open_names()) {
        let _ = run(&["netns", "delete", &name]);
    }
}

/// Deletes namespaces of processes that were killed. The names contain the process id.
pub(super) fn clean_up_stale() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|e| e.file_name().into_string().ok()) {
        let Some(pid) = name
            .strip_prefix("owp")
            .and_then(|rest| rest.split_once('n'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok())
        else {
            continue;
        };
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            let _ = run(&["netns", "delete", &name]);
        }
    }
}

/// One endpoint of a path: a namespace with a tun device.
pub(super) struct Endpoint {
    pub(super) namespace: String,
    pub(super) device: Arc<SyncDevice>,
}

impl Endpoint {
    /// Makes the namespace and its device, and brings the device up.
    ///
    /// # Errors
    /// The command or system call that failed.
    pub(super) fn open(
        namespace: &str,
        config: &PathConfig,
        v4: Ipv4Addr,
        v6: Ipv6Addr,
    ) -> Result<Endpoint, PathError> {
        let system = |doing| move |source| PathError::System { doing, source };
        open_names().insert(namespace.to_owned());
        run(&["netns", "add", namespace])?;
        let offload = config.offload;
        let device = DeviceBuilder::new()
            .name(namespace)
            .with(|builder| {
                builder.offload(offload);
            })
            // Not up before it has its addresses, so that no traffic of this namespace leaks into
            // it.
            .enable(false)
            .build_sync()
            .map_err(system("making a tun device"))?;
        device.set_nonblocking(true).map_err(system("making a tun device non-blocking"))?;
        // The descriptor stays valid when the device moves.
        run(&["link", "set", "dev", namespace, "netns", namespace])?;
        let mtu = config.mtu.to_string();
        run(&["-n", namespace, "link", "set", "dev", "lo", "up"])?;
        // A long queue, so that no burst is lost here: only the emulator may lose packets.
        run(&[
            "-n",
            namespace,
            "link",
            "set",
            "dev",
            namespace,
            "mtu",
            &mtu,
            "txqueuelen",
            "10000",
        ])?;
        run(&["-n", namespace, "address", "add", &format!("{v4}/24"), "dev", namespace])?;
        // Fails on a kernel without IPv6; the path then has IPv4 only.
        let _ = run(&[
            "-n",
            namespace,
            "address",
            "add",
            &format!("{v6}/64"),
            "dev",
            namespace,
            "nodad",
        ]);
        if let Some(max) = config.tcp_buffer_max {
            sysctl(namespace, "net.ipv4.tcp_rmem", &format!("4096 131072 {max}"))?;
            sysctl(namespace, "net.ipv4.tcp_wmem", &format!("4096 65536 {max}"))?;
        }
        run(&["-n", namespace, "link", "set", "dev", namespace, "up"])?;
        Ok(Endpoint { namespace: namespace.to_owned(), device: Arc::new(device) })
    }
}

/// Sets a kernel parameter of a namespace.
///
/// # Errors
/// [`PathError::Command`] when the kernel does not know it or refuses the value.
pub(super) fn sysctl(namespace: &str, name: &str, value: &str) -> Result<(), PathError> {
    // Through /proc, since the sysctl program may be missing.
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    run(&["netns", "exec", namespace, "sh", "-c", "printf %s \"$1\" > \"$2\"", "sh", value, &file])
}

/// Deletes its namespace when dropped: when the path ends, or when opening it fails halfway.
pub(super) struct Namespace(pub(super) String);

impl Drop for Namespace {
    fn drop(&mut self) {
        if open_names().remove(&self.0) {
            let _ = run(&["netns", "delete", &self.0]);
        }
    }
}

/// A command that runs `program` in a namespace. `ip` replaces itself by the program, so the
/// child's id is the program's.
pub(super) fn command_in(namespace: &str, program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}
