//! The body of the fuzz target `topology`, for use in tests as well.

use oncewire_plan::{
    Error, Network, NodeId, Provision, Unwatched, routing,
    topology::{self, Cities, Format, Options, Unknown},
    traffic::{self, Scale},
};

const FORMATS: [Format; 6] =
    [Format::Json, Format::GraphMl, Format::Cch, Format::Weights, Format::Repetita, Format::Sndlib];

/// The first byte selects the format and the operations. Then follow the file, its companion, a
/// table of cities, and a matrix or paths, separated by form feeds.
pub(crate) fn run(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let mut parts = text.split('\u{c}');
    let text = parts.next().unwrap_or_default();
    let companion = parts.next();
    let cities = parts.next().and_then(|table| one_line(Cities::read(table)));
    let lines = parts.next().unwrap_or_default();
    let format = FORMATS[usize::from(choice & 7) % FORMATS.len()];
    let options = Options {
        companion,
        cities: cities.as_ref(),
        unknown: if choice & 8 == 0 { Unknown::Refuse } else { Unknown::LeaveOut },
        largest_component: choice & 16 == 0,
    };
    one_line(Format::detect(text, text));
    let Some(network) = one_line(topology::read(format, text, &options)) else { return };
    check(&network);
    let pops = network.to_pops();
    check(&pops);
    plan(&network, lines);
    plan(&network.without_unpopulated(), lines);
    let pops = if pops.nodes.len() > 40 { one_line(pops.reduce(40)) } else { Some(pops) };
    let Some(pops) = pops else { return };
    check(&pops);
    if let Some(smaller) = one_line(pops.reduce(3)) {
        assert_eq!(smaller.nodes.len(), 3);
        smaller.check_connected().expect("what reduce keeps is connected");
    }
    if let Some(routers) =
        one_line(pops.with_endpoints(4)).and_then(|pops| one_line(pops.with_access_routers(2)))
    {
        check(&routers);
        plan(&routers, lines);
    }
}

/// Properties of every valid network.
fn check(network: &Network) {
    let nodes = NodeId::new(network.nodes.len());
    assert!(nodes > NodeId(0));
    for link in &network.links {
        assert!(link.from < nodes && link.to < nodes && link.from != link.to);
        assert!(link.weight > 0.0 && link.weight.is_finite() && link.latency >= 0.0);
    }
    assert!(network.demands.iter().all(|demand| demand.from < nodes && demand.to < nodes));
    let json = topology::to_json(network);
    let again = topology::json(&json).expect("what is written can be read");
    assert_eq!(again, *network, "{json}");
}

/// Paths and traffic.
fn plan(network: &Network, lines: &str) {
    if network.nodes.len() > 40 {
        return;
    }
    let shortest = one_line(routing::shortest_paths(network, &Unwatched));
    let given = one_line(routing::given(network, lines));
    for matrix in
        [traffic::gravity(network), traffic::demands(network), traffic::matrix(network, lines)]
    {
        let Some(matrix) = one_line(matrix) else { continue };
        for paths in [&shortest, &given].into_iter().flatten() {
            let assigned = traffic::assign(
                network,
                paths.clone(),
                &matrix,
                Scale::EqualIngress(0.5),
                &Provision::default(),
            );
            for route in one_line(assigned).into_iter().flatten() {
                assert!(route.volume > 0.0 && route.volume.is_finite());
            }
        }
    }
}

/// The value, if `Ok`. An error must be a single line of readable length.
fn one_line<T>(result: Result<T, Error>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error.to_string(),
    };
    assert!(!error.chars().any(char::is_control) && error.len() < 4000, "{error:?}");
    None
}
