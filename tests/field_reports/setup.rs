//! Section O: settings that make no sense, and runtimes. Bounds beyond all time are in `backoff.rs` (F146).

use std::time::Duration;

use http::StatusCode;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, Endpoint, IdempotencyKey, Jitter, KeyFormat, PolicyError, RetryBudget,
    RetryMiddleware, RetryPolicy, ServerDelays, StatusSet,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::support::{SCRIPTED, ms, no_waits, scripted, secs, waits};

/// A runtime on which a socket can't even be opened.
fn without_sockets() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A runtime on which, besides, nothing can wait.
fn without_time() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE)
}

// F143
#[test]
fn a_test_in_virtual_time_opens_no_socket_and_meets_no_limit_before_its_time() {
    let runtime = without_sockets();
    for (label, reply, ok, took) in [
        ("slow", Reply::status(StatusCode::OK).after(secs(3_600)), true, secs(3_600)),
        ("just too slow", Reply::status(StatusCode::OK).after(secs(7_200)), false, secs(7_200)),
        ("silent", Reply::hang(), false, secs(7_200)),
        ("unreachable", Reply::connect_error().after(secs(60)), false, secs(60)),
        ("not found", Reply::dns_error(), false, secs(0)),
    ] {
        runtime.block_on(async {
            let script = Script::new([busy(), reply]);
            let policy = no_waits().max_attempts(2).attempt_timeout(secs(7_200));
            let client = scripted(policy.backoff(Backoff::constant(secs(30))), &script);
            let started = Instant::now();
            let result = client.get(SCRIPTED).send().await;
            assert_eq!(result.is_ok(), ok, "{label}: {result:?}");
            assert_eq!(started.elapsed(), secs(30) + took, "{label}");
            assert_eq!(waits(&script), [secs(30)], "{label}");
        });
    }
}

// F144: there is no sleeper of one's own; without waits there is nothing to sleep.
#[test]
fn a_runtime_without_timers_serves_where_nothing_waits() {
    let ok = Reply::status(StatusCode::OK);
    let script = Script::new([busy(), Reply::status(StatusCode::TOO_MANY_REQUESTS), ok]);
    let call = scripted(no_waits(), &script).get(SCRIPTED).send();
    assert_eq!(without_time().block_on(call).unwrap().status(), 200);
    assert_eq!(script.received().len(), 3);
}

// F149
#[test]
fn a_hundred_resends_without_waits_take_no_time_and_no_timer() {
    let script = Script::always(busy());
    let retry = RetryMiddleware::builder(no_waits().max_attempts(101).build().unwrap());
    let client = reqwest_middleware::ClientBuilder::new(crate::support::http())
        .with(retry.without_budget().build().unwrap())
        .with(script.clone())
        .build();
    // A timer would be a panic here.
    without_time().block_on(client.get(SCRIPTED).send()).unwrap();
    assert_eq!(script.received().len(), 101);
    // In virtual time it can be seen that no moment passes.
    without_sockets().block_on(async {
        let started = Instant::now();
        client.get(SCRIPTED).send().await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
    });
}

/// The error, whatever was to be built.
fn refused<T>(result: Result<T, PolicyError>) -> PolicyError {
    result.map(drop).expect_err("it was built")
}

// F148, as far as builders go
#[test]
fn a_setting_that_makes_no_sense_is_an_error_that_names_it_and_never_a_panic() {
    let policy = RetryPolicy::builder;
    let factor = |factor| Backoff::exponential(ms(1), ms(2)).and_then(|it| it.with_factor(factor));
    let refill = |share| RetryBudget::builder().refill_per_answer(share).build();
    let ok = StatusSet::empty().with(StatusCode::OK);
    let whole_number = "it must be a finite number of at least 1";
    let share = "a share must be between 0 and 1";
    let thousandths = "it must be between 0 and 1, in whole thousandths";
    for (error, setting, rest) in [
        (
            refused(policy().max_attempts(0).build()),
            "max_attempts",
            "0, but it counts the first send too: it must be at least 1".to_owned(),
        ),
        (
            refused(policy().unlimited_attempts().build()),
            "deadline",
            "none, but unlimited attempts need a deadline to end them".to_owned(),
        ),
        (refused(factor(0.5)), "factor", format!("0.5, but {whole_number}")),
        (refused(factor(-1.0)), "factor", format!("-1.0, but {whole_number}")),
        (refused(factor(f64::NAN)), "factor", format!("NaN, but {whole_number}")),
        (refused(factor(f64::INFINITY)), "factor", format!("inf, but {whole_number}")),
        (refused(Jitter::proportional(-0.1)), "jitter", format!("-0.1, but {share}")),
        (refused(Jitter::proportional(1.1)), "jitter", format!("1.1, but {share}")),
        (refused(Jitter::proportional(f64::NAN)), "jitter", format!("NaN, but {share}")),
        (refused(refill(-0.2)), "refill_per_answer", format!("-0.2, but {thousandths}")),
        (refused(refill(f64::NAN)), "refill_per_answer", format!("NaN, but {thousandths}")),
        (
            refused(Backoff::exponential(ms(2), ms(1))),
            "max_delay",
            "1ms, but it must not be shorter than the base delay of 2ms".to_owned(),
        ),
        (
            refused(Backoff::schedule([ms(2), ms(1)])),
            "schedule",
            "[2ms, 1ms], but no delay may be shorter than the one before it".to_owned(),
        ),
        (
            refused(policy().attempt_timeout(Duration::ZERO).build()),
            "attempt_timeout",
            "0ns, but nothing can be done in no time: it must be longer than zero".to_owned(),
        ),
        (
            refused(policy().attempt_timeout(secs(2)).deadline(secs(1)).build()),
            "attempt_timeout",
            "2s, but it must not be longer than the deadline of 1s".to_owned(),
        ),
        (
            refused(policy().server_delays(ServerDelays::ClampedTo(Duration::ZERO)).build()),
            "server_delays",
            "ClampedTo(0ns), but a server that asked for time would get none: ignore its delays \
             instead"
                .to_owned(),
        ),
        (
            refused(policy().retry_statuses(ok).build()),
            "retry_statuses",
            "200, but a status below 400 is an answer: only 400 and above can be listed".to_owned(),
        ),
        (
            refused(IdempotencyKey::new("", KeyFormat::Quoted)),
            "idempotency_key",
            "0 characters long, but it must not be empty".to_owned(),
        ),
        (
            refused(Endpoint::named("search").path("v1").build()),
            "endpoint.search.path",
            "\"v1\", but it must begin with a slash".to_owned(),
        ),
    ] {
        assert_eq!(error.setting(), setting);
        assert_eq!(error.to_string(), format!("{setting} is {rest}"));
    }
}
