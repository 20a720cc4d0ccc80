//! Network faults between the ends: flows survive or end with an error, and no wrong byte arrives.

use crate::pair::{LIMIT, Pair, Plan, client, echo, exchange, origin, trader, until};
use flate2::Compression;
use flate2::write::GzEncoder;
use oncewire_net::serve;
use oncewire_session::{Counters, Opening};
use oncewire_testkit::faults::{BOTH, Direction, FaultProxy};
use oncewire_testkit::servers::{Rng, incompressible, text_like};
use std::io::{ErrorKind, Write};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Longer than any test, so that sessions end for other reasons.
const LONG: Duration = Duration::from_secs(60);
/// Slow enough that faults find flows in progress.
const SLOW: u64 = 6 << 20;

fn counters(pair: &Pair) -> Counters {
    pair.client.status().sessions[0].here
}

/// Transfers both ways over several flows while `harm` acts on the path, and compares everything
/// that arrives.
async fn transfers_survive(
    plan: Plan,
    flows: u64,
    len: usize,
    harm: impl AsyncFnOnce(&FaultProxy),
) -> Counters {
    let down = incompressible(77, len);
    let (address, mut told) = trader(down.clone()).await;
    let (pair, proxy) = plan.impatient(LONG).forward(address).start_with_faults().await;
    proxy.throttle(Some(SLOW));
    let mut tasks = tokio::task::JoinSet::new();
    for seed in 0..flows {
        let (application, down) = (pair.application().await, down.clone());
        tasks.spawn(async move {
            let up = if seed % 2 == 0 { incompressible(seed, len) } else { text_like(seed, len) };
            assert!(
                exchange(application, &up).await == down,
                "flow {seed}: wrong bytes at the client"
            );
            up
        });
    }
    sleep(Duration::from_millis(50)).await;
    harm(&proxy).await;
    let mut sent: Vec<_> = tasks.join_all().await;
    let mut got = Vec::new();
    for _ in 0..flows {
        got.push(
            timeout(LIMIT, told.recv())
                .await
                .expect("the origin hears the end of every flow")
                .unwrap(),
        );
    }
    sent.sort();
    got.sort();
    assert!(sent == got, "wrong bytes at the origin");
    until("flows are forgotten at both ends", || {
        counters(&pair).flows == 0
            && pair.server.status().sessions.iter().all(|session| session.here.flows == 0)
    })
    .await;
    assert_eq!(pair.server.status().sessions.len(), 1, "it is still the session it was");
    counters(&pair)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_survive_a_path_that_is_cut_for_seconds() {
    let counters = transfers_survive(Plan::new(), 3, 1_500_000, async |proxy| {
        proxy.cut();
        sleep(Duration::from_millis(2500)).await;
        proxy.mend();
    })
    .await;
    assert!(counters.resumes > 0, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_survive_a_short_cut_without_a_new_transport() {
    let counters = transfers_survive(Plan::new(), 2, 1_000_000, async |proxy| {
        proxy.cut();
        sleep(Duration::from_millis(200)).await;
        proxy.mend();
    })
    .await;
    assert_eq!(counters.resumes, 0, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_survive_resets_again_and_again() {
    let counters = transfers_survive(Plan::new(), 4, 2_000_000, async |proxy| {
        let mut rng = Rng::new(1);
        for _ in 0..12 {
            sleep(Duration::from_millis(30 + rng.below(120))).await;
            proxy.reset_all();
        }
    })
    .await;
    assert!(counters.resumes > 3, "{counters:?}");
}

/// Blocks that are opened take milliseconds, so that other threads encode them: a transport that is
/// lost meanwhile does not wait for them, and no block is lost or sent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_survive_resets_while_another_thread_encodes() {
    let text: Vec<u8> = text_like(5, 6_000_000);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&text).unwrap();
    let down = gzip.finish().unwrap();
    let (address, mut told) = trader(down.clone()).await;
    let mut plan = Plan::new();
    plan.serve.endpoint.opening = Opening::Always;
    let (pair, proxy) = plan.impatient(LONG).forward(address).start_with_faults().await;
    let application = pair.application().await;
    let transfer = tokio::spawn(async move { exchange(application, b"request").await });
    let received = || counters(&pair).received_bytes;
    let mut rounds = 0;
    while !transfer.is_finished() {
        let before = received();
        until("more arrives, or all has", || received() > before || transfer.is_finished()).await;
        proxy.reset_all();
        rounds += 1;
    }
    assert!(transfer.await.unwrap() == down, "wrong bytes at the client");
    assert_eq!(told.recv().await.unwrap(), b"request");
    // The first reset comes before all has arrived; how many follow depends on the machine.
    assert!(rounds > 1 && counters(&pair).resumes > 0, "{rounds} {:?}", counters(&pair));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_survive_resets_of_their_lanes() {
    let counters = transfers_survive(Plan::new().lanes(4), 8, 1_000_000, async |proxy| {
        let mut rng = Rng::new(2);
        for round in 0..16 {
            sleep(Duration::from_millis(20 + rng.below(60))).await;
            match round % 4 {
                0 => proxy.reset_all(),
                1 => proxy.truncate_after(Direction::Up, rng.below(50_000)),
                2 => proxy.truncate_after(Direction::Down, rng.below(50_000)),
                _ => proxy.close_all(),
            }
        }
    })
    .await;
    assert!(counters.resumes > 3, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_lanes_survive_a_path_that_is_cut() {
    let counters = transfers_survive(Plan::new().lanes(4), 8, 800_000, async |proxy| {
        proxy.cut();
        sleep(Duration::from_millis(1500)).await;
        proxy.mend();
    })
    .await;
    assert!(counters.resumes > 0, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrupted_bytes_cost_a_transport_and_nothing_else() {
    let counters = transfers_survive(Plan::new(), 3, 1_500_000, async |proxy| {
        let mut rng = Rng::new(3);
        for _ in 0..8 {
            for direction in BOTH {
                proxy.corrupt_after(direction, rng.below(150_000), 1 << rng.below(8));
            }
            sleep(Duration::from_millis(80)).await;
        }
    })
    .await;
    assert!(counters.resumes > 0, "{counters:?}");
    assert_eq!(counters.failures, 0, "TLS lets nothing damaged through");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_transports_are_resumed() {
    let counters = transfers_survive(Plan::new(), 3, 1_500_000, async |proxy| {
        let mut rng = Rng::new(4);
        for round in 0..10 {
            proxy.truncate_after(BOTH[round % 2], rng.below(100_000));
            sleep(Duration::from_millis(80)).await;
        }
    })
    .await;
    assert!(counters.resumes > 0, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replayed_and_duplicated_bytes_are_not_taken_twice() {
    let counters = transfers_survive(Plan::new(), 3, 1_500_000, async |proxy| {
        let mut rng = Rng::new(5);
        for round in 0..8 {
            let direction = BOTH[round % 2];
            let end =
                if direction == Direction::Up { proxy.bytes_up() } else { proxy.bytes_down() };
            if round % 4 < 2 {
                let len = 1 + rng.below(100_000).min(end / 2);
                proxy.replay(direction, end - len..end);
            } else {
                proxy.duplicate(direction, 1 + rng.below(50_000) as usize);
            }
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert!(counters.resumes > 0, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direction_that_stalls_is_noticed() {
    for direction in BOTH {
        let counters = transfers_survive(Plan::new(), 2, 800_000, async |proxy| {
            proxy.stall(direction);
            sleep(Duration::from_millis(1500)).await;
            proxy.mend();
        })
        .await;
        assert!(counters.resumes > 0, "{direction:?}: {counters:?}");
    }
}

/// Waits until the client begins another session.
async fn given_up(pair: &Pair) {
    let greets =
        || pair.client.status().sessions.iter().any(|session| session.phase == "handshake");
    until("the client gives its session up", greets).await;
}

/// A connection whose flow is established and stays open.
async fn under_way(pair: &Pair) -> tokio::net::TcpStream {
    let mut application = pair.application().await;
    application.write_all(b"ping").await.unwrap();
    timeout(LIMIT, application.read_exact(&mut [0; 4])).await.unwrap().unwrap();
    application
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_comes_back_after_the_servers_grace_time_finds_its_logs() {
    // The client keeps the session longer than the server does, and asks for it first.
    let bytes = incompressible(10, 3_000_000);
    let mut plan = Plan::new().impatient(Duration::from_millis(500)).forward(origin(echo).await);
    plan.connect.endpoint.grace = 4 * LIMIT;
    let (pair, proxy) = plan.start_with_faults().await;
    assert!(exchange(pair.application().await, &bytes).await == bytes);
    proxy.cut();
    until("the server keeps the logs of the session", || pair.server.status().kept_logs == 1).await;
    proxy.mend();
    until("there is another session", || {
        pair.server.status().sessions.iter().any(|session| session.lanes_up == 1)
    })
    .await;
    pair.client.established(LIMIT).await.unwrap();
    assert!(exchange(pair.application().await, &bytes).await == bytes);
    let (here, there) = (counters(&pair), pair.server.status().sessions[0].here);
    assert_eq!((here.warm_starts, there.warm_starts), (1, 1), "{here:?} {there:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_grace_time_is_over_flows_end_and_the_log_stays() {
    let bytes = incompressible(9, 3_000_000);
    let (pair, proxy) = Plan::new()
        .impatient(Duration::from_millis(500))
        .forward(origin(echo).await)
        .start_with_faults()
        .await;
    assert!(exchange(pair.application().await, &bytes).await == bytes);
    let mut lost = under_way(&pair).await;
    proxy.cut();
    let error = timeout(LIMIT, lost.read(&mut [0; 1])).await.expect("the flow ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    proxy.mend();
    pair.client.established(LIMIT).await.unwrap();
    assert!(exchange(pair.application().await, &bytes).await == bytes);
    let counters = counters(&pair);
    assert_eq!(counters.warm_starts, 1);
    let wire = counters.wire_sent_bytes + counters.wire_received_bytes;
    assert!(wire < 100_000, "{wire} bytes for a repeat after a new session");
    until("the old session is forgotten", || pair.server.status().sessions.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_direction_stays_if_the_other_has_none() {
    let bytes = incompressible(11, 3_000_000);
    let (address, mut told) = trader(Vec::new()).await;
    let (pair, proxy) = Plan::new()
        .impatient(Duration::from_millis(300))
        .forward(address)
        .start_with_faults()
        .await;
    assert!(exchange(pair.application().await, &bytes).await.is_empty());
    assert!(told.recv().await.unwrap() == bytes);
    proxy.cut();
    given_up(&pair).await;
    until("the server keeps the logs", || pair.server.status().kept_logs == 1).await;
    proxy.mend();
    pair.client.established(LIMIT).await.unwrap();
    assert!(exchange(pair.application().await, &bytes).await.is_empty());
    assert!(told.recv().await.unwrap() == bytes);
    let wire = counters(&pair).wire_sent_bytes;
    assert!(wire < 100_000, "{wire} bytes for a repeat after a new session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_if_the_server_has_not_noticed_the_end_of_the_session() {
    let bytes = incompressible(10, 3_000_000);
    let mut plan = Plan::new().impatient(Duration::from_millis(300));
    plan.serve.endpoint.grace = LONG;
    let (address, mut told) = trader(b"ok".to_vec()).await;
    let (pair, proxy) = plan.forward(address).start_with_faults().await;
    assert!(exchange(pair.application().await, &bytes).await == b"ok");
    assert!(told.recv().await.unwrap() == bytes);
    proxy.cut();
    given_up(&pair).await;
    proxy.mend();
    pair.client.established(LIMIT).await.unwrap();
    assert!(exchange(pair.application().await, &bytes).await == b"ok");
    assert!(told.recv().await.unwrap() == bytes);
    let wire = counters(&pair).wire_sent_bytes;
    assert!(wire < 100_000, "{wire} bytes for a repeat after a new session");
    until("the old session is forgotten", || pair.server.status().sessions.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_finds_a_restarted_server() {
    let plan = Plan::new().impatient(LONG).forward(origin(echo).await);
    let mut again = plan.serve.clone();
    let (pair, proxy) = plan.start_with_faults().await;
    again.listen = vec![pair.server.addresses()[0].to_string().parse().unwrap()];
    // The first time the server says goodbye, the second time it disappears.
    let mut server = pair.server.clone();
    for silent in [false, true] {
        let mut lost = under_way(&pair).await;
        if silent {
            proxy.cut();
        }
        server.stop();
        sleep(Duration::from_millis(200)).await;
        server = serve(again.clone()).await.expect("the port is free again");
        if silent {
            proxy.reset_all();
            proxy.mend();
        }
        let error =
            timeout(LIMIT, lost.read(&mut [0; 1])).await.expect("the flow ends").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let bytes = text_like(3, 200_000);
        assert!(exchange(pair.application().await, &bytes).await == bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_finds_a_server_that_starts_later() {
    let plan = Plan::new().forward(origin(echo).await);
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = client(plan.connect, address).await;
    let early = tokio::spawn(exchange(
        tokio::net::TcpStream::connect(client.addresses()[0]).await.unwrap(),
        b"early",
    ));
    sleep(Duration::from_millis(300)).await;
    let mut config = plan.serve;
    config.listen = vec![address.to_string().parse().unwrap()];
    let _server = serve(config).await.unwrap();
    assert_eq!(early.await.unwrap(), b"early");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_forgets_a_client_that_is_gone() {
    let (address, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let origin = origin(move |mut stream| {
        let address = address.clone();
        async move {
            let mut buffer = [0; 16];
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) => break address.send(None).unwrap(),
                    Ok(len) => stream.write_all(&buffer[..len]).await.unwrap(),
                    Err(error) => break address.send(Some(error.kind())).unwrap(),
                }
            }
        }
    })
    .await;
    for silent in [false, true] {
        let (pair, proxy) = Plan::new()
            .impatient(Duration::from_millis(300))
            .forward(origin)
            .start_with_faults()
            .await;
        let _application = under_way(&pair).await;
        if silent {
            proxy.cut();
        }
        pair.client.stop();
        let end = timeout(LIMIT, ends.recv()).await.expect("the origin hears of it").unwrap();
        assert_eq!(end, Some(ErrorKind::ConnectionReset));
        until("the session is forgotten", || pair.server.status().sessions.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transports_that_break_during_the_handshake_do_no_harm() {
    for lanes in [1, 4] {
        // Cuts within the first bytes of TLS, of the hellos, and of the first messages.
        let plan = Plan::new().lanes(lanes).impatient(LONG).forward(origin(echo).await);
        let server = serve(plan.serve.clone()).await.unwrap();
        let proxy = FaultProxy::start(server.addresses()[0]).unwrap();
        let client = client(plan.connect, proxy.addr()).await;
        let pair = Pair { server, client };
        let bytes = text_like(4, 300_000);
        let transfer = tokio::spawn(exchange(pair.application().await, &[]));
        for round in 0..24 {
            proxy.truncate_after(BOTH[round % 2], 40 * round as u64 * (round as u64 % 5));
            sleep(Duration::from_millis(25)).await;
        }
        assert!(transfer.await.unwrap().is_empty());
        assert!(exchange(pair.application().await, &bytes).await == bytes);
        // A hello whose answer was lost leaves at most one extra session.
        assert!(pair.server.status().sessions.len() <= 2, "{:?}", pair.server.status().sessions);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_that_want_different_numbers_of_lanes_take_the_smaller() {
    for (here, there) in [(4, 2), (1, 8), (8, 3)] {
        let mut plan = Plan::new().forward(origin(echo).await);
        plan.connect.endpoint.lanes = here;
        plan.serve.endpoint.lanes = there;
        let (pair, proxy) = plan.impatient(LONG).start_with_faults().await;
        let lanes = here.min(there);
        until("all lanes are up", || pair.client.status().sessions[0].lanes_up == lanes).await;
        let bytes = text_like(4, 400_000);
        proxy.reset_all();
        assert!(exchange(pair.application().await, &bytes).await == bytes);
        until("all lanes are up again", || pair.server.status().sessions[0].lanes_up == lanes)
            .await;
        assert_eq!(pair.server.status().sessions[0].lanes, lanes);
    }
}
