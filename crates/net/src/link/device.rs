//! The tun device of a link: made, addressed, and routed to.

use super::LinkError;
use ipnet::IpNet;
use std::io;
use std::process::Command;
use tun_rs::{AsyncDevice, DeviceBuilder};

/// Packets that the device's queue holds. The default of 500 loses packets of fast flows.
const QUEUE: u32 = 1000;

/// Parameters of the device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Name of the device, up to 15 bytes.
    pub name: String,
    /// Addresses of this end in the device's networks.
    pub addresses: Vec<IpNet>,
    /// Longest packet in bytes.
    pub mtu: u16,
    /// Networks that are routed to the device.
    pub routes: Vec<IpNet>,
}

/// The device while the link runs.
pub(super) enum Device {
    Tun(AsyncDevice),
    /// There is none: a node where no packets enter.
    None,
    /// Packets from and to a test.
    #[cfg(test)]
    Memory(super::tests::MemoryDevice),
}

impl Device {
    /// The next packet or run, with its virtio header.
    pub(super) async fn recv(&self, frame: &mut [u8]) -> io::Result<usize> {
        match self {
            Device::Tun(device) => device.recv(frame).await,
            Device::None => std::future::pending().await,
            #[cfg(test)]
            Device::Memory(device) => device.recv(frame).await,
        }
    }

    /// The same, if one is there.
    pub(super) fn try_recv(&self, frame: &mut [u8]) -> io::Result<usize> {
        match self {
            Device::Tun(device) => device.try_recv(frame),
            Device::None => Err(io::ErrorKind::WouldBlock.into()),
            #[cfg(test)]
            Device::Memory(device) => device.try_recv(frame),
        }
    }

    /// Writes a packet or a run with its virtio header.
    pub(super) async fn send(&self, frame: &[u8]) -> io::Result<usize> {
        match self {
            Device::Tun(device) => device.send(frame).await,
            Device::None => Err(io::ErrorKind::NotConnected.into()),
            #[cfg(test)]
            Device::Memory(device) => device.send(frame),
        }
    }

    /// Changes the MTU.
    pub(super) fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        match self {
            Device::Tun(device) => device.set_mtu(mtu),
            Device::None => Ok(()),
            #[cfg(test)]
            Device::Memory(_) => Ok(()),
        }
    }

    /// Whether it takes runs of UDP: since Linux 6.2.
    pub(super) fn udp_gso(&self) -> bool {
        match self {
            Device::Tun(device) => device.udp_gso(),
            Device::None => false,
            #[cfg(test)]
            Device::Memory(_) => true,
        }
    }
}

/// Makes the device. Needs the capability CAP_NET_ADMIN.
///
/// # Errors
/// [`LinkError::Device`] or [`LinkError::Ip`].
pub(super) fn open(config: &DeviceConfig) -> Result<Device, LinkError> {
    open_with(config, true)
}

/// Makes a device whose packets have no header before them, and complete checksums: the hash of a
/// packet's headers covers its checksum.
///
/// # Errors
/// As [`open`].
pub(super) fn open_plain(config: &DeviceConfig) -> Result<Device, LinkError> {
    open_with(config, false)
}

fn open_with(config: &DeviceConfig, offload: bool) -> Result<Device, LinkError> {
    let failed = |source| LinkError::Device { name: config.name.clone(), source };
    let device = DeviceBuilder::new()
        .name(&config.name)
        .mtu(config.mtu)
        .tx_queue_len(QUEUE)
        .offload(offload)
        // Up once it has its addresses.
        .enable(false)
        .build_async()
        .map_err(failed)?;
    let name = &config.name;
    for address in &config.addresses {
        ip(&["address", "add", &address.to_string(), "dev", name])?;
    }
    ip(&["link", "set", "dev", name, "up"])?;
    for route in &config.routes {
        let family = if route.addr().is_ipv4() { "-4" } else { "-6" };
        ip(&[family, "route", "replace", &route.trunc().to_string(), "dev", name])?;
    }
    Ok(Device::Tun(device))
}

/// Runs the `ip` program.
fn ip(args: &[&str]) -> Result<(), LinkError> {
    let command = || format!("ip {}", args.join(" "));
    let output = Command::new("ip").args(args).output();
    let output =
        output.map_err(|error| LinkError::Ip { command: command(), said: error.to_string() })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LinkError::Ip { command: command(), said })
}
