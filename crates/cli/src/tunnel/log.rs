//! Log lines on standard error. Logging never fails or delays anything else: a line that cannot be written is dropped.

use crate::failure::say;
use crate::format::steers;
use oncewire_net::keys::redact;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for standard error. When nobody takes them (a pipe whose reader has stopped), later ones are dropped and counted.
const WAITING: usize = 1024;
/// Time that the last lines have to get out when the program ends.
const LAST: Duration = Duration::from_secs(1);

enum Entry {
    Line(String),
    /// All lines before this have been written.
    Flush(SyncSender<()>),
}

/// Writes events, each on one line, from a thread of its own.
#[derive(Clone)]
pub(super) struct Log {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Starts the thread that writes to standard error. Without one, nothing is logged.
    pub(super) fn start() -> Log {
        Log::start_with(say)
    }

    fn start_with(write: impl Fn(&str) + Send + 'static) -> Log {
        let (queue, lines) = sync_channel(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let of_writer = dropped.clone();
        // If it cannot be had, the receiver is gone, and every line is dropped.
        let _ = std::thread::Builder::new().name("log".into()).spawn(move || write_all(&lines, &of_writer, write));
        Log { queue, dropped }
    }

    /// Waits until the lines so far have been written, but not for long.
    pub(super) fn flush(&self) {
        let until = Instant::now() + LAST;
        let (done, written) = sync_channel(1);
        let mut marker = Entry::Flush(done);
        while let Err(TrySendError::Full(back)) = self.queue.try_send(marker) {
            if Instant::now() >= until {
                return;
            }
            marker = back;
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

fn write_all(lines: &Receiver<Entry>, dropped: &AtomicU64, write: impl Fn(&str)) {
    for entry in lines {
        match entry {
            Entry::Line(line) => write(&line),
            Entry::Flush(done) => {
                let _ = done.send(());
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            write(&format!("oncewire: {lost} log lines were dropped, since standard error did not take them in time"));
        }
    }
}

impl Write for &Log {
    /// Takes one event, as the subscriber formatted it.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = one_line(&String::from_utf8_lossy(event));
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Entry::Line(line)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Log;

    fn make_writer(&'a self) -> &'a Log {
        self
    }
}

/// An event on one line, whatever a peer, an application or a name server has put into its fields: nothing in it steers a terminal, begins
/// another line or turns the direction of text, and no secret key is in it. The escapes are those of JSON, so an event in JSON stays one.
fn one_line(event: &str) -> String {
    let event = redact(event.trim_end_matches('\n'));
    let mut line = String::with_capacity(event.len());
    for c in event.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            // All of them are in the basic plane: four digits.
            c if steers(c) => line.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_steers_nothing() {
        assert_eq!(one_line("INFO all is well\n"), "INFO all is well");
        let event = "DEBUG target=tcp:a\x1b[2J\nERROR fake\r\u{9b}31m\u{202e}x\u{2028}y\x7f";
        let line = "DEBUG target=tcp:a\\u001b[2J\\nERROR fake\\u000d\\u009b31m\\u202ex\\u2028y\\u007f";
        assert_eq!(one_line(event), line);
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted() {
        let (go, wait) = sync_channel::<()>(0);
        let (written, lines) = std::sync::mpsc::channel();
        let log = Log::start_with(move |line| {
            let _ = wait.recv();
            let _ = written.send(line.to_string());
        });
        let all = 2 * WAITING;
        // None of these waits, though the writer does.
        (0..all).for_each(|at| (&log).write_all(format!("line {at}\n").as_bytes()).unwrap());
        drop(go);
        log.flush();
        let lines: Vec<String> = lines.try_iter().collect();
        let (dropped, kept): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("oncewire: "));
        assert!(kept.iter().enumerate().all(|(at, line)| **line == format!("line {at}")), "{kept:?}");
        assert!((WAITING..=WAITING + 1).contains(&kept.len()));
        assert_eq!(
            dropped,
            [&format!("oncewire: {} log lines were dropped, since standard error did not take them in time", all - kept.len())]
        );
    }

    #[test]
    fn an_event_in_json_stays_json() {
        let event = serde_json::json!({ "target": "a\u{9b}\u{7f}\u{202e}\n" }).to_string() + "\n";
        let line = one_line(&event);
        assert!(!line.contains(steers));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["target"], "a\u{9b}\u{7f}\u{202e}\n");
    }
}
