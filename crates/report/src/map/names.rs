//! Where the names of PoPs stand.

use super::WIDTH;
use super::gather::Pop;
use std::collections::BTreeMap;

/// The names of this many of the largest PoPs may cover small PoPs.
const FIRST: usize = 14;

/// Where a name stands.
pub(super) struct Name {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The SVG attribute `text-anchor`.
    pub(super) anchor: &'static str,
}

/// Left, top, right, bottom.
type Area = (f64, f64, f64, f64);

/// Occupied areas, indexed by the cells of a grid that they touch.
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
        let meets = |other: &Area| {
            area.0 < other.2 && other.0 < area.2 && area.1 < other.3 && other.1 < area.3
        };
        !Taken::cells(area).filter_map(|cell| self.0.get(&cell)).flatten().any(meets)
    }
}

/// Where the name of each PoP stands, or `None` without room. A name is beside its PoP and covers
/// no other name or PoP. The largest PoPs, first in `order`, come first; their names may cover
/// small PoPs. With `outward`, names in the left half stand to the left, as in a circle.
pub(super) fn names(
    pops: &[Pop],
    order: &[usize],
    height: f64,
    outward: bool,
) -> Vec<Option<Name>> {
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
        // Upper bounds of the widths of letters in common fonts.
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
        let found = [&dots, &large].into_iter().take(if rank < FIRST { 2 } else { 1 }).find_map(
            |obstacles| {
                candidates.into_iter().find_map(|(x, y, anchor)| {
                    let left = match anchor {
                        "start" => x,
                        "end" => x - width,
                        _ => x - width / 2.0,
                    };
                    let area = (left, y - SIZE * 0.8, left + width, y + SIZE * 0.25);
                    let inside = area.0 >= 2.0
                        && area.2 <= WIDTH - 2.0
                        && area.1 >= 2.0
                        && area.3 <= height - 2.0;
                    (inside && obstacles.free(area) && texts.free(area))
                        .then_some((area, Name { x, y, anchor }))
                })
            },
        );
        if let Some((area, name)) = found {
            texts.take(area);
            out[at] = Some(name);
        }
    }
    out
}
