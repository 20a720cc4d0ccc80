//! Positions of PoPs in the drawing: a Mercator map, or a circle.

use super::gather::{Pop, Wire};
use super::{HEIGHTS, MARGIN, WIDTH};
use std::f64::consts::{PI, TAU};

/// Gaps between PoPs that are wider than this, in degrees, are compressed to [`NARROWED`].
const FAR: f64 = 15.0;
const NARROWED: f64 = 6.0;

/// The extent of a drawing, and its grid.
pub(super) struct Frame {
    pub(super) height: f64,
    /// Lines of equal longitude and latitude: position and label.
    pub(super) meridians: Vec<(f64, String)>,
    pub(super) parallels: Vec<(f64, String)>,
    /// Stretches that are compressed, from and to.
    pub(super) narrowed: [Vec<(f64, f64)>; 2],
}

/// Maps values to places on an axis. Wide gaps between values are compressed.
struct Scale {
    /// Ascending: value, place.
    knots: Vec<(f64, f64)>,
    narrowed: Vec<(f64, f64)>,
}

impl Scale {
    fn new(mut values: Vec<f64>) -> Scale {
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
        Scale { knots, narrowed }
    }

    fn span(&self) -> f64 {
        self.knots.last().map_or(0.0, |knot| knot.1)
    }

    fn ends(&self) -> (f64, f64) {
        (
            self.knots.first().map_or(0.0, |knot| knot.0),
            self.knots.last().map_or(0.0, |knot| knot.0),
        )
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

/// Mercator projection of a latitude, in degrees of longitude. Latitudes are clamped to 80 degrees.
fn mercator(latitude: f64) -> f64 {
    (PI / 4.0 + latitude.clamp(-80.0, 80.0).to_radians() / 2.0).tan().ln().to_degrees()
}

/// Sets the place of every PoP. All coordinates are finite, whatever the input holds.
pub(super) fn place(pops: &mut [Pop], wires: &[Wire], notes: &mut Vec<String>) -> Frame {
    let placed: Vec<[f64; 2]> = pops.iter().filter_map(|pop| pop.position).collect();
    if placed.len() * 2 < pops.len() || placed.is_empty() {
        notes.push("Too few PoPs have coordinates for a map. They are drawn in a circle, with neighbors near each other.".into());
        return circle(pops, wires);
    }
    // The widest gap between longitudes goes to the edges of the map.
    let mut longitudes: Vec<f64> = placed.iter().map(|at| at[1].rem_euclid(360.0)).collect();
    longitudes.sort_by(f64::total_cmp);
    let mut start = (longitudes[0], longitudes[0] + 360.0 - longitudes[longitudes.len() - 1]);
    for pair in longitudes.windows(2) {
        if pair[1] - pair[0] > start.1 {
            start = (pair[1], pair[1] - pair[0]);
        }
    }
    let unrolled = |longitude: f64| (longitude.rem_euclid(360.0) - start.0).rem_euclid(360.0);
    let x = Scale::new(placed.iter().map(|at| unrolled(at[1])).collect());
    let y = Scale::new(placed.iter().map(|at| mercator(at[0])).collect());
    let most = |room: f64, span: f64| if span > 1e-6 { room / span } else { f64::INFINITY };
    let room = WIDTH - 2.0 * MARGIN;
    // The limit keeps a single city, or two next to each other, from filling the page.
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
            (pop.x, pop.y) =
                (across(x.place(unrolled(longitude))), down(y.place(mercator(latitude))));
        } else {
            let (row, column) = (at / in_row, at % in_row);
            let columns = (unplaced - row * in_row).min(in_row) as f64;
            (pop.x, pop.y) =
                ((column as f64 + 0.5) * WIDTH / columns, height + 24.0 + 44.0 * row as f64);
            full = pop.y + 32.0;
            at += 1;
        }
    }
    if unplaced > 0 {
        notes.push(format!("{unplaced} PoPs without valid coordinates are drawn below the map."));
    }
    if !x.narrowed.is_empty() || !y.narrowed.is_empty() {
        notes.push("Shaded areas without PoPs, such as oceans, are compressed.".into());
    }
    nudge(pops, full);

    let degrees = |value: f64, letters: [char; 2]| match value.round() as i64 {
        0 => "0°".to_owned(),
        degrees => format!("{}° {}", degrees.abs(), letters[usize::from(degrees < 0)]),
    };
    let each = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0]
        .into_iter()
        .find(|step| step * scale >= 70.0)
        .unwrap_or(30.0);
    let mut meridians = Vec::new();
    for at in 0..(360.0 / each) as i64 {
        let longitude = at as f64 * each - 180.0;
        // Also left of the first PoP, up to the edge of the drawing.
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

/// Places PoPs on a circle in depth-first order, so that neighbors are near each other.
fn circle(pops: &mut [Pop], wires: &[Wire]) -> Frame {
    let height = HEIGHTS.1;
    let mut neighbors = vec![Vec::new(); pops.len()];
    for wire in wires {
        let [a, b] = wire.ends;
        neighbors[a].push(b);
        neighbors[b].push(a);
    }
    let mut roots: Vec<usize> = (0..pops.len()).collect();
    roots.sort_by_key(|&at| (std::cmp::Reverse(neighbors[at].len()), at));
    let (mut seen, mut order) = (vec![false; pops.len()], Vec::new());
    for root in roots {
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                order.push(at);
                stack.extend(neighbors[at].iter().rev().filter(|&&next| !seen[next]));
            }
        }
    }
    let whole = order.len() as f64;
    for (place, at) in order.into_iter().enumerate() {
        let angle = TAU * place as f64 / whole - PI / 2.0;
        pops[at].x = WIDTH / 2.0 + (WIDTH / 2.0 - 150.0) * angle.cos();
        pops[at].y = height / 2.0 + (height / 2.0 - MARGIN) * angle.sin();
    }
    Frame {
        height,
        meridians: Vec::new(),
        parallels: Vec::new(),
        narrowed: [Vec::new(), Vec::new()],
    }
}

/// Moves overlapping PoPs apart, by a limited distance.
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
                    // At the same place: choose a direction for each pair.
                    (dx, dy) = ((a + b) as f64 * 2.4).sin_cos();
                    distance = 1.0;
                }
                let push = (apart - distance.min(apart)) / 2.0 / distance;
                for (at, sign) in [(a, -1.0), (b, 1.0)] {
                    let (x, y) = (
                        pops[at].x + sign * dx * push - homes[at].0,
                        pops[at].y + sign * dy * push - homes[at].1,
                    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_rise_and_compress_gaps() {
        let axis = Scale::new(vec![0.0, 3.0, 100.0, 110.0]);
        assert_eq!(axis.span(), 3.0 + NARROWED + 10.0);
        assert_eq!(axis.narrowed, [(3.0, 3.0 + NARROWED)]);
        let places: Vec<f64> = (-20..140).map(|value| axis.place(value.into())).collect();
        assert!(places.is_sorted_by(|a, b| a < b));
        assert_eq!(
            [axis.place(-2.0), axis.place(1.5), axis.place(112.0)],
            [-2.0, 1.5, axis.span() + 2.0]
        );
        assert!(axis.within_narrowed(axis.place(50.0)) && !axis.within_narrowed(axis.place(105.0)));
    }
}
