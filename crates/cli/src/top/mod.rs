//! `oncewire top`: what running processes do, live.
//!
//! `model` turns their status into rates, `screen` draws it; here are the terminal, the keys and the
//! thread that asks.

pub(crate) mod model;
mod screen;
#[cfg(test)]
mod tests;

use crate::args::TopArgs;
use crate::failure::{Failure, Outcome};
use crate::status;
use model::{Moment, Process};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::State;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long a key, an answer or a signal may wait to be seen.
const LOOK: Duration = Duration::from_millis(50);

/// What a process answered: which one, when, and what.
type Answer = (usize, Instant, Result<Moment, String>);

/// Asks each process, again and again, until nobody wants to know.
fn ask(sockets: &[PathBuf], interval: Duration, to: &Sender<Answer>) {
    loop {
        let begun = Instant::now();
        for (at, socket) in sockets.iter().enumerate() {
            let answer = status::document(socket)
                .map(|document| Moment::of(&document))
                .map_err(|failure| failure.message);
            if to.send((at, Instant::now(), answer)).is_err() {
                return;
            }
        }
        std::thread::sleep(interval.saturating_sub(begun.elapsed()));
    }
}

/// What to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Draw,
    Quit,
}

impl State {
    fn key(&mut self, key: KeyEvent) -> After {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if matches!(key.code, KeyCode::Char('c' | 'd')) {
                After::Quit
            } else {
                After::Draw
            };
        }
        if self.is_typing {
            match key.code {
                KeyCode::Char(c) if self.filter.len() < 64 => self.filter.push(c),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.filter.clear();
                    self.is_typing = false;
                }
                _ => {}
            }
            return After::Draw;
        }
        let rows = self.rows().len();
        let lines = self.rows().get(self.selected).map_or(0, |(peer, _)| peer.counters.len());
        // What the arrows move, and how far.
        let (place, last) = match &mut self.detail {
            Some(line) => (line, lines.saturating_sub(1)),
            None => (&mut self.selected, rows.saturating_sub(1)),
        };
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => *place = (*place + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => *place = place.saturating_sub(1).min(last),
            KeyCode::PageDown => *place = (*place + 10).min(last),
            KeyCode::PageUp => *place = place.saturating_sub(10).min(last),
            KeyCode::Home => *place = 0,
            KeyCode::End => *place = last,
            KeyCode::Enter if rows > 0 => self.detail = Some(0),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if self.detail.is_some() => {
                self.detail = None;
            }
            KeyCode::Char('q') | KeyCode::Esc => return After::Quit,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Tab if !self.processes.is_empty() => {
                self.shown = (self.shown + 1) % self.processes.len();
                (self.selected, self.detail) = (0, None);
            }
            _ => {}
        }
        After::Draw
    }

    /// Takes what processes answered since. Returns whether there was anything.
    fn take(&mut self, answers: &Receiver<Answer>) -> bool {
        let mut any = false;
        for (at, when, answer) in answers.try_iter() {
            if let Some(process) = self.processes.get_mut(at)
                && !self.is_paused
            {
                process.update(when, answer);
                any = true;
            }
        }
        any
    }
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut State,
    answers: &Receiver<Answer>,
    ends: &AtomicBool,
) -> io::Result<()> {
    let mut is_old = true;
    while !ends.load(Ordering::Relaxed) {
        if state.take(answers) || is_old {
            terminal.draw(|frame| state.draw(frame))?;
            is_old = false;
        }
        if !event::poll(LOOK)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if state.key(key) == After::Quit {
                    return Ok(());
                }
                is_old = true;
            }
            Event::Resize(..) => is_old = true,
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn run(args: &TopArgs) -> Outcome {
    let sockets = status::sockets(args.socket.as_ref())?;
    // Who only mistyped the socket sees that before the screen is cleared.
    let failures: Vec<Failure> =
        sockets.iter().filter_map(|socket| status::document(socket).err()).collect();
    if failures.len() == sockets.len()
        && let Some(first) = failures.into_iter().next()
    {
        return Err(first);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "`oncewire top` needs a terminal; `oncewire status` prints the state once",
        ));
    }
    let mut state = State {
        processes: sockets.iter().map(|_| Process::default()).collect(),
        interval: args.interval,
        ..State::default()
    };
    let ends = Arc::new(AtomicBool::new(false));
    // A signal must not leave the terminal as this program needs it.
    let by_signal = ends.clone();
    let _ = ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed));
    let (to, answers) = channel();
    let interval = args.interval;
    std::thread::spawn(move || ask(&sockets, interval, &to));
    let failed = |error: io::Error| Failure::io("use", "the terminal", &error);
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let watched = watch(&mut terminal, &mut state, &answers, &ends);
    ratatui::restore();
    watched.map_err(failed)
}
