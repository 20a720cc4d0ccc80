//! Between an application's connection and a flow.

use crate::driver::{Driver, FlowSignals};
use crate::transport::reset_on_drop;
use oncewire_session::{FlowId, Read, ResetCode};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Bytes read from an application at once: a block.
const READ: usize = 64 << 10;

thread_local! {
    /// One buffer a thread, not one a flow: thousands of flows are idle. It is never held across an await.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// How an application's direction ended.
enum End {
    /// Finished in order.
    Finished,
    /// Its connection was reset, or failed.
    Failed,
    /// The flow is gone: the peer reset it, or the session ended.
    Gone,
}

/// What only part of a client's bytes may pass; see [`crate::ways_in::Wanted::rest`].
pub(crate) type Limit = Option<u64>;

/// Carries bytes both ways until both directions have finished or the flow is reset. `limit` is how many bytes of the application
/// go; more are read and dropped.
pub(crate) async fn pump(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals, application: TcpStream, limit: Limit) {
    let (reader, mut writer) = application.into_split();
    let up = upward(driver, flow, signals, &reader, limit);
    let down = downward(driver, flow, signals, &mut writer);
    let both = async {
        tokio::pin!(up, down);
        // The first failure ends both; a direction that has finished in order leaves the other alone.
        tokio::select! {
            end = &mut up => match end { End::Finished => down.await, end => end },
            end = &mut down => match end {
                End::Finished => up.await,
                // It reads no more, but may have said why.
                End::Failed => hear_out(driver, flow, signals, up).await,
                End::Gone => End::Gone,
            },
        }
    };
    let end = tokio::select! {
        end = both => end,
        () = signals.gone.notified() => End::Gone,
    };
    match end {
        End::Finished => {}
        End::Failed => {
            driver.with(|session| session.reset(flow, ResetCode::Reset));
            reset_on_drop(writer.as_ref());
        }
        End::Gone => reset_on_drop(writer.as_ref()),
    }
    driver.forget(flow);
    drop(reader);
    // Dropping the half would shut down in order what is to be reset.
    writer.forget();
}

/// An application that has stopped reading in the middle may have answered before: what it says still goes to the peer, and what comes from there
/// goes nowhere.
async fn hear_out(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals, up: impl Future<Output = End>) -> End {
    let rest = discard(driver, flow, signals);
    tokio::pin!(rest, up);
    let said = tokio::select! {
        end = &mut up => end,
        () = &mut rest => return up.await,
    };
    match said {
        // A reset would overtake its answer at the peer's application.
        End::Finished if tokio::time::timeout(ANSWER_TIME, rest).await.is_ok() => End::Finished,
        End::Finished | End::Failed => End::Failed,
        End::Gone => End::Gone,
    }
}

/// Time that an application has to read an answer to what it is still sending.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Takes what comes from the peer until it has finished.
async fn discard(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals) {
    loop {
        match driver.with(|session| session.read(flow)) {
            Some(Read::Data(chunk)) => {
                driver.with(|session| session.consumed(flow, chunk.len(), Instant::now()));
            }
            Some(Read::Nothing) => signals.readable.notified().await,
            Some(Read::Finished | Read::Gone) | None => return,
        }
    }
}

/// Application to flow.
async fn upward(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals, reader: &OwnedReadHalf, mut limit: Limit) -> End {
    loop {
        if reader.readable().await.is_err() {
            return End::Failed;
        }
        let Some(room) = driver.with(|session| session.room(flow)) else { return End::Gone };
        if room == 0 {
            if signals.reset().is_some() {
                return End::Gone;
            }
            signals.writable.notified().await;
            continue;
        }
        let read = BUFFER.with_borrow_mut(|buffer| {
            let most = room.min(buffer.len());
            let len = reader.try_read(&mut buffer[..most])?;
            let passed = limit.map_or(len, |left| len.min(usize::try_from(left).unwrap_or(usize::MAX)));
            let taken = driver.with(|session| session.write(flow, &buffer[..passed])).unwrap_or(passed);
            // The budget may have been used up by others meanwhile: the rest must wait.
            io::Result::Ok((len, passed, buffer[taken..passed].to_vec()))
        });
        match read {
            Ok((0, ..)) => {
                driver.with(|session| session.finish(flow));
                return End::Finished;
            }
            Ok((_, passed, left)) => {
                driver.note_activity();
                limit = limit.map(|rest| rest - passed as u64);
                if !write_all(driver, flow, signals, &left).await {
                    return End::Gone;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return End::Failed,
        }
    }
}

/// Writes all of `bytes` to a flow; `false` if it is gone.
pub(crate) async fn write_all(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some(taken) = driver.with(|session| session.write(flow, bytes)) else { return false };
        bytes = &bytes[taken..];
        if signals.reset().is_some() {
            return false;
        }
        if !bytes.is_empty() {
            signals.writable.notified().await;
        }
    }
    true
}

/// Flow to application.
async fn downward(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals, writer: &mut OwnedWriteHalf) -> End {
    loop {
        match driver.with(|session| session.read(flow)) {
            Some(Read::Data(chunk)) => {
                let written = writer.write_all(&chunk).await;
                driver.note_activity();
                // Even if not all of it arrived: nothing of it is held any more.
                driver.with(|session| session.consumed(flow, chunk.len(), Instant::now()));
                if written.is_err() {
                    return End::Failed;
                }
            }
            Some(Read::Finished) => {
                return if writer.shutdown().await.is_ok() { End::Finished } else { End::Failed };
            }
            Some(Read::Nothing) => signals.readable.notified().await,
            Some(Read::Gone) | None => return End::Gone,
        }
    }
}
