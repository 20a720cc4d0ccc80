//! Maps of a network as SVG: PoPs at their coordinates, links by load, devices by use.
//!
//! The map is complete without JavaScript; `map.js` adds zoom and hints. Access routers are folded
//! into their PoP. Coordinates use the Mercator projection; wide gaps, such as oceans, are
//! compressed to make room for cities.

mod draw;
mod gather;
mod names;
mod place;

use maud::Markup;

/// Size of the drawing, in CSS pixels of a wide screen.
const WIDTH: f64 = 960.0;
const HEIGHTS: (f64, f64) = (340.0, 640.0);
const MARGIN: f64 = 44.0;

/// A network with its traffic. Numbers may be infinite or NaN, and indices invalid; they are then
/// left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// Routers.
    pub nodes: Vec<MapNode>,
    /// Directed links.
    pub links: Vec<MapLink>,
    /// Devices at routers.
    pub devices: Vec<MapDevice>,
    /// Names of the two loads of a link, for the buttons that show them: before, after.
    pub views: [&'static str; 2],
    /// The time for which bytes are counted: "epoch", "second".
    pub per: &'static str,
}

/// How a router does. Of the routers of a PoP, the map shows the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapState {
    /// As it should.
    #[default]
    Normal,
    /// It is to have nothing in its caches.
    Drained,
    /// It is not connected with those who ask it.
    Away,
    /// It has more to do than it can.
    Overloaded,
    /// It does not work.
    Down,
}

/// A router.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapNode {
    /// Identifier, shown if there is no label.
    pub id: String,
    /// Name. Text after a comma is omitted if the rest is unique.
    pub label: String,
    /// Routers with the same number are one PoP.
    pub pop: u32,
    /// Whether it is a core router, and so names its PoP.
    pub core: bool,
    /// Latitude and longitude in degrees.
    pub position: Option<[f64; 2]>,
    /// Bytes that enter and leave the network here, per [`Map::per`].
    pub volume: f64,
    /// How it does.
    pub state: MapState,
}

/// A directed link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapLink {
    /// Index of the router at its beginning.
    pub from: u32,
    /// Index of the router at its end.
    pub to: u32,
    /// Bytes per [`Map::per`] before, in the first view.
    pub before: f64,
    /// Bytes per [`Map::per`] after, in the second view.
    pub after: f64,
    /// Share of the capacity in use, before and after.
    pub utilization: [Option<f64>; 2],
    /// Whether it does not work.
    pub is_down: bool,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapDevice {
    /// Index of its router.
    pub node: u32,
    /// Share of its cache in use.
    pub cache_use: Option<f64>,
    /// Share of its operations in use.
    pub operations_use: Option<f64>,
}

/// The map, and notes on how to read it.
pub(crate) fn render(map: &Map) -> (Markup, Vec<String>) {
    let (mut pops, wires, mut notes) = gather::gather(map);
    let drawing = if pops.is_empty() {
        maud::html! { p.empty { "The network has no nodes." } }
    } else {
        let frame = place::place(&mut pops, &wires, &mut notes);
        draw::draw(&pops, wires, &frame, map)
    };
    (drawing, notes)
}

#[cfg(test)]
mod tests;
