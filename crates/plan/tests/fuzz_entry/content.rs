//! The body of the fuzz target `content`, for use in tests as well.

use oncewire_plan::{
    Network,
    network::Node,
    ra::profile::{Counted, Fold},
};

/// Counted content of nodes `a` to `d`.
pub(crate) fn run(input: &[u8]) {
    let node = |(id, pop): (&str, u32)| Node { id: id.into(), pop, ..Node::default() };
    let nodes = ["a", "b", "c", "d\t"].into_iter().zip(0..).map(node);
    let network = Network { nodes: nodes.collect(), ..Network::default() };
    let text = String::from_utf8_lossy(input);
    let counted = match Counted::parse(&text, &network) {
        Ok(counted) => counted,
        Err(error) => {
            let error = error.to_string();
            assert!(!error.chars().any(char::is_control) && error.len() < 4000, "{error:?}");
            return;
        }
    };
    let again = Counted::parse(&counted.to_text(&network), &network);
    assert_eq!(again.expect("what is written is read"), counted);
    for (_, classes) in counted.classes(Fold { exact: 2, largest: 0 }) {
        for class in classes.list() {
            assert!(class.bytes > 0.0 && class.egresses.len() <= 2);
            assert!(class.copies.iter().all(|copies| *copies > 0.9));
        }
    }
}
