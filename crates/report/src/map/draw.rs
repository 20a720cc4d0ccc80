//! The drawing as SVG.

use super::gather::{Load, Pop, Wire, descending, largest};
use super::names::{Name, names};
use super::place::Frame;
use super::{Map, MapState, WIDTH};
use crate::text::{capitalized, sanitize};
use crate::{Unit, format};
use maud::{Markup, html};

/// Colors of loads in `map.css`.
const STEPS: usize = 7;
/// What the legend explains, if a PoP is in that state.
const STATES: [MapState; 4] =
    [MapState::Drained, MapState::Away, MapState::Overloaded, MapState::Down];

/// Draws PoPs that have their places, and the connections between them.
pub(super) fn draw(pops: &[Pop], mut wires: Vec<Wire>, frame: &Frame, map: &Map) -> Markup {
    let known = wires.iter().flat_map(|wire| &wire.loads).any(|load| load.utilization[0].is_some());
    let value = |wire: &Wire, when: usize| {
        if known {
            largest(wire.loads[0].utilization[when], wire.loads[1].utilization[when])
        } else {
            Some(wire.bytes([|load: &Load| load.before, |load: &Load| load.after][when]))
        }
    };
    let most = wires
        .iter()
        .flat_map(|wire| [value(wire, 0), value(wire, 1)])
        .flatten()
        .fold(0.0, f64::max);
    let step = nice(most / STEPS as f64);
    wires.sort_by(|a, b| {
        let load = |wire| value(wire, 0).unwrap_or(-1.0);
        descending(load(b), load(a)).then(a.ends.cmp(&b.ends))
    });
    let widest = wires.iter().map(|wire| wire.bytes(|load| load.before)).fold(0.0, f64::max);
    // Small PoPs are drawn over large ones.
    let mut order: Vec<usize> = (0..pops.len()).collect();
    order.sort_by(|&a, &b| descending(pops[a].radius, pops[b].radius).then(a.cmp(&b)));
    let names = names(pops, &order, frame.height, frame.meridians.is_empty());
    let about = format!(
        "Map of {} PoPs and {} connections; the tables below have the same numbers",
        pops.len(),
        wires.len()
    );
    html! {
        (controls(map.views))
        div.drawing {
            svg.map viewBox=(format!("0 0 {WIDTH} {:.0}", frame.height)) role="img" aria-label=(about) {
                (grid(frame))
                g.wires {
                    @for wire in &wires {
                        (line(wire, pops, (widest, map.per), [0, 1].map(|when| value(wire, when).map(|load| load / step))))
                    }
                }
                g.pops { @for &at in &order { (dot(&pops[at], at, map.per)) } }
                g.names { @for (at, name) in names.into_iter().enumerate() { (label(&pops[at], at, name)) } }
            }
        }
        (legend((known, step, map.per), &wires, pops))
    }
}

/// The next round number.
fn nice(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let step = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= value * 0.999);
    let step = step.unwrap_or(10.0 * power);
    if step > 0.0 && step.is_finite() { step } else { 1.0 }
}

/// A coordinate or length.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

fn controls([before, after]: [&str; 2]) -> Markup {
    html! {
        input #load-before .choice type="radio" name="load";
        label for="load-before" { (before) }
        input #load-after .choice type="radio" name="load" checked;
        label for="load-after" { (after) }
        span.zoom hidden {
            button type="button" data-zoom="1" aria-label="Zoom in" { "+" }
            button type="button" data-zoom="-1" aria-label="Zoom out" { "−" }
            button type="button" data-zoom="0" { "Whole map" }
        }
    }
}

fn grid(frame: &Frame) -> Markup {
    let [across, down] = &frame.narrowed;
    html! {
        g.degrees {
            @for &(low, high) in across {
                rect data-axis="x" x=(px(low)) y="0" width=(px(high - low)) height=(px(frame.height)) {}
            }
            @for &(low, high) in down {
                rect data-axis="y" x="0" y=(px(low)) width=(WIDTH) height=(px(high - low)) {}
            }
            @for (at, name) in &frame.meridians {
                line data-axis="x" x1=(px(*at)) y1="0" x2=(px(*at)) y2=(px(frame.height)) {}
                text data-axis="x" x=(px(at + 3.0)) y="10" { (name) }
            }
            @for (at, name) in &frame.parallels {
                line data-axis="y" x1="0" y1=(px(*at)) x2=(WIDTH) y2=(px(*at)) {}
                text data-axis="y" x="3" y=(px(at - 3.0)) { (name) }
            }
        }
    }
}

/// A connection. `loads` are its loads before and after, in steps of the legend.
fn line(wire: &Wire, pops: &[Pop], (widest, per): (f64, &str), loads: [Option<f64>; 2]) -> Markup {
    let color = |load: Option<f64>| {
        load.map_or("n".into(), |load| (load as usize).min(STEPS - 1).to_string())
    };
    let width = |bytes: f64| {
        if widest > 0.0 { 1.2 + 4.8 * (bytes / widest).clamp(0.0, 1.0).sqrt() } else { 1.2 }
    };
    let (before, after) =
        (width(wire.bytes(|load| load.before)), width(wire.bytes(|load| load.after)));
    let down = if wire.is_down() { " down" } else { "" };
    let [a, b] = wire.ends;
    let (from, to) = (&pops[a], &pops[b]);
    html! {
        line class=(format!("b{} a{}{down}", color(loads[0]), color(loads[1])))
            style=(format!("--b:{before:.1}px;--a:{after:.1}px")) x1=(px(from.x)) y1=(px(from.y)) x2=(px(to.x)) y2=(px(to.y))
            data-a=(a) data-b=(b) { title { (lines(&about_wire(wire, pops, per))) } }
    }
}

fn dot(pop: &Pop, at: usize, per: &str) -> Markup {
    let (r, ring) = (pop.radius, pop.ring());
    let arc = |class: &str, share: Option<f64>, middle: f64| {
        html! { @if let Some(share) = share {
            circle.track r=(px(middle)) stroke-width=(px(ring)) {}
            @if share > 0.0 {
                circle class=(class) r=(px(middle)) stroke-width=(px(ring)) pathLength="100"
                    stroke-dasharray=(format!("{:.1} 100", share.min(1.0) * 100.0)) transform="rotate(-90)" {}
            }
        } }
    };
    html! {
        g transform=(format!("translate({:.1} {:.1})", pop.x, pop.y)) data-p=(at) data-x=(px(pop.x)) data-y=(px(pop.y))
            data-r=(px(pop.reach())) {
            title { (lines(&about_pop(pop, per))) }
            @if pop.reach() > r + 0.5 { circle.ground r=(px(pop.reach())) {} }
            (mark(pop.state, r))
            (arc("work", pop.operations_use, r + 0.5 + ring * 0.5))
            (arc("cache", pop.cache_use, r + 1.0 + ring * 1.5))
        }
    }
}

/// A PoP by its state: without its color, too, the shapes differ.
fn mark(state: MapState, r: f64) -> Markup {
    let cross = r.min(6.0);
    html! {
        @match state {
            MapState::Normal => { circle.dot r=(px(r)) {} }
            MapState::Drained => { circle.dot.drained r=(px(r - 1.0)) {} }
            MapState::Away => { circle.dot.away r=(px(r - 1.0)) {} }
            MapState::Overloaded => { rect.dot.overloaded x=(px(-r)) y=(px(-r)) width=(px(2.0 * r)) height=(px(2.0 * r)) {} }
            MapState::Down => {
                circle.ground r=(px(r)) {}
                path.dot.dead d=(format!("M{0:.1} {0:.1}L{1:.1} {1:.1}M{0:.1} {1:.1}L{1:.1} {0:.1}", -cross, cross)) {}
            }
        }
    }
}

/// What a state is called; nothing if all is well.
fn state(state: MapState) -> &'static str {
    match state {
        MapState::Normal => "",
        MapState::Drained => "drained: it caches nothing new",
        MapState::Away => "away: not connected with the controller",
        MapState::Overloaded => "overloaded: it has more to do than it can",
        MapState::Down => "down: no neighbor reaches it",
    }
}

fn label(pop: &Pop, at: usize, name: Option<Name>) -> Markup {
    let crowded = name.is_none();
    let Name { x, y, anchor } = name.unwrap_or(Name { x: pop.x, y: pop.y, anchor: "start" });
    html! {
        text class=[crowded.then_some("crowded")] x=(px(x)) y=(px(y)) text-anchor=(anchor) data-p=(at) { (sanitize(&pop.name)) }
    }
}

/// Lines of a hint. No name can add one.
fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| sanitize(line)).collect::<Vec<_>>().join("\n")
}

fn about_pop(pop: &Pop, per: &str) -> Vec<String> {
    let plural =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut lines = vec![pop.full.clone()];
    lines.extend((pop.state != MapState::Normal).then(|| capitalized(state(pop.state))));
    if pop.routers > 1 {
        lines.push(format!(
            "{}, {} within the PoP",
            plural(pop.routers, "router"),
            plural(pop.inside, "link")
        ));
    }
    lines.push(format!("Enters and leaves: {} per {per}", format::number(pop.volume, Unit::Bytes)));
    if let Some(share) = pop.cache_use {
        lines.push(format!("Fullest cache: {}", format::share(share)));
    }
    if let Some(share) = pop.operations_use {
        lines.push(format!("Busiest device: {} of its operations", format::share(share)));
    }
    lines
}

fn about_wire(wire: &Wire, pops: &[Pop], per: &str) -> Vec<String> {
    let [a, b] = wire.ends;
    let bytes = |bytes: f64| format::number(bytes, Unit::Bytes);
    let mut lines = vec![format!("{} – {}", pops[a].full, pops[b].full)];
    for (load, from, to) in [(&wire.loads[0], a, b), (&wire.loads[1], b, a)] {
        if load.links == 0 {
            continue;
        }
        let parallel =
            if load.links > 1 { format!(" ({} links)", load.links) } else { String::new() };
        lines.push(format!("{} → {}{parallel}", pops[from].name, pops[to].name));
        if load.down > 0 {
            let of = if load.links > 1 {
                format!("{} of {} down", load.down, load.links)
            } else {
                "down".into()
            };
            lines.push(format!("  {of}"));
        }
        let saved = 1.0 - load.after / load.before;
        let less = if saved.is_finite() && saved >= 0.0 {
            format!(", {} less", format::share(saved))
        } else {
            String::new()
        };
        lines.push(format!("  {} → {} per {per}{less}", bytes(load.before), bytes(load.after)));
        if let [Some(before), Some(after)] = load.utilization {
            lines.push(format!("  load {} → {}", format::share(before), format::share(after)));
        }
    }
    lines
}

fn legend((known, step, per): (bool, f64, &str), wires: &[Wire], pops: &[Pop]) -> Markup {
    let (unit, what) = if known {
        (Unit::Share, "share of a link's capacity in use".into())
    } else {
        (Unit::Bytes, format!("bytes on a link per {per}"))
    };
    let from = |at: usize| {
        format::number(step * at as f64, unit).replace(".0 %", " %").replace(' ', "\u{a0}")
    };
    let sign = |class: &str, text: &str| {
        html! {
            div {
                svg.sign width="28" height="28" viewBox="-14 -14 28 28" aria-hidden="true" {
                    circle.track r="9" stroke-width="4" {}
                    circle class=(class) r="9" stroke-width="4" pathLength="100" stroke-dasharray="62 100"
                        transform="rotate(-90)" {}
                }
                span { (text) }
            }
        }
    };
    html! {
        div.key {
            @if !wires.is_empty() {
                div.scale {
                    span { (what) }
                    ol { @for at in 0..STEPS { li class=(format!("s{at}")) { (from(at)) } } }
                    span { "The busier direction; thicker lines carry more bytes." }
                }
            }
            div {
                svg.sign width="36" height="28" viewBox="-18 -14 36 28" aria-hidden="true" {
                    circle.dot cx="-9" r="3" {}
                    circle.dot cx="6" r="8" {}
                }
                span { "PoP, by the traffic that enters and leaves" }
            }
            @if pops.iter().any(|pop| pop.cache_use.is_some()) { (sign("cache", "outer ring: its fullest cache")) }
            @if pops.iter().any(|pop| pop.operations_use.is_some()) {
                (sign("work", "inner ring: operations of its busiest device"))
            }
            @for one in STATES.into_iter().filter(|one| pops.iter().any(|pop| pop.state == *one)) {
                div {
                    svg.sign width="20" height="28" viewBox="-10 -14 20 28" aria-hidden="true" { (mark(one, 6.0)) }
                    span { (state(one)) }
                }
            }
            @if wires.iter().any(Wire::is_down) {
                div {
                    svg.sign width="36" height="28" viewBox="0 0 36 28" aria-hidden="true" {
                        g.wires { line.down x1="2" y1="14" x2="34" y2="14" {} }
                    }
                    span { "link that is down" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (value, step) in [
            (0.07, 0.08),
            (0.13, 0.15),
            (0.21, 0.25),
            (3.1e8, 4.0e8),
            (9.0, 10.0),
            (0.0, 1.0),
            (f64::INFINITY, 1.0),
            (f64::NAN, 1.0),
        ] {
            assert!((nice(value) - step).abs() < step * 1e-9, "{value}: {}", nice(value));
        }
        assert!(nice(f64::MAX).is_finite() && nice(5e-324) > 0.0);
    }
}
