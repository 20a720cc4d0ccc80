//! What `status` knows of the other end, and what it sends for that: nothing.

use crate::pair::{Pair, Plan, echo, exchange, origin, until};
use oncewire_net::status::Status;
use std::time::Duration;

/// The bytes that both ends have written to their transports, before encryption.
fn written(pair: &Pair) -> [u64; 2] {
    [pair.client.status(), pair.server.status()]
        .map(|status| status.sessions[0].here.wire_sent_bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_knows_the_other_end_by_its_reports_and_sends_nothing() {
    let mut plan = Plan::new().forward(origin(echo).await);
    for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
        // No PING in between.
        (endpoint.keep_alive, endpoint.dead_after) =
            (Duration::from_secs(3600), Duration::from_secs(7200));
    }
    let pair = plan.start().await;
    assert_eq!(exchange(pair.application().await, b"once").await, b"once");
    let knows = |to: Status, from: Status| {
        let (there, here) = (to.sessions[0].there, from.sessions[0].here);
        there.is_some_and(|(there, _)| {
            (there.sent_bytes, there.received_bytes, there.flows) == (4, 4, 0)
                && here.flows == 0
                && there.log_unacknowledged == 0
        })
    };
    until("each end knows the last state of the other", || {
        knows(pair.client.status(), pair.server.status())
            && knows(pair.server.status(), pair.client.status())
    })
    .await;
    // The answer to the PING that went with the last report may still be under way.
    let mut looks = 0;
    loop {
        let before = written(&pair);
        for _ in 0..1000 {
            pair.client.status();
            pair.server.status();
            tokio::task::yield_now().await;
        }
        looks += 1;
        if written(&pair) == before {
            break;
        }
        assert!(looks < 20, "status sends something");
    }
    pair.client.stop();
    pair.server.stop();
}
