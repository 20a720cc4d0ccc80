//! A controller as a process: signals and the operator's socket.

use super::operator::{self, Answer, Codec, Request};
use super::{ControllerConfig, ControllerError};
use crate::daemon::bind_status;
use crate::endpoint::NetError;
use crate::service;
use std::net::SocketAddr;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tracing::info;

/// Runs a controller until SIGTERM or SIGINT. `read` and `write` are JSON of requests and answers on
/// the operator's socket.
///
/// # Errors
/// [`ControllerError`] if it cannot start.
pub fn run(
    config: ControllerConfig,
    socket: Option<&Path>,
    read: fn(&[u8]) -> Result<Request, String>,
    write: fn(&Answer) -> String,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ControllerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(NetError::Runtime)?;
    let result = runtime.block_on(async {
        let signals = |kind| signal(kind).map_err(NetError::Runtime);
        let (mut term, mut int) =
            (signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?);
        let listener = socket.map(bind_status).transpose()?;
        let controller = super::start(config).await?;
        let mut answering = JoinSet::new();
        if let Some(listener) = listener {
            let codec = Codec { read, write };
            answering.spawn(operator::serve(listener, controller.desk(), codec));
        }
        ready(controller.address());
        let watchdog = service::ready("plans", Vec::new());
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        service::stopping();
        drop(watchdog);
        info!("stopping");
        answering.shutdown().await;
        controller.stop().await;
        if let Some(path) = socket {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    });
    runtime.shutdown_background();
    result
}
