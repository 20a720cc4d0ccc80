//! A controller as a process: signals and the operator's socket.

use super::Status;
use super::operator::{self, Answer, Codec, Request};
use super::{ControllerConfig, ControllerError};
use crate::admin::{Admin, Site, Watched, of_controller};
use crate::daemon::{Stop, bind_admin, bind_status, two_threads};
use crate::service;
use std::net::SocketAddr;
use std::path::Path;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::info;

/// Runs a controller until SIGTERM or SIGINT. `read` and `write` are JSON of requests and answers on
/// the operator's socket, and `site` what is answered at `admin`.
///
/// # Errors
/// [`ControllerError`] if it cannot start.
pub fn run(
    config: ControllerConfig,
    socket: Option<&Path>,
    (admin, site): (Option<Admin>, Site<Status>),
    read: fn(&[u8]) -> Result<Request, String>,
    write: fn(&Answer) -> String,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ControllerError> {
    let runtime = two_threads()?;
    let result = runtime.block_on(async {
        let mut stop = Stop::listen()?;
        let listener = socket.map(bind_status).transpose()?;
        let admin = bind_admin(admin.as_ref()).await?;
        let controller = super::start(config).await?;
        let mut answering = JoinSet::new();
        if let Some(admin) = admin {
            let (desk, runtime) = (controller.desk(), Handle::current());
            // Asked on a thread that may wait.
            let state = move || match runtime.block_on(desk.answer(Request::Status)) {
                Answer::Status(status) => Some(*status),
                _ => None,
            };
            answering.spawn(admin.run(Watched { state, site, metrics: of_controller }));
        }
        if let Some(listener) = listener {
            let codec = Codec { read, write };
            answering.spawn(operator::serve(listener, controller.desk(), codec));
        }
        ready(controller.address());
        let watchdog = service::ready("plans", Vec::new());
        stop.wait().await;
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
