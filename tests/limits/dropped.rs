//! Calls that are dropped while they wait.

use std::iter;
use std::task::Poll;

use futures_util::poll;
use http::StatusCode;
use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::test_util::Script;
use reqwest_typed_retry::{RetryBudget, RetryMiddleware, RetryScope};
use tokio::runtime::Handle;
use tokio::time::{advance, sleep};
use tokio_util::sync::CancellationToken;

use super::{URL, busy, fine, ms, waiting};

const CALLS: usize = 10_000;

// F099, F101, F102
#[tokio::test(start_paused = true)]
async fn of_calls_dropped_in_the_middle_of_a_wait_nothing_is_left() {
    let script = Script::new(iter::repeat_n(busy(), CALLS).chain([fine()]));
    let budget = RetryBudget::builder().capacity(CALLS.try_into().unwrap()).build().unwrap();
    let policy = waiting(ms(1_000)).deadline(ms(60_000)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).budget(budget.clone()).build().unwrap();
    let client = ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build();
    let tokens = || budget.level(&URL.parse().unwrap());
    assert_eq!(tokens(), 10_000.0);
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let (before, token) = (tasks(), CancellationToken::new());

    let mut calls = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let call = client.get(URL).send();
        // Half of them could be cancelled.
        let token = (number % 2 == 1).then(|| token.clone());
        let mut call = Box::pin(async move {
            match token {
                Some(token) => RetryScope::new().cancel_on(token).run(call).await,
                None => call.await,
            }
        });
        assert!(poll!(&mut call).is_pending());
        calls.push(call);
    }
    assert_eq!(script.received().len(), CALLS, "each has been sent once");
    advance(ms(500)).await;
    for call in &mut calls {
        assert!(poll!(call).is_pending(), "all of them wait");
    }
    assert_eq!(tasks(), before, "a wait is no task");
    assert_eq!((tokens(), budget.sick_origins()), (0.0, 1));

    drop(calls);
    token.cancel();
    sleep(ms(10_000)).await;
    assert_eq!(tasks(), before);
    assert_eq!((tokens(), budget.sick_origins()), (10_000.0, 0), "as before");
    assert_eq!(script.received().len(), CALLS, "nothing goes on");

    let Poll::Ready(response) = poll!(Box::pin(client.get(URL).send())) else {
        panic!("there is nothing to wait for");
    };
    assert_eq!(response.unwrap().status(), StatusCode::OK);
    let received = script.received();
    assert_eq!((received.len(), received[CALLS].resend_count), (CALLS + 1, 0));
}
