//! The screen, from what is known. Nothing is asked or read here.

use super::model::{Peer, Process, Rates, saved_of};
use oncewire_report::Unit;
use oncewire_report::format;
use oncewire_report::text::sanitize;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState};
use std::cmp::Ordering;
use std::time::Duration;

/// What peers are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Traffic,
    Saved,
    Flows,
    Rtt,
    Name,
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Traffic => Sort::Saved,
            Sort::Saved => Sort::Flows,
            Sort::Flows => Sort::Rtt,
            Sort::Rtt => Sort::Name,
            Sort::Name => Sort::Traffic,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Traffic => "traffic",
            Sort::Saved => "saved",
            Sort::Flows => "flows",
            Sort::Rtt => "RTT",
            Sort::Name => "name",
        }
    }
}

/// All that is shown.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    /// Which of them.
    pub(super) shown: usize,
    /// Which of the rows.
    pub(super) selected: usize,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Keys go to the filter.
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    /// The selected peer's counters are shown, from this line on.
    pub(super) detail: Option<usize>,
    pub(super) interval: Duration,
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| format::MISSING.into(), format::share)
}

/// Bits per second, as links are rated.
fn bits(bytes: f64) -> String {
    if bytes < 0.5 { "0".into() } else { format::number(8.0 * bytes, Unit::BitsPerSecond) }
}

fn delay(rtt: Option<Duration>) -> String {
    rtt.map_or_else(|| format::MISSING.into(), |rtt| format!("{:.1} ms", 1e3 * rtt.as_secs_f64()))
}

impl State {
    fn process(&self) -> Option<&Process> {
        self.processes.get(self.shown)
    }

    /// The peers that pass the filter, in order, with their rates.
    pub(super) fn rows(&self) -> Vec<(&Peer, Rates)> {
        let Some(process) = self.process() else { return Vec::new() };
        let filter = self.filter.to_lowercase();
        let passes = |peer: &&Peer| {
            [&peer.name, &peer.key, &peer.address]
                .iter()
                .any(|text| text.to_lowercase().contains(&filter))
        };
        let peers = process.now.iter().flat_map(|now| &now.peers).filter(passes);
        let mut rows: Vec<_> = peers.map(|peer| (peer, process.rates_of(peer))).collect();
        let falling = |a: f64, b: f64| b.total_cmp(&a);
        rows.sort_by(|(a, ar), (b, br)| {
            let order = match self.sort {
                Sort::Traffic => falling(ar.sum().0, br.sum().0),
                Sort::Saved => falling(
                    saved_of(a.content, a.wire).unwrap_or(-2.0),
                    saved_of(b.content, b.wire).unwrap_or(-2.0),
                ),
                Sort::Flows => b.flows.cmp(&a.flows),
                Sort::Rtt => b.rtt.cmp(&a.rtt),
                Sort::Name => Ordering::Equal,
            };
            order.then_with(|| (&a.name, &a.key, a.number).cmp(&(&b.name, &b.key, b.number)))
        });
        rows
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let now = self.process().and_then(|process| process.now.as_ref());
        let has_store = now.is_some_and(|now| now.store.is_some());
        let [head, chart, body, foot] = Layout::vertical([
            Constraint::Length(4 + u16::from(has_store)),
            Constraint::Length(if frame.area().height < 20 { 0 } else { 6 }),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.head(frame, head);
        self.charts(frame, chart);
        self.peers(frame, body);
        self.foot(frame, foot);
        if let Some(from) = self.detail {
            self.detail(frame, from);
        }
    }

    fn head(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(process) = self.process() else { return };
        let Some(now) = &process.now else {
            let text = process.failure.as_deref().unwrap_or("asking ...");
            frame.render_widget(Paragraph::new(text), area);
            return;
        };
        let up = format::number(now.uptime.as_secs_f64().floor(), Unit::Seconds);
        let memory = now.memory.map_or_else(String::new, |(used, limit)| {
            format!(", memory {} of {}", format::binary(used), format::binary(limit))
        });
        let which = match self.processes.len() {
            0 | 1 => String::new(),
            count => format!(" [{} of {count}]", self.shown + 1),
        };
        let title = vec![
            Span::styled(format!("oncewire {}", now.role), bold()),
            format!("{which} {}, up {up}{memory}, {}", now.version, now.listening).into(),
        ];
        let way = |name: &str, at: usize| {
            let saved = saved_of([now.content[at], 0], [now.wire[at], 0]);
            Line::from(format!(
                "{name:9}{:>11} payload {:>11} wire    so far {:>8} {:>8} {:>6}",
                bits(process.rates.content[at]),
                bits(process.rates.wire[at]),
                format::bytes(now.content[at]),
                format::bytes(now.wire[at]),
                share(saved),
            ))
        };
        let problem = process.failure.as_ref().or(now.problem.as_ref());
        let mut last = vec![
            Span::styled(format!("saved    {:>11}", share(process.rates.saved())), bold()),
            format!(" now, {} so far", share(saved_of(now.content, now.wire))).into(),
        ];
        if let Some(why) = problem {
            last.push(Span::styled(format!("   {why}"), Style::new().fg(Color::Red)));
        }
        let mut lines =
            vec![Line::from(title), way("sent", 0), way("received", 1), Line::from(last)];
        lines.extend(now.store.as_deref().map(Line::from));
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// Payload and bytes on the wire over time, on one scale.
    fn charts(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(process) = self.process() else { return };
        let width = usize::from(area.width);
        let skip = process.history.len().saturating_sub(width);
        let series = |pick: fn(&(f64, f64)) -> f64| -> Vec<u64> {
            let values = process.history.iter().skip(skip).map(|point| pick(point) as u64);
            // The latest stands at the right.
            let missing = width.saturating_sub(process.history.len());
            std::iter::repeat_n(0, missing).chain(values).collect()
        };
        let (content, wire) = (series(|point| point.0), series(|point| point.1));
        let most = content.iter().chain(&wire).copied().max().unwrap_or(0).max(1);
        let areas: [Rect; 2] = Layout::vertical([Constraint::Length(3); 2]).areas(area);
        let seconds = self.interval.as_secs_f64() * width as f64;
        let span = format::number(seconds.round(), Unit::Seconds);
        let titles = [
            format!("payload, last {span}, scale to {}", bits(most as f64)),
            "on the wire, same scale".to_owned(),
        ];
        for (((area, data), title), color) in
            areas.into_iter().zip([content, wire]).zip(titles).zip([Color::Blue, Color::Green])
        {
            let chart = Sparkline::default()
                .block(Block::new().title(Line::styled(title, dim())))
                .data(data)
                .max(most)
                .style(Style::new().fg(color));
            frame.render_widget(chart, area);
        }
    }

    fn peers(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.rows();
        let columns = ["PEER", "STATE", "FLOWS", "PAYLOAD", "WIRE", "SAVED", "ALL", "RTT", "CACHE"];
        let cells = rows.iter().map(|(peer, rates)| {
            let (content, wire) = rates.sum();
            let cache = peer.cache.map_or_else(String::new, |(held, size)| {
                format!("{} %", (100 * held).checked_div(size).unwrap_or(0))
            });
            let row = Row::new([
                Cell::new(peer.name.clone()),
                Cell::new(peer.state.clone()),
                Cell::new(right(peer.flows.map_or_else(String::new, format::count_of), 5)),
                Cell::new(right(bits(content), 11)),
                Cell::new(right(bits(wire), 11)),
                Cell::new(right(share(rates.saved()), 7)),
                Cell::new(right(share(saved_of(peer.content, peer.wire)), 7)),
                Cell::new(right(delay(peer.rtt), 8)),
                Cell::new(right(cache, 5)),
            ]);
            if peer.is_up { row } else { row.style(Style::new().fg(Color::Red)) }
        });
        let widths = [
            Constraint::Min(10),
            Constraint::Length(7),
            Constraint::Length(5),
            Constraint::Length(11),
            Constraint::Length(11),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(8),
            Constraint::Length(5),
        ];
        let header = columns.iter().zip([0, 0, 5, 11, 11, 7, 7, 8, 5]).map(|(name, width)| {
            if width == 0 { (*name).to_owned() } else { right((*name).to_owned(), width) }
        });
        let table = Table::new(cells, widths)
            .header(Row::new(header).style(Style::new().add_modifier(Modifier::REVERSED)))
            .column_spacing(1)
            .row_highlight_style(bold().fg(Color::Yellow));
        let selected = (!rows.is_empty()).then(|| self.selected.min(rows.len() - 1));
        let mut state = TableState::default().with_selected(selected);
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn foot(&self, frame: &mut Frame<'_>, area: Rect) {
        let text = if self.is_typing {
            format!("filter: {}_   Enter: done, Esc: clear", self.filter)
        } else {
            let paused = if self.is_paused { "PAUSED  " } else { "" };
            let filter =
                if self.filter.is_empty() { String::new() } else { format!(" [{}]", self.filter) };
            let sort = self.sort.name();
            format!(
                "{paused}q quit  p pause  s sort [{sort}]  / filter{filter}  Enter counters  Tab next process"
            )
        };
        frame.render_widget(Paragraph::new(Line::styled(text, dim())), area);
    }

    /// All counters of the selected peer, over the rest of the screen.
    fn detail(&self, frame: &mut Frame<'_>, from: usize) {
        let rows = self.rows();
        let Some((peer, _)) = rows.get(self.selected.min(rows.len().saturating_sub(1))) else {
            return;
        };
        let area = frame.area();
        let place = Rect { height: area.height.saturating_sub(1), ..area };
        frame.render_widget(Clear, place);
        let title = format!(" {} {} {} ", peer.name, sanitize(&peer.key), peer.address);
        let block = Block::bordered().title(title).title_bottom(" arrows scroll, Esc goes back ");
        let inside = block.inner(place);
        let from = from.min(peer.counters.len().saturating_sub(usize::from(inside.height)));
        let width = usize::from(inside.width);
        let lines: Vec<_> = peer.counters[from..]
            .iter()
            .take(inside.height.into())
            .map(|(name, value)| {
                let room = width.saturating_sub(name.chars().count() + 1);
                Line::from(format!("{name} {value:>room$}"))
            })
            .collect();
        frame.render_widget(Paragraph::new(lines).block(block), place);
    }
}

fn right(text: String, width: usize) -> String {
    format!("{text:>width$}")
}
