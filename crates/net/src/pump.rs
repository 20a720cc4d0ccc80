//! Copies bytes between an application's connection and a flow.

use crate::driver::{Driver, FlowSignals};
use crate::sockets::reset_on_drop;
use oncewire_session::{FlowId, Read, ResetCode};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Bytes read from an application at once: one block.
const READ: usize = 64 << 10;

/// Bytes written to an application at once, or a little more.
const WRITE: usize = 256 << 10;

thread_local! {
    /// One buffer per thread, because thousands of flows may be idle. It is never held across an
    /// await.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How one direction of a connection ended.
enum DirectionEnd {
    /// It was finished in order.
    Finished,
    /// The connection was reset, or failed.
    Failed,
    /// The flow is gone: the peer reset it, or the session ended.
    Gone,
}

/// How many more bytes of the client belong to this flow; see [`crate::proxy::Request::rest`].
pub(crate) type Limit = Option<u64>;

/// A connection of an application, in two halves that one task uses.
pub(crate) trait Application {
    type Reader: AsyncRead + Unpin;
    type Writer: AsyncWrite + Unpin;

    fn divide(self) -> (Self::Reader, Self::Writer);
    /// Ends the sending half of the connection, without the end that its protocol has.
    async fn cut(writer: &mut Self::Writer) -> io::Result<()>;
    /// The connection is to be reset, not finished, when it is dropped.
    fn reset(writer: &Self::Writer);
    /// Drops the sending half without finishing it.
    fn discard(writer: Self::Writer);
}

impl Application for TcpStream {
    type Reader = OwnedReadHalf;
    type Writer = OwnedWriteHalf;

    fn divide(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        self.into_split()
    }

    async fn cut(writer: &mut OwnedWriteHalf) -> io::Result<()> {
        // TCP has no other end.
        writer.shutdown().await
    }

    fn reset(writer: &OwnedWriteHalf) {
        reset_on_drop(writer.as_ref());
    }

    fn discard(writer: OwnedWriteHalf) {
        // Dropping the half would finish in order a connection that must be reset.
        writer.forget();
    }
}

/// Copies both ways until both directions have finished or the flow is reset. Bytes of the
/// application beyond `limit` are read and discarded. Returns in a word or two how it ended.
pub(crate) async fn pump(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    application: impl Application,
    limit: Limit,
) -> &'static str {
    pump_after(driver, flow, signals, application, limit, Vec::new()).await
}

/// [`pump`], after the application has got `first`, which was read from the flow.
pub(crate) async fn pump_after<A: Application>(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    application: A,
    limit: Limit,
    first: Vec<u8>,
) -> &'static str {
    let (mut reader, mut writer) = application.divide();
    let up = upward(driver, flow, signals, &mut reader, limit);
    let down = downward::<A>(driver, flow, signals, &mut writer, first);
    let both = async {
        tokio::pin!(up, down);
        // The first failure ends both. A direction that finished in order leaves the other alone.
        tokio::select! {
            end = &mut up => match end { DirectionEnd::Finished => down.await, end => end },
            end = &mut down => match end {
                DirectionEnd::Finished => up.await,
                // The application reads no more, but may have sent an answer.
                DirectionEnd::Failed => drain_answer(driver, flow, signals, up).await,
                DirectionEnd::Gone => DirectionEnd::Gone,
            },
        }
    };
    let end = tokio::select! {
        end = both => end,
        () = signals.gone.notified() => DirectionEnd::Gone,
    };
    let how = match end {
        DirectionEnd::Finished => "finished",
        DirectionEnd::Failed => {
            driver.with(|session| session.reset(flow, ResetCode::Reset));
            A::reset(&writer);
            "reset here"
        }
        DirectionEnd::Gone => {
            A::reset(&writer);
            "reset by the other end"
        }
    };
    driver.forget(flow);
    drop(reader);
    A::discard(writer);
    how
}

/// Lets an application that has stopped reading finish what it sends, such as an error response to
/// an upload. What the peer sends meanwhile is discarded.
async fn drain_answer(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    up: impl Future<Output = DirectionEnd>,
) -> DirectionEnd {
    let rest = discard(driver, flow, signals);
    tokio::pin!(rest, up);
    let said = tokio::select! {
        end = &mut up => end,
        () = &mut rest => return up.await,
    };
    match said {
        // A reset would overtake its answer at the peer's application.
        DirectionEnd::Finished if tokio::time::timeout(ANSWER_TIME, rest).await.is_ok() => {
            DirectionEnd::Finished
        }
        DirectionEnd::Finished | DirectionEnd::Failed => DirectionEnd::Failed,
        DirectionEnd::Gone => DirectionEnd::Gone,
    }
}

/// How long the peer's application has to read an answer while it is still sending.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Discards what the peer sends until it has finished.
async fn discard(driver: &Arc<Driver>, flow: FlowId, signals: &FlowSignals) {
    loop {
        match driver.with(|session| session.read(flow)) {
            Some(Read::Data(chunk)) => {
                driver.with(|session| session.consumed(flow, chunk.len(), Instant::now()));
            }
            Some(Read::Nothing) => signals.readable.notified().await,
            Some(Read::Finished | Read::Cut | Read::Gone) | None => return,
        }
    }
}

/// What became of an attempt to read from an application.
enum Upward {
    /// Bytes read, of which some were to be passed on; the flow did not take the `rest` of these.
    Read { len: usize, passed: usize, rest: Vec<u8> },
    /// The flow takes nothing now.
    NoRoom,
    /// The session was taken away.
    Gone,
}

/// Application to flow.
async fn upward(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    reader: &mut (impl AsyncRead + Unpin),
    mut limit: Limit,
) -> DirectionEnd {
    loop {
        // A read that fills less than the buffer does not ask again whether there is more
        // ([`tokio::io::AsyncRead`]), so an application that sends little costs one system call.
        let read = poll_fn(|context| {
            BUFFER.with_borrow_mut(|buffer| {
                // As it is now: the application may have been silent for long.
                let Some(room) = driver.with(|session| session.room(flow)) else {
                    return Poll::Ready(Ok(Upward::Gone));
                };
                if room == 0 {
                    return Poll::Ready(Ok(Upward::NoRoom));
                }
                buffer.clear();
                buffer.reserve_exact(READ);
                let mut part = (&mut *reader).take(room.min(READ) as u64);
                let len = ready!(pin!(part.read_buf(&mut *buffer)).poll(context))?;
                let passed =
                    limit.map_or(len, |left| len.min(usize::try_from(left).unwrap_or(usize::MAX)));
                buffer.truncate(passed);
                let taken =
                    driver.with(|session| session.write_buffer(flow, buffer)).unwrap_or(passed);
                // Other flows may have used up the budget: the rest must wait. If all was taken, the
                // buffer may be another one.
                let rest = if taken < passed { buffer[taken..].to_vec() } else { Vec::new() };
                Poll::Ready(io::Result::Ok(Upward::Read { len, passed, rest }))
            })
        });
        match read.await {
            Ok(Upward::Gone) => return DirectionEnd::Gone,
            Ok(Upward::NoRoom) => {
                if signals.reset().is_some() {
                    return DirectionEnd::Gone;
                }
                if signals.has_rest() {
                    return DirectionEnd::Finished;
                }
                signals.writable.notified().await;
            }
            Ok(Upward::Read { len: 0, .. }) => {
                driver.with(|session| session.finish(flow));
                return DirectionEnd::Finished;
            }
            Ok(Upward::Read { passed, rest, .. }) => {
                driver.note_activity();
                signals.note_carried([passed, 0]);
                limit = limit.map(|left| left - passed as u64);
                if !write_all(driver, flow, signals, &rest).await {
                    return DirectionEnd::Gone;
                }
            }
            // TLS was not closed. TCP alone has no such error.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                driver.with(|session| session.cut(flow));
                return DirectionEnd::Finished;
            }
            Err(_) => return DirectionEnd::Failed,
        }
    }
}

/// Writes all of `bytes` to a flow; `false` if it is gone.
pub(crate) async fn write_all(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    mut bytes: &[u8],
) -> bool {
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
async fn downward<A: Application>(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    writer: &mut A::Writer,
    first: Vec<u8>,
) -> DirectionEnd {
    let mut chunks = Vec::new();
    if !first.is_empty() {
        signals.note_carried([0, first.len()]);
        if write_chunks(writer, &[first]).await.is_err() {
            return DirectionEnd::Failed;
        }
    }
    loop {
        let end = driver.with(|session| {
            let mut len = 0;
            // What follows the last of them is read again.
            while len < WRITE {
                match session.read(flow) {
                    Read::Data(chunk) => {
                        len += chunk.len();
                        chunks.push(chunk);
                    }
                    Read::Nothing => break,
                    end => return Some(end),
                }
            }
            None
        });
        if !chunks.is_empty() {
            let written = write_chunks(writer, &chunks).await;
            driver.note_activity();
            let len = chunks.drain(..).map(|chunk| chunk.len()).sum();
            signals.note_carried([0, len]);
            // Even if the write failed: the session no longer holds these bytes.
            driver.with(|session| session.consumed(flow, len, Instant::now()));
            if written.is_err() {
                return DirectionEnd::Failed;
            }
        } else if end == Some(None) {
            signals.readable.notified().await;
        }
        match end {
            Some(None) => {}
            Some(Some(Read::Finished)) => return ended(writer.shutdown().await),
            Some(Some(Read::Cut)) => return ended(A::cut(writer).await),
            Some(Some(_)) | None => return deliver_rest(signals, writer).await,
        }
    }
}

/// Writes all of several chunks.
async fn write_chunks(
    writer: &mut (impl AsyncWrite + Unpin),
    chunks: &[Vec<u8>],
) -> io::Result<()> {
    let mut slices: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match writer.write_vectored(left).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            len => IoSlice::advance_slices(&mut left, len),
        }
    }
    writer.flush().await
}

/// Passes on what had arrived when the peer closed the session, if the flow had arrived whole.
async fn deliver_rest(
    signals: &FlowSignals,
    writer: &mut (impl AsyncWrite + Unpin),
) -> DirectionEnd {
    while let Some(chunk) = signals.take_rest() {
        let written = match chunk.is_empty() {
            true => return ended(writer.shutdown().await),
            false => writer.write_all(&chunk).await,
        };
        if written.is_err() {
            return DirectionEnd::Failed;
        }
    }
    DirectionEnd::Gone
}

fn ended(result: io::Result<()>) -> DirectionEnd {
    match result {
        Ok(()) => DirectionEnd::Finished,
        Err(_) => DirectionEnd::Failed,
    }
}
