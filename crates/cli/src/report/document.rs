//! What was carried, for programs.

use super::sums::{Sums, date, saved};
use crate::price::Price;
use oncewire_net::history::Amounts;
use oncewire_session::Metrics;
use serde_json::{Map, Value, json};

/// Number of the document's layout. It grows when a key changes its meaning or goes away.
const FORMAT: u64 = 1;

/// Money is text: a decimal number that is exact to a billionth.
pub(super) fn document(sums: &Sums, price: Option<&Price>, of: &str) -> Value {
    let amounts = |amounts: &Amounts| {
        let mut map: Map<String, Value> =
            amounts.list().map(|(metric, value)| (metric.name.into(), value.into())).collect();
        if let Some(price) = price {
            map.insert("money_saved".into(), price.exact(saved(amounts)).into());
        }
        Value::Object(map)
    };
    let peers = sums.peers.iter().map(|(peer, one)| {
        let name = (!peer.name.is_empty()).then_some(&peer.name);
        json!({ "public_key": peer.key, "name": name, "carried": amounts(one) })
    });
    let services = sums
        .services
        .iter()
        .map(|(service, one)| json!({ "name": service.name, "carried": amounts(one) }));
    let days = sums.days.iter().map(|(day, one)| {
        json!({
            "day": date(*day),
            "recorded_seconds": one.seconds,
            "most_flows": one.flows,
            "carried": amounts(&one.amounts),
        })
    });
    json!({
        "format": FORMAT,
        "history": of,
        "since": sums.since,
        "until": sums.until,
        "recorded_seconds": sums.all.seconds,
        "most_flows": sums.all.flows,
        "price": price.map(ToString::to_string),
        "carried": amounts(&sums.all.amounts),
        "peers": peers.collect::<Vec<_>>(),
        "services": services.collect::<Vec<_>>(),
        "days": days.collect::<Vec<_>>(),
    })
}
