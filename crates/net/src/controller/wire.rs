//! Messages on a stream: each with its length before it, 4 bytes, little endian.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The application protocol between a node and a controller (RFC 7301).
pub(crate) const ALPN: &[u8] = b"oncewire-control/2";
/// Most bytes that are read ahead of what has arrived: a length alone takes no memory.
const STEP: u64 = 64 << 10;
/// How long a message may take to be sent.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

/// Sends a message.
///
/// # Errors
/// The stream's; `TimedOut` if the other end does not read.
pub(crate) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &[u8],
) -> io::Result<()> {
    let len = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let sent = async {
        stream.write_all(&len.to_le_bytes()).await?;
        stream.write_all(message).await?;
        stream.flush().await
    };
    timeout(PATIENCE, sent).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Reads a message of at most `most` bytes.
async fn read(stream: &mut (impl AsyncRead + Unpin), most: usize) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let len = u32::from_le_bytes(len) as usize;
    if len > most {
        let why = format!("a message of {len} bytes; the largest has {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut message = Vec::new();
    while message.len() < len {
        let left = (len - message.len()) as u64;
        if (&mut *stream).take(left.min(STEP)).read_to_end(&mut message).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(message)
}

/// The messages that arrive on a stream. Reading may be cancelled.
pub(crate) struct Incoming {
    messages: mpsc::Receiver<io::Result<Vec<u8>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Incoming {
    /// Messages of at most `most` bytes each.
    pub(crate) fn new(
        mut stream: impl AsyncRead + Unpin + Send + 'static,
        most: usize,
    ) -> Incoming {
        // One that is read, and one that waits: a sender does not fill the memory.
        let (sender, messages) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            loop {
                let message = read(&mut stream, most).await;
                let is_last = message.is_err();
                if sender.send(message).await.is_err() || is_last {
                    return;
                }
            }
        });
        Incoming { messages, task }
    }

    /// The next message.
    ///
    /// # Errors
    /// The stream's; `InvalidData` for a message that is too long.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<u8>> {
        let end = Err(io::ErrorKind::UnexpectedEof.into());
        self.messages.recv().await.unwrap_or(end)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_arrive_and_lengths_are_bounded() {
        let (mut here, there) = tokio::io::duplex(64);
        let mut incoming = Incoming::new(there, 100_000);
        let long: Vec<u8> = (0..100_000u32).map(|byte| byte as u8).collect();
        let sent = tokio::spawn(async move {
            write(&mut here, b"").await.unwrap();
            write(&mut here, &long).await.unwrap();
            here.write_all(&100_001u32.to_le_bytes()).await.unwrap();
            here
        });
        assert_eq!(incoming.next().await.unwrap(), b"");
        assert_eq!(incoming.next().await.unwrap().len(), 100_000);
        assert_eq!(incoming.next().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(sent.await.unwrap());

        let (mut here, there) = tokio::io::duplex(64);
        let mut incoming = Incoming::new(there, 100);
        here.write_all(&[9, 0, 0, 0, 1, 2]).await.unwrap();
        drop(here);
        assert_eq!(incoming.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
