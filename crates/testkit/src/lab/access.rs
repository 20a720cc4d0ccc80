//! The access side of a node: a packet socket on its tun device.

use super::LabError;
use super::traffic::LONGEST;
use pnet_datalink::{Channel, Config, DataLinkReceiver, DataLinkSender};
use std::time::{Duration, Instant};

/// How long a device may take to appear.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a look for packets takes, so that the socket's thread sees the end.
const LOOK: Duration = Duration::from_millis(50);

/// What enters and leaves at a node.
pub(super) struct Access {
    pub(super) sender: Box<dyn DataLinkSender>,
    pub(super) receiver: Box<dyn DataLinkReceiver>,
}

impl Access {
    /// Waits for the device, which its node makes.
    pub(super) fn open(device: &str) -> Result<Access, LabError> {
        let begun = Instant::now();
        loop {
            let interfaces = pnet_datalink::interfaces();
            let found = interfaces.iter().find(|one| one.name == device && one.is_up());
            if let Some(interface) = found {
                let config = Config {
                    read_buffer_size: LONGEST + 100,
                    write_buffer_size: LONGEST + 100,
                    read_timeout: Some(LOOK),
                    ..Config::default()
                };
                let opened = pnet_datalink::channel(interface, config)
                    .map_err(LabError::system(format!("a packet socket on {device}")))?;
                return match opened {
                    Channel::Ethernet(sender, receiver) => Ok(Access { sender, receiver }),
                    _ => Err(LabError::Unavailable("no packet sockets".into())),
                };
            }
            if begun.elapsed() > PATIENCE {
                let what = format!("there is no access device {device}");
                return Err(LabError::Slow(what, PATIENCE));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
