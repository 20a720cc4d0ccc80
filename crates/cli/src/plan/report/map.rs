//! The map of a plan: PoPs where they are, links by load, devices by use. It is whole without JavaScript, which only adds to it.
//!
//! Access routers are folded into their PoP. Longitudes and latitudes (Mercator) are fitted to the PoPs; wide stretches without any, such as
//! oceans, are drawn narrow, so that there is room for the cities. All coordinates that are written are finite, whatever the document holds.

use super::super::document::{Document, LinkRow};
use super::tables::{descending, saved};
use crate::format;
use crate::page::escape;
use oncewire_trace::results::Unit;
use std::collections::BTreeMap;
use std::f64::consts::{PI, TAU};
use std::fmt::Write;

/// In units of the drawing, which are CSS pixels on a wide screen.
const WIDTH: f64 = 960.0;
const HEIGHTS: (f64, f64) = (340.0, 640.0);
const MARGIN: f64 = 44.0;
/// In degrees: wider stretches without a PoP are drawn as [`NARROWED`].
const FAR: f64 = 15.0;
const NARROWED: f64 = 6.0;
/// Colours of loads in `page.css`.
const STEPS: usize = 7;
/// Those of the most traffic are drawn; nobody can tell more apart.
const MOST_POPS: usize = 1_000;
const MOST_WIRES: usize = 4_000;
/// Characters of a name on the map.
const NAME: usize = 20;
/// So many of the largest PoPs are named even over small ones.
const FIRST: usize = 14;

/// A PoP, as it is drawn.
struct Pop {
    name: String,
    full: String,
    routers: usize,
    inside: usize,
    volume: f64,
    /// Of the device that uses the most.
    memory: Option<f64>,
    operations: Option<f64>,
    position: Option<[f64; 2]>,
    x: f64,
    y: f64,
    radius: f64,
}

impl Pop {
    /// With its rings.
    fn reach(&self) -> f64 {
        self.radius + if self.memory.is_some() || self.operations.is_some() { 2.0 * self.ring() + 1.0 } else { 0.5 }
    }

    fn ring(&self) -> f64 {
        (self.radius * 0.36).clamp(1.6, 3.4)
    }
}

#[derive(Clone, Copy, Default)]
struct Load {
    links: usize,
    before: f64,
    after: f64,
    utilization: [Option<f64>; 2],
}

impl Load {
    fn add(&mut self, link: &LinkRow) {
        self.links += 1;
        self.before += finite(link.before_bytes);
        self.after += finite(link.after_bytes);
        for (most, new) in self.utilization.iter_mut().zip([link.utilization_before, link.utilization_after]) {
            *most = largest(*most, new);
        }
    }
}

/// What joins two PoPs: links in both directions.
struct Wire {
    ends: [usize; 2],
    loads: [Load; 2],
}

impl Wire {
    fn bytes(&self, of: fn(&Load) -> f64) -> f64 {
        of(&self.loads[0]).max(of(&self.loads[1]))
    }
}

/// Where a map is drawn.
struct Frame {
    height: f64,
    /// Lines of equal longitude and latitude: where, and of what.
    meridians: Vec<(f64, String)>,
    parallels: Vec<(f64, String)>,
    /// Stretches that are drawn narrower than they are.
    narrowed: [Vec<(f64, f64)>; 2],
}

/// Writes the map, and returns what is to be said of it.
pub(super) fn draw(out: &mut String, document: &Document) -> Vec<String> {
    let (mut pops, mut wires, mut notes) = gather(document);
    if pops.is_empty() {
        out.push_str("<p class=\"empty\">The network has no nodes.</p>");
        return notes;
    }
    let frame = place(&mut pops, &wires, &mut notes);
    let known = wires.iter().flat_map(|wire| &wire.loads).any(|load| load.utilization[0].is_some());
    let value = |wire: &Wire, when: usize| {
        if known {
            largest(wire.loads[0].utilization[when], wire.loads[1].utilization[when])
        } else {
            Some(wire.bytes([|load: &Load| load.before, |load: &Load| load.after][when]))
        }
    };
    let most = wires.iter().flat_map(|wire| [value(wire, 0), value(wire, 1)]).flatten().fold(0.0, f64::max);
    let step = nice(most / STEPS as f64);
    wires.sort_by(|a, b| descending(value(b, 0).unwrap_or(-1.0), value(a, 0).unwrap_or(-1.0)).then(a.ends.cmp(&b.ends)));

    controls(out);
    let _ = write!(
        out,
        "<div class=\"drawing\"><svg class=\"map\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Map of {} PoPs and {} connections; \
         the tables below have the same numbers\">",
        frame.height,
        pops.len(),
        wires.len()
    );
    grid(out, &frame);
    let widest = wires.iter().map(|wire| wire.bytes(|load| load.before)).fold(0.0, f64::max);
    out.push_str("<g class=\"wires\">");
    for wire in &wires {
        let class = |when: usize, letter: char| match value(wire, when) {
            Some(value) => format!("{letter}{}", ((value / step) as usize).min(STEPS - 1)),
            None => format!("{letter}n"),
        };
        let width = |bytes: f64| if widest > 0.0 { 1.2 + 4.8 * (bytes / widest).clamp(0.0, 1.0).sqrt() } else { 1.2 };
        let (before, after) = (width(wire.bytes(|load| load.before)), width(wire.bytes(|load| load.after)));
        let [a, b] = wire.ends;
        let (from, to) = (&pops[a], &pops[b]);
        let _ = write!(
            out,
            "<line class=\"{} {}\" style=\"--b:{before:.1}px;--a:{after:.1}px\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" \
             data-a=\"{a}\" data-b=\"{b}\"><title>{}</title></line>",
            class(0, 'b'),
            class(1, 'a'),
            from.x,
            from.y,
            to.x,
            to.y,
            escape_lines(&about_wire(wire, &pops))
        );
    }
    out.push_str("</g><g class=\"pops\">");
    // Small ones over large ones.
    let mut order: Vec<usize> = (0..pops.len()).collect();
    order.sort_by(|&a, &b| descending(pops[a].radius, pops[b].radius).then(a.cmp(&b)));
    for &at in &order {
        dot(out, &pops[at], at);
    }
    out.push_str("</g><g class=\"names\">");
    for (at, name) in names(&pops, &order, frame.height, frame.meridians.is_empty()).into_iter().enumerate() {
        let pop = &pops[at];
        let (crowded, name) = match name {
            Some(name) => ("", name),
            None => (" class=\"crowded\"", Name { x: pop.x, y: pop.y, anchor: "start" }),
        };
        let Name { x, y, anchor } = name;
        let _ = write!(
            out,
            "<text{crowded} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" data-p=\"{at}\">{}</text>",
            escape(&pop.name)
        );
    }
    out.push_str("</g></svg></div>");
    legend(out, known, step, &wires, &pops);
    notes
}

fn finite(value: f64) -> f64 {
    if value.is_finite() && value > 0.0 { value } else { 0.0 }
}

fn largest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let known = |value: &f64| value.is_finite() && *value >= 0.0;
    match (a.filter(known), b.filter(known)) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// The next of some round numbers, times a power of ten.
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

/// PoPs and what joins them, the ones with the most traffic.
fn gather(document: &Document) -> (Vec<Pop>, Vec<Wire>, Vec<String>) {
    let mut notes = Vec::new();
    let mut index: BTreeMap<u32, usize> = BTreeMap::new();
    let mut pops: Vec<Pop> = Vec::new();
    // Its core router names a PoP.
    let mut named: Vec<bool> = Vec::new();
    let mut pop_of: Vec<usize> = Vec::with_capacity(document.nodes.len());
    for node in &document.nodes {
        let at = *index.entry(node.pop).or_insert(pops.len());
        if at == pops.len() {
            pops.push(Pop {
                name: String::new(),
                full: String::new(),
                routers: 0,
                inside: 0,
                volume: 0.0,
                memory: None,
                operations: None,
                position: None,
                x: 0.0,
                y: 0.0,
                radius: 0.0,
            });
            named.push(false);
        }
        let pop = &mut pops[at];
        let core = node.role != "access";
        if pop.routers == 0 || (core && !named[at]) {
            pop.full = cut(if node.label.trim().is_empty() { &node.id } else { &node.label }, 120);
            named[at] = core;
        }
        pop.routers += 1;
        pop.volume += finite(node.volume_bytes);
        let valid = |at: &[f64; 2]| at[0].abs() <= 90.0 && at[1].abs() <= 360.0;
        pop.position = pop.position.or(node.position.filter(valid));
        pop_of.push(at);
    }
    for device in &document.devices {
        let Some(&at) = pop_of.get(device.node as usize) else { continue };
        pops[at].memory = largest(pops[at].memory, device.memory_share);
        pops[at].operations = largest(pops[at].operations, device.operations_share);
    }
    let mut pairs: BTreeMap<[usize; 2], [Load; 2]> = BTreeMap::new();
    for link in &document.links {
        let (Some(&from), Some(&to)) = (pop_of.get(link.from as usize), pop_of.get(link.to as usize)) else { continue };
        if from == to {
            pops[from].inside += 1;
        } else {
            let (key, way) = if from < to { ([from, to], 0) } else { ([to, from], 1) };
            pairs.entry(key).or_default()[way].add(link);
        }
    }
    let mut wires: Vec<Wire> = pairs.into_iter().map(|(ends, loads)| Wire { ends, loads }).collect();
    if pops.len() > MOST_POPS {
        let mut order: Vec<usize> = (0..pops.len()).collect();
        order.sort_by(|&a, &b| descending(pops[a].volume, pops[b].volume).then(a.cmp(&b)));
        let (whole, most) = (format::count_of(pops.len() as u64), format::count_of(MOST_POPS as u64));
        notes.push(format!("Of {whole} PoPs those {most} with the most traffic are drawn."));
        let mut kept = vec![None; pops.len()];
        order.truncate(MOST_POPS);
        order.sort_unstable();
        for (new, &old) in order.iter().enumerate() {
            kept[old] = Some(new);
        }
        wires.retain_mut(|wire| match wire.ends.map(|end| kept[end]) {
            [Some(a), Some(b)] => {
                wire.ends = [a, b];
                true
            }
            _ => false,
        });
        let mut at = 0;
        pops.retain(|_| {
            at += 1;
            kept[at - 1].is_some()
        });
    }
    if wires.len() > MOST_WIRES {
        let whole = format::count_of(wires.len() as u64);
        let most = format::count_of(MOST_WIRES as u64);
        notes.push(format!("Of {whole} connections those {most} with the most traffic are drawn."));
        wires.sort_by(|a, b| descending(a.bytes(|load| load.before), b.bytes(|load| load.before)).then(a.ends.cmp(&b.ends)));
        wires.truncate(MOST_WIRES);
    }
    // The city alone, where that is not said of two.
    let short = |full: &str| full.split(',').next().unwrap_or(full).trim().to_owned();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for pop in &pops {
        *times.entry(short(&pop.full)).or_default() += 1;
    }
    let most = pops.iter().map(|pop| pop.volume).fold(0.0, f64::max);
    let room = (9.0 * (60.0 / pops.len() as f64).sqrt()).clamp(2.5, 9.0);
    for pop in &mut pops {
        let city = short(&pop.full);
        let city = if city.is_empty() || times[&city] > 1 { &pop.full } else { &city };
        pop.name = cut(city, NAME);
        let share = if most > 0.0 { (pop.volume / most).clamp(0.0, 1.0) } else { 0.0 };
        pop.radius = 2.8 + room * share.sqrt();
    }
    (pops, wires, notes)
}

fn cut(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let mut out: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        out.pop();
        out.push('…');
    }
    out
}

/// Values of one axis to places on it: where values are far from each other, in fewer degrees than there are.
struct Axis {
    /// Ascending: value, place.
    knots: Vec<(f64, f64)>,
    narrowed: Vec<(f64, f64)>,
}

impl Axis {
    fn new(mut values: Vec<f64>) -> Axis {
        values.sort_by(f64::total_cmp);
        let mut knots = Vec::new();
        let (mut narrowed, mut place) = (Vec::new(), 0.0);
        for (at, &value) in values.iter().enumerate() {
            if at > 0 {
                let gap = value - values[at - 1];
                if gap > FAR {
                    narrowed.push((place, place + NARROWED));
                }
                place += if gap > FAR { NARROWED } else { gap };
            }
            knots.push((value, place));
        }
        Axis { knots, narrowed }
    }

    fn span(&self) -> f64 {
        self.knots.last().map_or(0.0, |knot| knot.1)
    }

    fn ends(&self) -> (f64, f64) {
        (self.knots.first().map_or(0.0, |knot| knot.0), self.knots.last().map_or(0.0, |knot| knot.0))
    }

    fn place(&self, value: f64) -> f64 {
        let after = self.knots.partition_point(|knot| knot.0 < value);
        match (after.checked_sub(1).map(|at| self.knots[at]), self.knots.get(after).copied()) {
            (Some((v, p)), Some((w, q))) if w > v => p + (q - p) * (value - v) / (w - v),
            (_, Some((w, q))) => q - (w - value),
            (Some((v, p)), None) => p + value - v,
            (None, None) => 0.0,
        }
    }

    fn within_narrowed(&self, place: f64) -> bool {
        self.narrowed.iter().any(|&(low, high)| place > low && place < high)
    }
}

/// In degrees, with those at the equator as wide as high. What is nearer to a pole is drawn at 80 degrees.
fn mercator(latitude: f64) -> f64 {
    (PI / 4.0 + latitude.clamp(-80.0, 80.0).to_radians() / 2.0).tan().ln().to_degrees()
}

/// Gives every PoP its place.
fn place(pops: &mut [Pop], wires: &[Wire], notes: &mut Vec<String>) -> Frame {
    let placed: Vec<[f64; 2]> = pops.iter().filter_map(|pop| pop.position).collect();
    if placed.len() * 2 < pops.len() || placed.is_empty() {
        notes.push("Too few of the PoPs have coordinates for a map: they stand in a circle, neighbors near each other.".into());
        return circle(pops, wires);
    }
    // The map is cut where the most longitudes have nothing.
    let mut longitudes: Vec<f64> = placed.iter().map(|at| at[1].rem_euclid(360.0)).collect();
    longitudes.sort_by(f64::total_cmp);
    let mut start = (longitudes[0], longitudes[0] + 360.0 - longitudes[longitudes.len() - 1]);
    for pair in longitudes.windows(2) {
        if pair[1] - pair[0] > start.1 {
            start = (pair[1], pair[1] - pair[0]);
        }
    }
    let unrolled = |longitude: f64| (longitude.rem_euclid(360.0) - start.0).rem_euclid(360.0);
    let x = Axis::new(placed.iter().map(|at| unrolled(at[1])).collect());
    let y = Axis::new(placed.iter().map(|at| mercator(at[0])).collect());
    let most = |room: f64, span: f64| if span > 1e-6 { room / span } else { f64::INFINITY };
    let room = WIDTH - 2.0 * MARGIN;
    // A degree of a lone city, or of two in a street, is not as wide as the page.
    let scale = most(room, x.span()).min(most(HEIGHTS.1 - 2.0 * MARGIN, y.span())).min(400.0);
    let height = (y.span() * scale + 2.0 * MARGIN).clamp(HEIGHTS.0, HEIGHTS.1);
    let (left, top) = ((WIDTH - x.span() * scale) / 2.0, (height - y.span() * scale) / 2.0);
    let across = |place: f64| left + place * scale;
    let down = |place: f64| top + (y.span() - place) * scale;

    let unplaced = pops.iter().filter(|pop| pop.position.is_none()).count();
    let mut full = height;
    let mut at = 0;
    let in_row = 16;
    for pop in pops.iter_mut() {
        if let Some([latitude, longitude]) = pop.position {
            (pop.x, pop.y) = (across(x.place(unrolled(longitude))), down(y.place(mercator(latitude))));
        } else {
            let (row, column) = (at / in_row, at % in_row);
            let columns = (unplaced - row * in_row).min(in_row) as f64;
            (pop.x, pop.y) = ((column as f64 + 0.5) * WIDTH / columns, height + 24.0 + 44.0 * row as f64);
            full = pop.y + 32.0;
            at += 1;
        }
    }
    if unplaced > 0 {
        notes.push(format!("{unplaced} PoPs without valid coordinates stand below the map."));
    }
    if !x.narrowed.is_empty() || !y.narrowed.is_empty() {
        notes.push("Shaded stretches without PoPs, such as oceans, are drawn narrower than they are.".into());
    }
    nudge(pops, full);

    let degrees = |value: f64, letters: [char; 2]| match value.round() as i64 {
        0 => "0°".to_owned(),
        degrees => format!("{}° {}", degrees.abs(), letters[usize::from(degrees < 0)]),
    };
    let each = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0].into_iter().find(|step| step * scale >= 70.0).unwrap_or(30.0);
    let mut meridians = Vec::new();
    for at in 0..(360.0 / each) as i64 {
        let longitude = at as f64 * each - 180.0;
        // Left of the first PoP, too, as far as the drawing goes.
        let (first, last) = x.ends();
        let mut value = unrolled(longitude);
        if value > last + MARGIN / scale {
            value -= 360.0;
        }
        let place = x.place(value);
        if value >= first - left / scale && across(place) <= WIDTH && !x.within_narrowed(place) {
            meridians.push((across(place), degrees(longitude, ['E', 'W'])));
        }
    }
    meridians.sort_by(|a: &(f64, String), b| a.0.total_cmp(&b.0));
    let mut parallels = Vec::new();
    for at in -(80.0 / each) as i64..=(80.0 / each) as i64 {
        let place = y.place(mercator(at as f64 * each));
        let line = down(place);
        if (0.0..height).contains(&line) && !y.within_narrowed(place) {
            parallels.push((line, degrees(at as f64 * each, ['N', 'S'])));
        }
    }
    let narrowed = [
        x.narrowed.iter().map(|&(low, high)| (across(low), across(high))).collect(),
        y.narrowed.iter().map(|&(low, high)| (down(high), down(low))).collect(),
    ];
    Frame { height: full, meridians, parallels, narrowed }
}

/// In a circle, in the order of a walk that goes deep first: neighbours are near each other.
fn circle(pops: &mut [Pop], wires: &[Wire]) -> Frame {
    let height = HEIGHTS.1;
    let mut neighbours = vec![Vec::new(); pops.len()];
    for wire in wires {
        let [a, b] = wire.ends;
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut roots: Vec<usize> = (0..pops.len()).collect();
    roots.sort_by_key(|&at| (std::cmp::Reverse(neighbours[at].len()), at));
    let (mut seen, mut order) = (vec![false; pops.len()], Vec::new());
    for root in roots {
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                order.push(at);
                stack.extend(neighbours[at].iter().rev().filter(|&&next| !seen[next]));
            }
        }
    }
    let whole = order.len() as f64;
    for (place, at) in order.into_iter().enumerate() {
        let angle = TAU * place as f64 / whole - PI / 2.0;
        pops[at].x = WIDTH / 2.0 + (WIDTH / 2.0 - 150.0) * angle.cos();
        pops[at].y = height / 2.0 + (height / 2.0 - MARGIN) * angle.sin();
    }
    Frame { height, meridians: Vec::new(), parallels: Vec::new(), narrowed: [Vec::new(), Vec::new()] }
}

/// Moves PoPs that cover each other apart, not far.
fn nudge(pops: &mut [Pop], height: f64) {
    const FARTHEST: f64 = 16.0;
    let homes: Vec<(f64, f64)> = pops.iter().map(|pop| (pop.x, pop.y)).collect();
    for _ in 0..30 {
        let mut moved = false;
        for a in 0..pops.len() {
            for b in a + 1..pops.len() {
                let (mut dx, mut dy) = (pops[b].x - pops[a].x, pops[b].y - pops[a].y);
                let apart = pops[a].reach() + pops[b].reach() + 1.0;
                if dx.abs() >= apart || dy.abs() >= apart {
                    continue;
                }
                let mut distance = dx.hypot(dy);
                if distance >= apart {
                    continue;
                }
                if distance < 1e-3 {
                    // At one place: in directions that differ.
                    (dx, dy) = ((a + b) as f64 * 2.4).sin_cos();
                    distance = 1.0;
                }
                let push = (apart - distance.min(apart)) / 2.0 / distance;
                for (at, sign) in [(a, -1.0), (b, 1.0)] {
                    let (x, y) = (pops[at].x + sign * dx * push - homes[at].0, pops[at].y + sign * dy * push - homes[at].1);
                    let limit = (FARTHEST / x.hypot(y).max(1e-9)).min(1.0);
                    let reach = pops[at].reach();
                    pops[at].x = (homes[at].0 + x * limit).clamp(reach, WIDTH - reach);
                    pops[at].y = (homes[at].1 + y * limit).clamp(reach, height - reach);
                }
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
}

struct Name {
    x: f64,
    y: f64,
    anchor: &'static str,
}

type Area = (f64, f64, f64, f64);

/// What is taken, by parts of the drawing: nothing is compared but with what stands in the same part.
#[derive(Default)]
struct Taken(BTreeMap<(i32, i32), Vec<Area>>);

impl Taken {
    fn cells((left, top, right, bottom): Area) -> impl Iterator<Item = (i32, i32)> {
        let to = |value: f64| (value / 60.0).floor() as i32;
        (to(left)..=to(right)).flat_map(move |x| (to(top)..=to(bottom)).map(move |y| (x, y)))
    }

    fn take(&mut self, area: Area) {
        for cell in Taken::cells(area) {
            self.0.entry(cell).or_default().push(area);
        }
    }

    fn free(&self, area: Area) -> bool {
        let meets = |other: &Area| area.0 < other.2 && other.0 < area.2 && area.1 < other.3 && other.1 < area.3;
        !Taken::cells(area).filter_map(|cell| self.0.get(&cell)).flatten().any(meets)
    }
}

/// Where the name of each PoP stands, if there is room: beside its PoP, over no other name and no other PoP. The largest come first; they may
/// stand over small PoPs. `outward`, as in a circle, is to the left at the left.
fn names(pops: &[Pop], order: &[usize], height: f64, outward: bool) -> Vec<Option<Name>> {
    const SIZE: f64 = 11.0;
    let (mut dots, mut large, mut texts) = (Taken::default(), Taken::default(), Taken::default());
    for (rank, &at) in order.iter().enumerate() {
        let pop = &pops[at];
        let reach = pop.reach() - 0.5;
        let area = (pop.x - reach, pop.y - reach, pop.x + reach, pop.y + reach);
        dots.take(area);
        if rank < FIRST {
            large.take(area);
        }
    }
    let mut out: Vec<Option<Name>> = (0..pops.len()).map(|_| None).collect();
    for (rank, &at) in order.iter().enumerate() {
        let pop = &pops[at];
        // Of the widest letters of usual fonts.
        let letter = |c: char| match c {
            'a'..='z' | '0'..='9' | ' ' | '.' | ',' | '-' => 0.6,
            c if c.is_ascii() && !matches!(c, 'M' | 'W' | '@' | '%') => 0.75,
            _ => 1.0,
        };
        let width: f64 = pop.name.chars().map(letter).sum::<f64>() * SIZE;
        let gap = pop.reach() + 3.0;
        let slant = gap * 0.75;
        let mut candidates = [
            (pop.x + gap, pop.y + 4.0, "start"),
            (pop.x - gap, pop.y + 4.0, "end"),
            (pop.x, pop.y - gap - 1.0, "middle"),
            (pop.x, pop.y + gap + 8.0, "middle"),
            (pop.x + slant, pop.y - slant, "start"),
            (pop.x + slant, pop.y + slant + 7.0, "start"),
            (pop.x - slant, pop.y - slant, "end"),
            (pop.x - slant, pop.y + slant + 7.0, "end"),
        ];
        if outward && pop.x < WIDTH / 2.0 {
            candidates.swap(0, 1);
        }
        let found = [&dots, &large].into_iter().take(if rank < FIRST { 2 } else { 1 }).find_map(|obstacles| {
            candidates.into_iter().find_map(|(x, y, anchor)| {
                let left = match anchor {
                    "start" => x,
                    "end" => x - width,
                    _ => x - width / 2.0,
                };
                let area = (left, y - SIZE * 0.8, left + width, y + SIZE * 0.25);
                let inside = area.0 >= 2.0 && area.2 <= WIDTH - 2.0 && area.1 >= 2.0 && area.3 <= height - 2.0;
                (inside && obstacles.free(area) && texts.free(area)).then_some((area, Name { x, y, anchor }))
            })
        });
        if let Some((area, name)) = found {
            texts.take(area);
            out[at] = Some(name);
        }
    }
    out
}

fn controls(out: &mut String) {
    out.push_str(
        "<input type=\"radio\" name=\"load\" id=\"load-before\" class=\"choice\"><label for=\"load-before\">Without the plan</label>\
         <input type=\"radio\" name=\"load\" id=\"load-after\" class=\"choice\" checked><label for=\"load-after\">With the plan</label>\
         <span class=\"zoom\" hidden><button type=\"button\" data-zoom=\"1\" aria-label=\"Enlarge\">+</button>\
         <button type=\"button\" data-zoom=\"-1\" aria-label=\"Shrink\">−</button>\
         <button type=\"button\" data-zoom=\"0\">Whole map</button></span>",
    );
}

fn grid(out: &mut String, frame: &Frame) {
    out.push_str("<g class=\"degrees\">");
    for &(low, high) in &frame.narrowed[0] {
        let _ = write!(
            out,
            "<rect data-axis=\"x\" x=\"{low:.1}\" y=\"0\" width=\"{:.1}\" height=\"{:.1}\"/>",
            high - low,
            frame.height
        );
    }
    for &(low, high) in &frame.narrowed[1] {
        let _ = write!(out, "<rect data-axis=\"y\" x=\"0\" y=\"{low:.1}\" width=\"{WIDTH}\" height=\"{:.1}\"/>", high - low);
    }
    for (at, name) in &frame.meridians {
        let _ = write!(out, "<line data-axis=\"x\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{:.1}\"/>", frame.height);
        let _ = write!(out, "<text data-axis=\"x\" x=\"{:.1}\" y=\"10\">{name}</text>", at + 3.0);
    }
    for (at, name) in &frame.parallels {
        let _ = write!(out, "<line data-axis=\"y\" x1=\"0\" y1=\"{at:.1}\" x2=\"{WIDTH}\" y2=\"{at:.1}\"/>");
        let _ = write!(out, "<text data-axis=\"y\" x=\"3\" y=\"{:.1}\">{name}</text>", at - 3.0);
    }
    out.push_str("</g>");
}

fn dot(out: &mut String, pop: &Pop, at: usize) {
    let (r, ring) = (pop.radius, pop.ring());
    let _ = write!(
        out,
        "<g transform=\"translate({:.1} {:.1})\" data-p=\"{at}\" data-x=\"{:.1}\" data-y=\"{:.1}\" data-r=\"{:.1}\"><title>{}</title>",
        pop.x,
        pop.y,
        pop.x,
        pop.y,
        pop.reach(),
        escape_lines(&about_pop(pop))
    );
    if pop.reach() > r + 0.5 {
        let _ = write!(out, "<circle class=\"ground\" r=\"{:.1}\"/>", pop.reach());
    }
    let _ = write!(out, "<circle class=\"dot\" r=\"{r:.1}\"/>");
    let mut arc = |class: &str, share: Option<f64>, middle: f64| {
        let Some(share) = share else { return };
        let _ = write!(out, "<circle class=\"track\" r=\"{middle:.1}\" stroke-width=\"{ring:.1}\"/>");
        if share > 0.0 {
            let _ = write!(
                out,
                "<circle class=\"{class}\" r=\"{middle:.1}\" stroke-width=\"{ring:.1}\" pathLength=\"100\" stroke-dasharray=\"{:.1} 100\" \
                 transform=\"rotate(-90)\"/>",
                share.min(1.0) * 100.0
            );
        }
    };
    arc("work", pop.operations, r + 0.5 + ring * 0.5);
    arc("cache", pop.memory, r + 1.0 + ring * 1.5);
    out.push_str("</g>");
}

fn about_pop(pop: &Pop) -> Vec<String> {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut lines = vec![pop.full.clone()];
    if pop.routers > 1 {
        lines.push(format!("{}, {} within the PoP", plural(pop.routers, "router"), plural(pop.inside, "link")));
    }
    lines.push(format!("Enters and leaves: {} per epoch", format::number(pop.volume, Unit::Bytes)));
    let share = |share: f64| format::number(share, Unit::Share);
    if let Some(memory) = pop.memory {
        lines.push(format!("Fullest cache: {}", share(memory)));
    }
    if let Some(operations) = pop.operations {
        lines.push(format!("Busiest device: {} of its operations", share(operations)));
    }
    lines
}

fn about_wire(wire: &Wire, pops: &[Pop]) -> Vec<String> {
    let [a, b] = wire.ends;
    let bytes = |bytes: f64| format::number(bytes, Unit::Bytes);
    let share = |share: f64| format::number(share, Unit::Share);
    let mut lines = vec![format!("{} – {}", pops[a].full, pops[b].full)];
    for (load, from, to) in [(&wire.loads[0], a, b), (&wire.loads[1], b, a)] {
        if load.links == 0 {
            continue;
        }
        let parallel = if load.links > 1 { format!(" ({} links)", load.links) } else { String::new() };
        lines.push(format!("{} → {}{parallel}", pops[from].name, pops[to].name));
        let less = saved(load.before, load.after).map_or_else(String::new, |share| {
            if share >= 0.0 { format!(", {} less", self::share(share)) } else { String::new() }
        });
        lines.push(format!("  {} → {} per epoch{less}", bytes(load.before), bytes(load.after)));
        if let [Some(before), Some(after)] = load.utilization {
            lines.push(format!("  load {} → {}", share(before), share(after)));
        }
    }
    lines
}

fn share(share: f64) -> String {
    format::number(share, Unit::Share)
}

/// Lines of which no name can make two.
fn escape_lines(lines: &[String]) -> String {
    lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("\n")
}

fn legend(out: &mut String, known: bool, step: f64, wires: &[Wire], pops: &[Pop]) {
    out.push_str("<div class=\"key\">");
    if !wires.is_empty() {
        let unit = if known { Unit::Share } else { Unit::Bytes };
        let what = if known { "load of a link, of its capacity" } else { "bytes on a link in an epoch" };
        let _ = write!(out, "<div class=\"scale\"><span>{what}</span><ol>");
        for at in 0..STEPS {
            let from = format::number(step * at as f64, unit).replace(".0 %", " %").replace(' ', "\u{a0}");
            let _ = write!(out, "<li class=\"s{at}\">{from}</li>");
        }
        out.push_str("</ol><span>The larger of both directions; thicker with more bytes.</span></div>");
    }
    out.push_str(
        "<div><svg class=\"sign\" width=\"36\" height=\"28\" viewBox=\"-18 -14 36 28\" aria-hidden=\"true\"><circle class=\"dot\" cx=\"-9\" r=\"3\"/>\
         <circle class=\"dot\" cx=\"6\" r=\"8\"/></svg><span>PoP, by the traffic that enters and leaves</span></div>",
    );
    let sign = |out: &mut String, class: &str, text: &str| {
        let _ = write!(
            out,
            "<div><svg class=\"sign\" width=\"28\" height=\"28\" viewBox=\"-14 -14 28 28\" aria-hidden=\"true\"><circle class=\"track\" r=\"9\" \
             stroke-width=\"4\"/><circle class=\"{class}\" r=\"9\" stroke-width=\"4\" pathLength=\"100\" stroke-dasharray=\"62 100\" \
             transform=\"rotate(-90)\"/></svg><span>{text}</span></div>"
        );
    };
    if pops.iter().any(|pop| pop.memory.is_some()) {
        sign(out, "cache", "outer ring: use of the fullest cache there");
    }
    if pops.iter().any(|pop| pop.operations.is_some()) {
        sign(out, "work", "inner ring: operations of the busiest device there");
    }
    out.push_str("</div>");
}

#[cfg(test)]
mod tests {
    use super::super::super::document::NodeRow;
    use super::super::sample::{self, Pop as City};
    use super::*;

    fn city(label: &str, latitude: f64, longitude: f64) -> City {
        City { label: label.into(), position: Some([latitude, longitude]), population: 1e6 }
    }

    #[test]
    fn axes_rise_and_narrow_what_is_empty() {
        let axis = Axis::new(vec![0.0, 3.0, 100.0, 110.0]);
        assert_eq!(axis.span(), 3.0 + NARROWED + 10.0);
        assert_eq!(axis.narrowed, [(3.0, 3.0 + NARROWED)]);
        let places: Vec<f64> = (-20..140).map(|value| axis.place(value.into())).collect();
        assert!(places.is_sorted_by(|a, b| a < b));
        assert_eq!([axis.place(-2.0), axis.place(1.5), axis.place(112.0)], [-2.0, 1.5, axis.span() + 2.0]);
        assert!(axis.within_narrowed(axis.place(50.0)) && !axis.within_narrowed(axis.place(105.0)));
    }

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

    #[test]
    fn the_map_is_cut_where_nothing_is() {
        // Across the date line the three are neighbours, in that order.
        let cities = [city("Suva", -18.1, 178.4), city("Apia", -13.8, -171.8), city("Sydney", -33.9, 151.2)];
        let document = sample::plan("Pacific", &cities, &[(0, 1), (0, 2)], 0);
        let (mut pops, wires, mut notes) = gather(&document);
        place(&mut pops, &wires, &mut notes);
        assert!(pops[2].x < pops[0].x && pops[0].x < pops[1].x);
        assert!(pops[1].y < pops[0].y && pops[0].y < pops[2].y);
    }

    #[test]
    fn access_routers_are_folded_into_their_pop() {
        let cities = [city("A, here", 40.0, -100.0), city("B", 41.0, -90.0), city("A, there", 30.0, -95.0)];
        let document = sample::plan("three", &cities, &[(0, 1), (1, 2)], 4);
        let (pops, wires, notes) = gather(&document);
        assert_eq!(notes, Vec::<String>::new());
        // Of two of a name, the whole name is written.
        assert_eq!(pops.iter().map(|pop| &pop.name[..]).collect::<Vec<_>>(), ["A, here", "B", "A, there"]);
        assert!(pops.iter().all(|pop| pop.routers == 5 && pop.inside == 8));
        assert_eq!(wires.iter().map(|wire| wire.ends).collect::<Vec<_>>(), [[0, 1], [1, 2]]);
        // Node 0 is the core of the first PoP, 5 that of the second.
        let one_way = document.links.iter().find(|link| (link.from, link.to) == (5, 0)).unwrap();
        assert_eq!(wires[0].loads[1].before, one_way.before_bytes);
        let most = |pop: u32, of: fn(&super::super::super::document::DeviceRow) -> Option<f64>| {
            document.devices.iter().filter(|device| device.node / 5 == pop).filter_map(of).fold(0.0, f64::max)
        };
        assert_eq!(pops[1].memory, Some(most(1, |device| device.memory_share)));
        assert_eq!(pops[1].operations, Some(most(1, |device| device.operations_share)));
    }

    #[test]
    fn pops_at_one_place_are_moved_apart() {
        let cities: Vec<City> = (0..4).map(|at| city(&format!("{at}"), 50.0, 8.0)).collect();
        let document = sample::plan("one place", &cities, &[(0, 1), (1, 2), (2, 3)], 0);
        let (mut pops, wires, mut notes) = gather(&document);
        place(&mut pops, &wires, &mut notes);
        for a in 0..4 {
            for b in 0..a {
                assert!((pops[a].x - pops[b].x).hypot(pops[a].y - pops[b].y) > pops[a].radius, "{a} {b}");
            }
        }
    }

    #[test]
    fn of_a_huge_network_the_largest_part_is_drawn() {
        let mut document = sample::empty();
        document.nodes = (0..3_000)
            .map(|at| NodeRow {
                id: at.to_string(),
                label: String::new(),
                pop: at,
                role: "backbone",
                position: (at % 2 == 0).then_some([f64::from(at % 90), f64::from(at % 360)]),
                population: None,
                volume_bytes: f64::from(at),
            })
            .collect();
        let mut out = String::new();
        let notes = draw(&mut out, &document);
        assert_eq!(notes[0], "Of 3,000 PoPs those 1,000 with the most traffic are drawn.");
        assert_eq!(out.matches("class=\"dot\"").count(), MOST_POPS + 2, "two are in the legend");
        assert!(out.contains(">2999</text>") && !out.contains(">1999</text>"));
    }
}
