//! Lanes on transports: a reader and a writer for each.

use super::writers::{Busy, Permit};
use super::{CLOSE_TIME, Driver, DriverState, LaneDown, LaneSignals, quiet};
use crate::log_limit::LogLimit;
use crate::transport::{Path, Transport, TransportEnd};
use cpu_time::ThreadTime;
use oncewire_session::{Answer, Config, DecodeJob, Divides, EncodeJob, Hello, Refused, Session};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tracing::{debug, warn};

/// Bytes that the session produces at once for a transport: one block, or several small ones.
const BATCH: usize = 64 << 10;

/// Content that is encoded for one write: repeats become so short that their frames alone would be no
/// limit.
const CONTENT: usize = 1 << 20;

/// Content that is decoded before others get the thread, such as those who deliver it.
const DECODED: usize = 256 << 10;

/// How long blocks are encoded before what there is goes out: the first of them may be a small
/// answer, and content that is opened takes milliseconds a block.
const ENCODING: Duration = Duration::from_millis(1);

/// How long one block after the other is encoded before others get the thread and the lock. A small
/// answer goes out without a turn of all others.
const TURN: Duration = Duration::from_micros(100);

/// A block that takes longer than this to encode, because it is opened, lets the next one be encoded
/// by another thread, so that other flows do not wait for it.
const SLOW: Duration = Duration::from_millis(1);

/// How long blocks are decoded before others get the thread.
const DECODING: Duration = Duration::from_millis(1);

/// Bytes read from a transport at once. The lane and its reader have a buffer of this size each,
/// which they swap.
const READ: usize = 64 << 10;

/// A transport that carries nothing for this long gives up its buffers, and those of its session: a
/// hub has many that rest.
const QUIET: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1_000 });

/// Bytes read at once from a transport that was quiet.
const LITTLE: usize = 4 << 10;

/// How long a transport stays open for reading after its last byte was sent.
const LINGER: Duration = Duration::from_secs(1);

impl Driver {
    /// At a client: gives a lane a transport.
    pub(crate) fn attach(self: &Arc<Driver>, lane: usize, transport: Transport) {
        let signals = Arc::<LaneSignals>::default();
        {
            let mut state = self.lock();
            state.lanes[lane] = signals.clone();
            state.paths[lane] = Some(transport.path);
            if let Some(session) = &mut state.session {
                session.attach(lane, Instant::now());
            }
            self.settle(&mut state);
        }
        self.run_lane(lane, signals, transport, Vec::new());
    }

    /// At a server: gives this session a transport whose hello named it. `rest` is what was read
    /// after the hello. A refused transport comes back with the answer to send on it.
    pub(crate) fn accept_lane(
        self: &Arc<Driver>,
        hello: &Hello,
        transport: Transport,
        rest: Vec<u8>,
    ) -> Result<(), (Box<Hello>, Transport)> {
        let signals = Arc::<LaneSignals>::default();
        let accepted = {
            let mut state = self.lock();
            let Some(session) = &mut state.session else {
                return Err((
                    hello.refuse(Answer::Unknown, "the session is over", &Config::default()).into(),
                    transport,
                ));
            };
            let accepted = session.accept_lane(hello, Instant::now());
            if let Ok(lane) = accepted {
                // Tasks of the lane's earlier transport notice that it was replaced.
                let earlier = std::mem::replace(&mut state.lanes[lane], signals.clone());
                earlier.close.notify_one();
                earlier.transmit.notify_one();
                state.paths[lane] = Some(transport.path);
            }
            self.settle(&mut state);
            accepted
        };
        match accepted {
            Ok(lane) => {
                self.run_lane(lane, signals, transport, rest);
                Ok(())
            }
            Err(Refused(answer)) => Err((answer, transport)),
        }
    }

    /// At a server: the transport on which a new session was accepted.
    pub(crate) fn adopt(self: &Arc<Driver>, lane: usize, transport: Transport, rest: Vec<u8>) {
        let signals = {
            let mut state = self.lock();
            state.paths[lane] = Some(transport.path);
            state.lanes[lane].clone()
        };
        self.run_lane(lane, signals, transport, rest);
    }

    fn run_lane(
        self: &Arc<Driver>,
        lane: usize,
        signals: Arc<LaneSignals>,
        mut transport: Transport,
        rest: Vec<u8>,
    ) {
        let driver = self.clone();
        self.transports.send_modify(|count| *count += 1);
        self.thread.spawn(async move {
            let since = Instant::now();
            let path = transport.path;
            let cause = match transport.stream.carry_lane() {
                Ok(()) => driver.carry(lane, &signals, transport, rest).await,
                Err(error) => error.into(),
            };
            // The reader may have been stopped between two blocks, with those of other lanes to do.
            driver.decode().await;
            driver.transports.send_modify(|count| *count -= 1);
            let mut state = driver.lock();
            if Arc::ptr_eq(&state.lanes[lane], &signals) {
                driver.log_loss(&mut state, lane, path, &cause);
                if let Some(session) = &mut state.session {
                    session.detach(lane, Instant::now());
                }
                driver.settle(&mut state);
                let received = signals.received.load(Ordering::Relaxed);
                let _ = driver.lane_down.send(LaneDown {
                    lane,
                    received,
                    lasted: since.elapsed(),
                    cause,
                });
            }
        });
    }

    /// Logs that an established session lost a transport.
    fn log_loss(&self, state: &mut DriverState, lane: usize, path: Path, cause: &TransportEnd) {
        let Some(session) = state.session.as_ref().filter(|session| session.is_established())
        else {
            debug!(lane, why = %cause, "transport closed");
            return;
        };
        let (peer, address) = (self.label(), path.address);
        let failures = session.counters().failures;
        if failures > std::mem::replace(&mut state.failures, failures) {
            static CORRUPT: LogLimit = LogLimit::new();
            if let Some(suppressed) = CORRUPT.pass() {
                warn!(peer, %address, lane, failures, suppressed, "a block arrived corrupt; reconnecting the lane to resend it");
            }
        } else {
            static LOST: LogLimit = LogLimit::new();
            if let Some(suppressed) = LOST.pass() {
                warn!(peer, %address, lane, why = %cause, suppressed, "connection to the peer lost; open flows wait for it to return (--grace)");
            }
        }
    }

    /// Carries bytes both ways until the transport ends.
    async fn carry(
        self: &Arc<Driver>,
        lane: usize,
        signals: &Arc<LaneSignals>,
        transport: Transport,
        rest: Vec<u8>,
    ) -> TransportEnd {
        let (mut reader, mut writer) = tokio::io::split(transport.stream);
        let is_current = |state: &DriverState| Arc::ptr_eq(&state.lanes[lane], signals);
        let read = async {
            let mut buffer = rest;
            let mut room = LITTLE;
            loop {
                if !buffer.is_empty() && !self.receive(lane, &is_current, &mut buffer).await {
                    return TransportEnd::Replaced;
                }
                // The lane's buffer, which comes back, may have grown.
                buffer.shrink_to(room);
                buffer.reserve(room);
                // Nothing is lost of a read that is given up.
                let read = match timeout(QUIET, reader.read_buf(&mut buffer)).await {
                    Ok(read) => read,
                    Err(_) => {
                        buffer = Vec::with_capacity(LITTLE);
                        if std::mem::replace(&mut room, LITTLE) == READ {
                            self.free_buffers();
                        }
                        reader.read_buf(&mut buffer).await
                    }
                };
                match read {
                    Ok(0) => return TransportEnd::Closed,
                    Ok(len) => {
                        signals.received.store(true, Ordering::Relaxed);
                        // Pings leave the lane as quiet as it was.
                        if len >= LITTLE / 4 {
                            room = READ;
                        }
                    }
                    Err(error) => return error.into(),
                }
            }
        };
        let write = async {
            let mut buffer = Vec::new();
            let mut turn = Instant::now();
            loop {
                buffer.clear();
                if !self.fill(lane, &is_current, &mut buffer, &mut turn).await {
                    return TransportEnd::Replaced;
                }
                if buffer.is_empty() {
                    if let Err(error) = writer.flush().await {
                        return error.into();
                    }
                    if self.closing(lane) {
                        let _ = writer.shutdown().await;
                        // Wait for the peer to close: closing a socket that holds unread bytes
                        // resets the connection, and the peer would lose what was sent last.
                        tokio::time::sleep(LINGER).await;
                        return TransportEnd::ClosedHere;
                    }
                    if timeout(QUIET, signals.transmit.notified()).await.is_err() {
                        if std::mem::take(&mut buffer).capacity() > LITTLE {
                            self.free_buffers();
                        }
                        signals.transmit.notified().await;
                    }
                    turn = Instant::now();
                } else if let Err(error) = self.write(&mut writer, &buffer).await {
                    return error.into();
                } else if buffer.len() >= BATCH / 2 || turn.elapsed() >= TURN {
                    // A peer that reads fast must not keep the thread while its socket has room.
                    tokio::task::yield_now().await;
                    turn = Instant::now();
                }
            }
        };
        let close = async {
            // After a request to close, leaves some time for what is left to send.
            signals.close.notified().await;
            tokio::time::sleep(CLOSE_TIME).await;
            TransportEnd::ClosedHere
        };
        tokio::select! {
            end = read => end,
            end = write => end,
            end = close => end,
        }
    }

    /// Writes all of it, and tells the session if the transport does not take it at once.
    async fn write(
        &self,
        transport: &mut (impl AsyncWrite + Unpin),
        bytes: &[u8],
    ) -> io::Result<()> {
        let mut writing = pin!(transport.write_all(bytes));
        match std::future::poll_fn(|context| Poll::Ready(writing.as_mut().poll(context))).await {
            Poll::Ready(written) => written,
            Poll::Pending => {
                self.with(Session::transport_is_full);
                writing.await
            }
        }
    }

    /// A lane is quiet: the session frees what it keeps for the next blocks.
    fn free_buffers(&self) {
        self.with(Session::free_buffers);
        quiet::give_back_soon();
    }

    /// Gives the session what a lane's transport brought, and decodes blocks without the lock.
    /// Returns false if the lane has another transport now.
    async fn receive(
        &self,
        lane: usize,
        is_current: &impl Fn(&DriverState) -> bool,
        bytes: &mut Vec<u8>,
    ) -> bool {
        {
            let mut state = self.lock();
            if !is_current(&state) {
                return false;
            }
            if let Some(session) = &mut state.session {
                session.take_in(lane, bytes, Instant::now());
            }
        }
        self.decode().await;
        true
    }

    /// Decodes what can be decoded, of any lane: one that could not get the decoder relies on
    /// whoever has it.
    async fn decode(&self) {
        let (mut begun, mut content) = (Instant::now(), 0);
        let mut next = self.with(|session| session.next_decode(Instant::now())).flatten();
        while let Some(job) = next {
            let mut lent = LentDecoder { driver: self, job: Some(job) };
            content += lent.run();
            if content < DECODED && begun.elapsed() < DECODING {
                next = lent.give_back(true);
                continue;
            }
            lent.give_back(false);
            // Others get this thread.
            tokio::task::yield_now().await;
            (begun, content) = (Instant::now(), 0);
            next = self.with(|session| session.next_decode(Instant::now())).flatten();
        }
    }

    /// As [`Driver::decode`], for a thread of its own.
    #[cfg(unix)]
    pub(crate) fn decode_here(&self) {
        let mut next = self.with(|session| session.next_decode(Instant::now())).flatten();
        while let Some(job) = next {
            let mut lent = LentDecoder { driver: self, job: Some(job) };
            lent.run();
            next = lent.give_back(true);
        }
    }

    /// Fills `buffer` with what a lane has to send now, encoding blocks without the lock. Returns
    /// false if the lane has another transport now. `turn` is when it got the thread.
    async fn fill(
        self: &Arc<Driver>,
        lane: usize,
        is_current: &impl Fn(&DriverState) -> bool,
        buffer: &mut Vec<u8>,
        turn: &mut Instant,
    ) -> bool {
        let (begun, mut content) = (Instant::now(), 0);
        loop {
            let mut job = {
                let mut state = self.lock();
                if !is_current(&state) {
                    return false;
                }
                let now = Instant::now();
                let job = state.session.as_mut().and_then(|session| {
                    let more = content < CONTENT && now - begun < ENCODING;
                    let limit = if more || buffer.is_empty() { BATCH } else { 0 };
                    let job = session.fill(lane, limit, now, buffer);
                    if job.is_none() {
                        session.sent(lane, 0, now, buffer);
                    }
                    job
                });
                self.settle(&mut state);
                match job {
                    Some(job) => Lent { driver: self.clone(), job: Some(job) },
                    None => return true,
                }
            };
            let permit = job.permit();
            // With others before it, its frame is not for `buffer`.
            let divides = permit.is_some() || job.divides() == Divides::Must;
            if self.encodes_slowly.load(Ordering::Relaxed) {
                // Even if nobody waits for it any more, the job is run to its end, and the session
                // gets its encoder back.
                let mut out = std::mem::take(buffer);
                let running = tokio::task::spawn_blocking(move || {
                    let more = if divides { job.find(permit) } else { job.run(&mut out) };
                    (more, out)
                });
                // A panic has ended the session.
                let Ok((more, out)) = running.await else { return false };
                content += more;
                *buffer = out;
                continue;
            }
            content += if divides { job.find(permit) } else { job.run(buffer) };
            if turn.elapsed() >= TURN {
                tokio::task::yield_now().await;
                *turn = Instant::now();
            }
        }
    }

    fn closing(&self, lane: usize) -> bool {
        let state = self.lock();
        state.session.as_ref().is_none_or(|session| !session.wants_transport(lane))
    }
}

/// A decoder that is out with a frame. Were it lost in a panic, the session would need another log.
struct LentDecoder<'a> {
    driver: &'a Driver,
    job: Option<DecodeJob>,
}

impl LentDecoder<'_> {
    /// Decodes the frame. Returns the bytes of the block.
    fn run(&mut self) -> usize {
        let Some(job) = &mut self.job else { return 0 };
        let _busy = Busy::begin();
        job.run();
        job.content()
    }

    /// Returns the decoder, and takes the next job if that is wanted.
    fn give_back(&mut self, goes_on: bool) -> Option<DecodeJob> {
        let job = self.job.take()?;
        let now = Instant::now();
        let next = self.driver.with(|session| {
            session.decoded(job, now);
            goes_on.then(|| session.next_decode(now)).flatten()
        });
        next.flatten()
    }
}

impl Drop for LentDecoder<'_> {
    fn drop(&mut self) {
        if self.job.is_some() {
            self.driver.with(Session::decoder_lost);
        }
    }
}

/// An encoder that is out with a block. Were it lost in a panic, the session could never send again,
/// so it ends.
struct Lent {
    driver: Arc<Driver>,
    job: Option<EncodeJob>,
}

impl Lent {
    fn divides(&self) -> Divides {
        self.job.as_ref().map_or(Divides::No, EncodeJob::divides)
    }

    /// Lets another thread write the frame, where that pays and none does so already.
    fn permit(&self) -> Option<Permit> {
        let job = self.job.as_ref().filter(|job| job.divides() == Divides::Can)?;
        Permit::get(job.hurries())
    }

    /// Finds what the block repeats, returns the encoder, and sees to it that the frame is written.
    /// Returns the bytes of content.
    fn find(&mut self, permit: Option<Permit>) -> usize {
        let Some(job) = &mut self.job else { return 0 };
        let (content, hurries) = (job.content(), job.hurries());
        let clock = Instant::now();
        {
            let _busy = Busy::begin();
            job.find();
        }
        let now = Instant::now();
        self.driver.encodes_slowly.store(now - clock > SLOW, Ordering::Relaxed);
        let Some(job) = self.job.take() else { return 0 };
        if self.driver.with(|session| session.found(job, now)) == Some(true) {
            // Whoever wrote the frames before may have just ended.
            self.driver.write_apart(permit.or_else(|| Permit::get(hurries)));
        }
        content
    }

    /// Encodes the block, appends its message and returns the encoder. Returns the bytes of content.
    fn run(&mut self, buffer: &mut Vec<u8>) -> usize {
        let Some(job) = &mut self.job else { return 0 };
        let content = job.content();
        let (begun, clock) = (self.driver.counts_cpu.then(ThreadTime::now), Instant::now());
        {
            let _busy = Busy::begin();
            job.run(buffer);
        }
        let (cpu, now) = (begun.map(|begun| begun.elapsed()), Instant::now());
        self.driver.encodes_slowly.store(now - clock > SLOW, Ordering::Relaxed);
        let job = self.job.take();
        self.driver.with(|session| {
            if let Some(job) = job {
                session.encoded(job, now, buffer);
            }
            if let Some(cpu) = cpu {
                session.spent(cpu, now);
            }
        });
        content
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.job.is_some() {
            self.driver.with(Session::encoder_lost);
        }
    }
}
