//! Log lines on standard error. Logging never fails or blocks: a line that cannot be written in
//! time is dropped.

use crate::failure::say;
use oncewire_net::keys::redact;
use oncewire_report::text::unprintable;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FormatFields, Writer};

/// Most lines queued for standard error. If it blocks (a pipe whose reader has stopped), more are
/// dropped and counted.
const WAITING: usize = 1024;
/// Time to write the last lines when the program ends.
const LAST: Duration = Duration::from_secs(1);

enum Entry {
    Line(String),
    /// Answered once all lines before it are written.
    Flush(SyncSender<()>),
}

/// Writes each event on one line, from a separate thread.
#[derive(Clone)]
pub(crate) struct Log {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Starts the writing thread. If that fails, nothing is logged.
    pub(crate) fn start() -> Log {
        Log::start_with(say)
    }

    fn start_with(write: impl Fn(&str) + Send + 'static) -> Log {
        let (queue, lines) = sync_channel(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let of_writer = dropped.clone();
        // On failure the receiver is dropped, and with it every line.
        let _ = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_all(&lines, &of_writer, write));
        Log { queue, dropped }
    }

    /// Waits until the lines so far are written, at most [`LAST`].
    pub(crate) fn flush(&self) {
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
            write(&format!("oncewire: {lost} log lines were dropped: standard error blocked"));
        }
    }
}

impl Write for &Log {
    /// Queues one event, as the subscriber formatted it.
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

/// Writes an event's fields as `name=value`, all in one way: a word as it is, anything else in
/// quotes. The subscriber's own way depends on the type of a value, which no reader knows.
#[derive(Clone, Copy)]
pub(crate) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = FieldLine { writer, is_first: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct FieldLine<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl FieldLine<'_> {
    fn write(&mut self, field: &Field, value: &str) {
        let space = if std::mem::replace(&mut self.is_first, false) { "" } else { " " };
        let is_word = !value.is_empty() && !value.contains([' ', '"', '=', '\\', '\n']);
        let written = match field.name() {
            "message" => write!(self.writer, "{space}{value}"),
            name if is_word => write!(self.writer, "{space}{name}={value}"),
            name => write!(self.writer, "{space}{name}={value:?}"),
        };
        self.result = self.result.and(written);
    }
}

impl Visit for FieldLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

/// An event on one line, without secret keys. Fields may come from a peer, an application or a name
/// server, so everything that controls a terminal, begins a line or changes the direction of text
/// is escaped. The escapes are those of JSON: JSON stays JSON.
fn one_line(event: &str) -> String {
    let event = redact(event.trim_end_matches('\n'));
    let mut line = String::with_capacity(event.len());
    for c in event.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            // All are in the basic plane, so four digits suffice.
            c if unprintable(c) => line.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_unprintable_nothing() {
        assert_eq!(one_line("INFO all is well\n"), "INFO all is well");
        let event = "DEBUG target=tcp:a\x1b[2J\nERROR fake\r\u{9b}31m\u{202e}x\u{2028}y\x7f";
        let line =
            "DEBUG target=tcp:a\\u001b[2J\\nERROR fake\\u000d\\u009b31m\\u202ex\\u2028y\\u007f";
        assert_eq!(one_line(event), line);
    }

    #[test]
    fn fields_are_quoted_by_what_is_in_them_whatever_their_type() {
        let (told, lines) = std::sync::mpsc::channel();
        let log = Log::start_with(move |line| drop(told.send(line.to_string())));
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_ansi(false)
            .without_time()
            .fmt_fields(Fields)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let key = "ow1abc";
            tracing::warn!(peer = key, key = %key, n = 7, none = None::<u64>, "hello, all");
            tracing::warn!(peer = "a b", why = %"a \"b\"", empty = "", "x");
        });
        log.flush();
        let lines: Vec<String> = lines.try_iter().map(|line| line.trim().to_string()).collect();
        let [one, two] = &lines[..] else { panic!("{lines:?}") };
        assert!(one.ends_with(": hello, all peer=ow1abc key=ow1abc n=7"), "{one}");
        assert!(two.ends_with(r#": x peer="a b" why="a \"b\"" empty="""#), "{two}");
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted() {
        let (go, wait) = sync_channel::<()>(0);
        let (begun, first_is_taken) = std::sync::mpsc::channel();
        let (written, lines) = std::sync::mpsc::channel();
        let log = Log::start_with(move |line| {
            let _ = begun.send(());
            let _ = wait.recv();
            let _ = written.send(line.to_string());
        });
        let all = 2 * WAITING;
        let put = |at: usize| (&log).write_all(format!("line {at}\n").as_bytes()).unwrap();
        put(0);
        // A thread that starts late would make room in the queue after lines were dropped.
        first_is_taken.recv().unwrap();
        // None of these blocks, although the writer does.
        (1..all).for_each(put);
        drop(go);
        log.flush();
        let lines: Vec<String> = lines.try_iter().collect();
        let (dropped, kept): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.starts_with("oncewire: "));
        assert!(
            kept.iter().enumerate().all(|(at, line)| **line == format!("line {at}")),
            "{kept:?}"
        );
        assert_eq!(kept.len(), 1 + WAITING);
        assert_eq!(
            dropped,
            [&format!(
                "oncewire: {} log lines were dropped: standard error blocked",
                all - kept.len()
            )]
        );
    }

    #[test]
    fn an_event_in_json_stays_json() {
        let event = serde_json::json!({ "target": "a\u{9b}\u{7f}\u{202e}\n" }).to_string() + "\n";
        let line = one_line(&event);
        assert!(!line.contains(unprintable));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["target"], "a\u{9b}\u{7f}\u{202e}\n");
    }
}
