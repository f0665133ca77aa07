//! Limits that reach a request without its call site.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join;
use reqwest_middleware::ClientWithMiddleware;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{RetryPolicy, RetryScope};
use task_local_extensions::{Extensions, get_local_item, with_extensions};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Back, URL, busy, ms, waiting};

/// A client whose every request hangs, with its script.
fn hanging() -> (ClientWithMiddleware, Script) {
    let script = Script::always(Reply::hang());
    (super::client(waiting(ms(0)), &script), script)
}

/// How long a request takes that only a scope ends.
async fn hangs_for(client: &ClientWithMiddleware) -> Duration {
    let started = Instant::now();
    let back = Back::of(&client.get(URL).send().await);
    assert_eq!(back, Back::Deadline);
    started.elapsed()
}

fn within(millis: u64) -> RetryScope {
    RetryScope::new().deadline_in(ms(millis))
}

#[tokio::test(start_paused = true)]
async fn a_scope_inside_another_only_tightens_its_deadline() {
    let (client, _) = hanging();
    let call = || hangs_for(&client);
    assert_eq!(within(100).run(call()).await, ms(100));
    assert_eq!(within(100).run(within(200).run(call())).await, ms(100));
    assert_eq!(within(200).run(within(100).run(call())).await, ms(100));
    assert_eq!(within(100).deadline_in(ms(50)).deadline_in(ms(70)).run(call()).await, ms(50));
    assert_eq!(within(100).run(RetryScope::new().run(call())).await, ms(100));
    // It is a moment, not a span for each request.
    let two = within(100).run(async {
        let first = super::client(waiting(ms(0)).deadline(ms(60)), &Script::always(Reply::hang()));
        (hangs_for(&first).await, call().await)
    });
    assert_eq!(two.await, (ms(60), ms(40)));
    // … and with that of the policy the earlier one holds.
    let slow = super::client(waiting(ms(0)).deadline(ms(300)), &Script::always(Reply::hang()));
    assert_eq!(within(100).run(hangs_for(&slow)).await, ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_lets_nothing_be_sent() {
    let (client, script) = hanging();
    for scope in [within(0), RetryScope::new().deadline_at(Instant::now())] {
        assert_eq!(scope.run(hangs_for(&client)).await, ms(0));
    }
    assert_eq!(script.received().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_beyond_all_time_is_none() {
    let client = super::client(waiting(ms(0)), &Script::always(busy()));
    let call = RetryScope::new().deadline_in(Duration::MAX).run(client.get(URL).send());
    assert_eq!(Back::of(&call.await), Back::Status(503));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_end_after_the_scopes_deadline_never_starts() {
    let script = Script::always(busy());
    let client = super::client(waiting(ms(100)), &script);
    let started = Instant::now();
    let response = within(150).run(client.get(URL).send()).await.unwrap();
    assert_eq!((response.status().as_u16(), script.received().len()), (503, 2));
    assert_eq!(started.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn every_token_of_nested_scopes_cancels() {
    for cancels_outer in [true, false] {
        let (outer, inner) = (CancellationToken::new(), CancellationToken::new());
        let script = Script::always(busy());
        let client = super::client(waiting(ms(1_000)), &script);
        let scope = RetryScope::new().cancel_on(outer.clone());
        let call = scope.run(RetryScope::new().cancel_on(inner.clone()).run(async {
            let started = Instant::now();
            let response = client.get(URL).send().await.unwrap();
            (response.status().as_u16(), started.elapsed())
        }));
        let cancel = async {
            tokio::time::sleep(ms(10)).await;
            if cancels_outer { outer.cancel() } else { inner.cancel() }
        };
        assert_eq!(join(call, cancel).await.0, (503, ms(10)), "outer: {cancels_outer}");
        assert_eq!(script.received().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_innermost_policy_holds() {
    let attempts = |count| RetryPolicy::builder().max_attempts(count).build().unwrap();
    let policy = |count| RetryScope::new().policy(attempts(count));
    let script = Script::always(busy());
    let client = super::client(waiting(ms(0)).max_attempts(1), &script);
    let sends = || async {
        let before = script.received().len();
        client.get(URL).send().await.unwrap();
        script.received().len() - before
    };
    assert_eq!(sends().await, 1);
    assert_eq!(policy(2).run(sends()).await, 2);
    assert_eq!(policy(2).run(policy(4).run(sends())).await, 4);
    assert_eq!(policy(2).run(within(60_000).run(sends())).await, 2);
}

#[tokio::test(start_paused = true)]
async fn scopes_joined_in_one_task_do_not_mix() {
    let (client, _) = hanging();
    let call = || hangs_for(&client);
    assert_eq!(join(within(100).run(call()), within(200).run(call())).await, (ms(100), ms(200)));
    let plain = super::client(waiting(ms(0)), &Script::always(Reply::hang().after(ms(0))));
    let without = async {
        let request = plain.get(URL).timeout(ms(500)).send();
        Back::of(&request.await)
    };
    assert_eq!(join(within(100).run(call()), without).await, (ms(100), Back::Timeout));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_scoped_task_reaches_no_other_task_of_its_thread() {
    let token = CancellationToken::new();
    token.cancel();
    let scope = || within(0).cancel_on(token.clone());
    let fails = tokio::spawn(scope().run(async { panic!("in a scope") }));
    fails.await.unwrap_err();
    let fails = AssertUnwindSafe(scope().run(async { panic!("in a scope") })).catch_unwind();
    fails.await.unwrap_err();
    let fails =
        tokio::spawn(scope().run_in(Extensions::new().with(5_i32), async { panic!("in a scope") }));
    fails.await.unwrap_err();

    let script = Script::always(Reply::status(http::StatusCode::OK));
    let client = super::client(waiting(ms(0)), &script);
    let call = async move { Back::of(&client.get(URL).send().await) };
    assert_eq!(tokio::spawn(call).await.unwrap(), Back::Status(200));
}

#[tokio::test(start_paused = true)]
async fn a_spawned_task_inherits_nothing_unless_the_scope_is_carried_there() {
    let (client, _) = hanging();
    let (plain, carried) = within(100)
        .run(async {
            let call = |client: ClientWithMiddleware| async move {
                let started = Instant::now();
                let request = client.get(URL).timeout(ms(500)).send();
                (Back::of(&request.await), started.elapsed())
            };
            let plain = tokio::spawn(call(client.clone()));
            let carried = tokio::spawn(RetryScope::carry(call(client.clone())));
            (plain.await.unwrap(), carried.await.unwrap())
        })
        .await;
    assert_eq!(plain.0, Back::Timeout);
    assert_eq!(carried, (Back::Deadline, ms(100)));
}

// The other carrier

#[tokio::test(start_paused = true)]
async fn a_scope_among_the_extensions_of_the_task_holds_too() {
    let (client, _) = hanging();
    let call = || hangs_for(&client);
    let with = |scope| Extensions::new().with(scope);
    assert_eq!(with_extensions(with(within(100)), call()).await.1, ms(100));
    // Of both carriers the tighter one, whichever is outside.
    assert_eq!(within(50).run(with_extensions(with(within(100)), call())).await.1, ms(50));
    assert_eq!(within(100).run(with_extensions(with(within(50)), call())).await.1, ms(50));
    assert_eq!(with_extensions(with(within(100)), within(50).run(call())).await.1, ms(50));
    assert_eq!(with_extensions(with(within(50)), within(100).run(call())).await.1, ms(50));
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_extensions_survive_and_hide_nothing() {
    let (client, _) = hanging();
    let outer = Extensions::new().with(5_i32);
    let (outer, (item, took)) = with_extensions(outer, async {
        within(100)
            .run(async {
                let item = get_local_item::<i32>().await;
                // A map of the caller's own in between.
                let (map, took) =
                    with_extensions(Extensions::new().with("own"), hangs_for(&client)).await;
                assert_eq!(map.get(), Some(&"own"));
                (item, took)
            })
            .await
    })
    .await;
    assert_eq!((item, took, outer.get()), (Some(5), ms(100), Some(&5_i32)));

    // An outer one of that kind is not lost where another map takes its place.
    let inner =
        async { within(200).run_in(Extensions::new().with(7_u8), hangs_for(&client)).await };
    let (_, (map, took)) = with_extensions(Extensions::new().with(within(100)), inner).await;
    assert_eq!((map.get(), took), (Some(&7_u8), ms(100)));
}

#[tokio::test(start_paused = true)]
async fn the_innermost_policy_holds_whichever_carries_it() {
    let policy = |count| {
        RetryScope::new().policy(RetryPolicy::builder().max_attempts(count).build().unwrap())
    };
    let script = Script::always(busy());
    let client = super::client(waiting(ms(0)).max_attempts(1), &script);
    let sends = || async {
        let before = script.received().len();
        client.get(URL).send().await.unwrap();
        script.received().len() - before
    };
    let with = |scope| Extensions::new().with(scope);
    assert_eq!(with_extensions(with(policy(2)), policy(4).run(sends())).await.1, 4);
    assert_eq!(policy(2).run(with_extensions(with(policy(4)), sends())).await.1, 4);
    let between = with_extensions(with(policy(3)), policy(4).run(sends()));
    assert_eq!(policy(2).run(between).await.1, 4);
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_is_run_again_inside_of_itself_is_the_same() {
    let tokens = |scope: RetryScope| format!("{scope:?}").matches("CancellationToken").count();
    let scope = within(100).cancel_on(CancellationToken::new());
    let one = tokens(scope.clone());
    assert!(one > 0);
    let carried = scope
        .run(async {
            let inner = RetryScope::carry(async { tokens(RetryScope::current()) });
            RetryScope::carry(inner).await
        })
        .await;
    assert_eq!(carried, one);
    // … but one that was made looser than its clone is tightened by it.
    let (loose, (client, _)) = (RetryScope::new().cancel_on(CancellationToken::new()), hanging());
    let tight = loose.clone().deadline_in(ms(100));
    assert_eq!(tight.run(loose.run(hangs_for(&client))).await, ms(100));
}
