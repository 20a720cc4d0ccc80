//! A link between two nodes: a UDP relay that counts bytes, and may lose datagrams.

use super::LabError;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Receive buffer of a cable, in bytes: no datagram is lost but those that should be.
const BUFFER: usize = 8 << 20;
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shared {
    /// Bytes of datagrams that entered in both directions.
    bytes: AtomicU64,
    ended: AtomicBool,
    /// The end that connects.
    client: Mutex<Option<SocketAddr>>,
}

/// A running cable. It is cut when this is dropped.
pub(super) struct Cable {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Cable {
    /// From `port`, where one end connects to, to the port `to` of the other.
    pub(super) fn open(port: u16, to: u16, loss: f64, seed: u64) -> Result<Cable, LabError> {
        let failed = |source| LabError::System { doing: format!("a cable at {port}"), source };
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let front = UdpSocket::bind(local(port)).map_err(failed)?;
        let back = UdpSocket::bind(local(0)).map_err(failed)?;
        back.connect(local(to)).map_err(failed)?;
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
            setsockopt(socket, sockopt::RcvBufForce, &BUFFER)
                .map_err(|error| failed(error.into()))?;
        }
        let shared = Arc::new(Shared::default());
        let (front, back) = (Arc::new(front), Arc::new(back));
        let threads =
            [(0, front.clone(), back.clone()), (1, back, front)].map(|(way, from, to)| {
                let shared = shared.clone();
                let mut random = fastrand::Rng::with_seed(2 * seed + way);
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 65_536];
                    while !shared.ended.load(Relaxed) {
                        // An end that is not there yet refuses datagrams; its error comes here.
                        let Ok((len, source)) = from.recv_from(&mut buffer) else { continue };
                        let mut client =
                            shared.client.lock().unwrap_or_else(PoisonError::into_inner);
                        let target = *client;
                        if way == 0 {
                            *client = Some(source);
                        }
                        drop(client);
                        shared.bytes.fetch_add(len as u64, Relaxed);
                        if loss > 0.0 && random.f64() < loss {
                            continue;
                        }
                        let _ = match (way, target) {
                            (0, _) => to.send(&buffer[..len]),
                            (_, Some(client)) => to.send_to(&buffer[..len], client),
                            (_, None) => Ok(0),
                        };
                    }
                })
            });
        Ok(Cable { shared, threads: threads.into() })
    }

    /// Bytes of datagrams that entered it, in both directions.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
