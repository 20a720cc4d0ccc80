//! A controller as a process: signals and the operator's socket.

use super::Status;
use super::operator::{self, Answer, Codec, Request};
use super::{ControllerConfig, ControllerError, EtcdAt, Seat, StoreAt};
#[cfg(feature = "etcd")]
use super::{ControllerStoreError, store::Store};
use crate::admin::{Admin, Site, Watched, of_controller};
use crate::daemon::{Stop, bind_admin, bind_status, two_threads};
use crate::service;
use std::net::SocketAddr;
use std::path::Path;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::info;
#[cfg(feature = "etcd")]
use tracing::warn;

/// Runs a controller until SIGTERM or SIGINT: of several with one etcd, one leads, and others wait.
/// `read` and `write` are JSON of requests and answers on the operator's socket, and `site` what is
/// answered at `admin`. `ready` is told where it listens for nodes whenever it begins to.
///
/// # Errors
/// [`ControllerError`] if it cannot start.
pub fn run(
    config: ControllerConfig,
    socket: Option<&Path>,
    (admin, site): (Option<Admin>, Site<Status>),
    read: fn(&[u8]) -> Result<Request, String>,
    write: fn(&Answer) -> String,
    ready: impl Fn(SocketAddr),
) -> Result<(), ControllerError> {
    let runtime = two_threads()?;
    let result = runtime.block_on(async {
        let mut stop = Stop::listen()?;
        let listener = socket.map(bind_status).transpose()?;
        let admin = bind_admin(admin.as_ref()).await?;
        let seat = Seat::empty("it is starting");
        let mut answering = JoinSet::new();
        if let Some(admin) = admin {
            let (seat, runtime) = (seat.clone(), Handle::current());
            // Asked on a thread that may wait.
            let state = move || match runtime.block_on(seat.answer(Request::Status)) {
                Answer::Status(status) => Some(*status),
                _ => None,
            };
            answering.spawn(admin.run(Watched { state, site, metrics: of_controller }));
        }
        if let Some(listener) = listener {
            let codec = Codec { read, write };
            answering.spawn(operator::serve(listener, seat.clone(), codec));
        }
        let served = match config.store.clone() {
            StoreAt::File(_) => alone(config, &seat, &mut stop, ready).await,
            StoreAt::Etcd(at) => one_of_several(config, &at, &seat, &mut stop, ready).await,
        };
        answering.shutdown().await;
        if let Some(path) = socket {
            let _ = std::fs::remove_file(path);
        }
        served
    });
    runtime.shutdown_background();
    result
}

/// Serves until it is to stop.
async fn alone(
    config: ControllerConfig,
    seat: &Seat,
    stop: &mut Stop,
    ready: impl Fn(SocketAddr),
) -> Result<(), ControllerError> {
    let controller = super::start(config).await?;
    seat.set(Ok(controller.desk()));
    ready(controller.address());
    let watchdog = service::ready("plans", Vec::new());
    stop.wait().await;
    service::stopping();
    drop(watchdog);
    info!("stopping");
    controller.stop().await;
    Ok(())
}

#[cfg(not(feature = "etcd"))]
async fn one_of_several(
    _: ControllerConfig,
    at: &EtcdAt,
    _: &Seat,
    _: &mut Stop,
    _: impl Fn(SocketAddr),
) -> Result<(), ControllerError> {
    let source = super::ControllerStoreError::NoEtcd;
    Err(ControllerError::Store { path: at.to_string(), source })
}

/// Serves whenever it leads, until it is to stop.
#[cfg(feature = "etcd")]
async fn one_of_several(
    config: ControllerConfig,
    at: &EtcdAt,
    seat: &Seat,
    stop: &mut Stop,
    ready: impl Fn(SocketAddr),
) -> Result<(), ControllerError> {
    let watchdog = service::ready("plans, or waits for another controller", Vec::new());
    let name = format!("controller {} on {}", config.secret.public(), config.listen);
    loop {
        let leading = super::etcd::lead(at, &name, |why| seat.set(Err(why.into())));
        let leader = tokio::select! {
            leader = leading => std::sync::Arc::new(leader),
            () = stop.wait() => break,
        };
        let failed = |source| ControllerError::Store { path: at.to_string(), source };
        let record = match leader.read().await {
            Ok(record) => record,
            // It may be back in a moment, or another leads then.
            Err(error @ (ControllerStoreError::Etcd(_) | ControllerStoreError::Deposed)) => {
                warn!(%error, store = %at, "the plan cannot be read");
                leader.resign().await;
                continue;
            }
            Err(error) => {
                leader.resign().await;
                return Err(failed(error));
            }
        };
        let epoch = leader.epoch();
        let store = Store::Etcd(leader.clone());
        let controller = match super::begin(config.clone(), store, record, Some(epoch)).await {
            Ok(controller) => controller,
            Err(error) => {
                leader.resign().await;
                return Err(error);
            }
        };
        seat.set(Ok(controller.desk()));
        info!(epoch, "this controller leads");
        ready(controller.address());
        let stops = tokio::select! {
            () = stop.wait() => true,
            () = leader.lost() => false,
        };
        seat.set(Err("it leads no more".into()));
        controller.stop().await;
        leader.resign().await;
        if stops {
            break;
        }
        warn!(epoch, "this controller leads no more");
    }
    service::stopping();
    drop(watchdog);
    info!("stopping");
    Ok(())
}
