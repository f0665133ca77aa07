//! All options on one builder: F112.

use std::time::SystemTime;

use http::HeaderName;
use reqwest_typed_retry::test_util::{Script, seeded_jitter};
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, Cooldown, DeliveryProof, DrainLimits, FaultSet, MetricsObserver,
    RetryBudget, RetryMiddleware, RetryPolicy, ServerDelays, StatusSet, Verdict,
};

use super::listening::{Hooks, listen};
use super::row::row;
use super::{URL, ms, policy, reply, world};

// F112
#[tokio::test(start_paused = true)]
async fn an_observer_a_classifier_and_every_other_option_go_together() {
    let all: RetryPolicy = policy()
        .max_attempts(4)
        .backoff(Backoff::constant(ms(10)))
        .throttle_backoff(Backoff::constant(ms(20)))
        .retry_statuses(StatusSet::transient())
        .retry_faults(FaultSet::transient())
        .not_processed_statuses(StatusSet::empty().with(http::StatusCode::TOO_MANY_REQUESTS))
        .honour_idempotency_keys(true)
        .idempotency_key_fields([HeaderName::from_static("x-key")])
        .assume_idempotent(true)
        .server_delays(ServerDelays::UpTo(ms(1_000)))
        .attempt_timeout(ms(1_000))
        .head_timeout(ms(500))
        .deadline(ms(10_000))
        .classifier(|attempt: &Attempt<'_>| {
            let is_asked_for = attempt.outcome().status().is_some_and(|status| status == 418);
            is_asked_for.then_some(Verdict::Transient { delay: None })
        })
        .profile(ApiProfile::standard().verdict_field(HeaderName::from_static("x-retry")))
        .build()
        .unwrap();
    let told = listen(|hooks: Hooks| async move {
        let (_, proof) = DeliveryProof::build(reqwest::Client::builder()).unwrap();
        let retry = RetryMiddleware::builder(all)
            .observer(hooks)
            .observer(MetricsObserver::new())
            .delivery_proof(proof)
            .budget(RetryBudget::default())
            .cooldown(Cooldown::by_origin())
            .drain(DrainLimits::none())
            .buffer_body(1_024)
            .wrap_errors()
            .attempt_header(HeaderName::from_static("x-attempt"))
            .wall_clock(|| SystemTime::UNIX_EPOCH)
            .generator(seeded_jitter(7))
            .build()
            .unwrap();
        let client = world::client(retry, &Script::new([reply(418), reply(429), reply(200)]));
        client.post(URL).send().await.unwrap();
    })
    .await;
    let hooks = [
        "0ns POST ended: attempt 1: status 418; retry in 10.00ms (set by the backoff): classifier",
        "0ns POST resending: 1 of 3 in 10ms",
        "10ms POST ended: attempt 2 after 10.00ms: status 429; \
         retry in 20.00ms (set by the throttle_backoff): status 429",
        "10ms POST resending: 2 of 3 in 20ms",
        "30ms POST ended: attempt 3 after 30.00ms: status 200; stop: completed",
        "30ms POST recovered: 3, completed",
    ];
    assert_eq!(told.hooks, hooks);
    assert_eq!(told.metrics.len(), 8, "{:?}", told.metrics);
    assert_eq!(told.events.len(), if cfg!(feature = "tracing") { 3 } else { 0 });
}

#[tokio::test(start_paused = true)]
async fn a_list_that_has_no_effect_is_told_when_the_middleware_is_made() {
    row("a list without a proof", |world| async move {
        let limited = StatusSet::empty().with(http::StatusCode::TOO_MANY_REQUESTS);
        let policy = policy().not_processed_statuses(limited).build().unwrap();
        world.shown().debug(&RetryMiddleware::new(policy));
    })
    .events(["DEBUG not_processed_statuses has no effect without a delivery proof:"])
    .check()
    .await;
}
