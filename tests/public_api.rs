//! What the public types promise, and every documented default in one place.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use http::StatusCode;
use reqwest_middleware::Middleware;
use reqwest_typed_retry::test_util::{Received, Reply, Script, ScriptExhausted, TestClock};
use reqwest_typed_retry::{
    ApiProfile, AttemptOutcome, AttemptRecord, Backoff, Classifier, ClientExplanation, Cooldown,
    DelayHint, DelaySource, Delivery, DeliveryProof, DrainLimits, Endpoint, EndpointBuilder,
    Explanation, Fault, FaultKind, FaultSet, HintUnit, IdempotencyKey, Jitter, KeyFormat,
    MetricsObserver, PolicyError, ReplayBody, ResendCount, RetryBudget, RetryBudgetBuilder,
    RetryDecision, RetryError, RetryHistory, RetryMiddleware, RetryMiddlewareBuilder, RetryPolicy,
    RetryPolicyBuilder, RetryReason, RetryScope, RetrySession, RetrySettings, RetryTracker,
    RetryableMethod, ServerDelays, Share, SharedSession, StatusCondition, StatusSet, StopReason,
    Verdict, constants,
};

#[test]
fn public_types_are_debug_and_cross_threads() {
    fn check<T: Debug + Send + Sync + 'static>() {}
    check::<(ApiProfile, AttemptRecord, Backoff, Delivery, Fault, FaultKind, FaultSet)>();
    check::<(Jitter, PolicyError, ResendCount, RetryDecision, RetryHistory, RetryMiddleware)>();
    check::<(RetryPolicy, RetryPolicyBuilder, RetryReason, RetrySession, RetryTracker)>();
    check::<(RetryableMethod, ServerDelays, StatusSet, StopReason)>();
    check::<(DelayHint, HintUnit, IdempotencyKey, KeyFormat, StatusCondition)>();
    check::<(AttemptOutcome, ClientExplanation, Cooldown, DelaySource, DeliveryProof)>();
    check::<(DrainLimits, Endpoint, EndpointBuilder, Explanation, MetricsObserver, ReplayBody)>();
    check::<(RetryBudget, RetryBudgetBuilder, RetryError, RetryMiddlewareBuilder, RetryScope)>();
    check::<(RetrySettings, Share, SharedSession, Verdict)>();
    check::<(Reply, Received, Script, ScriptExhausted, TestClock)>();
}

#[test]
fn a_middleware_and_a_classifier_are_objects_and_an_error_is_an_error() {
    let _: Box<dyn Middleware> = Box::new(RetryMiddleware::default());
    let _: Box<dyn Classifier> = Box::new(|_: &reqwest_typed_retry::Attempt<'_>| None);
    fn check<T: Error + Send + Sync + Clone + 'static>() {}
    check::<PolicyError>();
    fn builds(builder: RetryMiddlewareBuilder) -> Result<RetryMiddleware, PolicyError> {
        builder.build()
    }
    builds(RetryMiddleware::builder(RetryPolicy::default())).unwrap();
}

/// The README, the docs and this test say the same; changing one is changing all.
#[test]
fn the_documented_defaults_are_the_defaults() {
    let expected = "RetryPolicy { rules: Rules { \
        max_attempts: Some(3), \
        backoff: Backoff { shape: Exponential { base: 100ms, max: 10s, factor: 2.0 } }, \
        throttle_backoff: Backoff { shape: Exponential { base: 1s, max: 20s, factor: 2.0 } }, \
        jitter: Equal, \
        retry_statuses: {408, 425, 429, 500, 502, 503, 504}, \
        retry_faults: {Dns, Connect, Timeout, ConnectionLost, Network, Refused, Protocol, Body}, \
        not_processed_statuses: {}, \
        idempotency_key_fields: [\"idempotency-key\"], \
        honour_idempotency_keys: None, \
        generate_idempotency_keys: None, \
        assume_idempotent: false, \
        server_delays: UpTo(60s), \
        attempt_timeout: None, head_timeout: None, \
        deadline: None, \
        classifiers: 0 of the application's own, \
        profile: ApiProfile { hints_before: [], hints_after: [], verdict_fields: [], statuses: [], \
        not_processed_statuses: [], honours_keys: false } } }";
    assert_eq!(format!("{:?}", RetryPolicy::default()), expected);
    assert_eq!(format!("{:?}", RetryPolicy::builder().build().unwrap()), expected);
    assert_eq!(format!("{:?}", RetryPolicy::default().to_builder().build().unwrap()), expected);
    let never = expected.replace("max_attempts: Some(3)", "max_attempts: Some(1)");
    assert_eq!(format!("{:?}", RetryPolicy::never()), never);
}

#[test]
fn the_constants_are_the_numbers_in_the_documents() {
    assert_eq!(constants::MAX_ATTEMPTS.get(), 3);
    assert_eq!(constants::BASE_DELAY, Duration::from_millis(100));
    assert_eq!(constants::MAX_DELAY, Duration::from_secs(10));
    assert_eq!(constants::THROTTLE_BASE_DELAY, Duration::from_secs(1));
    assert_eq!(constants::THROTTLE_MAX_DELAY, Duration::from_secs(20));
    assert_eq!(constants::FACTOR.to_bits(), 2.0_f64.to_bits());
    assert_eq!(constants::MAX_SERVER_DELAY, Duration::from_secs(60));
    assert_eq!(constants::MAX_SERVER_DELAY_SPREAD, Duration::from_secs(5));
    assert_eq!(constants::SERVER_DELAY_SPREAD_DIVISOR, 10);
    assert_eq!(constants::IDEMPOTENCY_KEY, "idempotency-key");
}

#[test]
fn one_backoff_serves_every_resend_of_a_policy_made_of_three_numbers() {
    let policy = RetryPolicy::new(5, Duration::from_millis(1), Duration::from_millis(9)).unwrap();
    let debug = format!("{policy:?}");
    let shape = "Backoff { shape: Exponential { base: 1ms, max: 9ms, factor: 2.0 } }";
    assert!(debug.contains(&format!("backoff: {shape}, throttle_backoff: {shape}")), "{debug}");
    assert!(debug.contains("max_attempts: Some(5)"), "{debug}");
}

#[test]
fn a_policy_that_breaks_a_rule_is_refused_by_setting_value_and_rule() {
    let (ms, secs) = (Duration::from_millis, Duration::from_secs);
    let build = |change: fn(RetryPolicyBuilder) -> RetryPolicyBuilder| {
        change(RetryPolicy::builder()).build().map(|_| ())
    };
    let promising = |status| ApiProfile::standard().not_processed_statuses([status]);
    let retrying =
        |status| ApiProfile::standard().retry_statuses([status], StatusCondition::Always);
    let profile = |profile| RetryPolicy::builder().profile(profile).build().map(|_| ());
    for (refused, message) in [
        (
            build(|it| it.max_attempts(0)),
            "max_attempts is 0, but it counts the first send too: it must be at least 1",
        ),
        (
            build(RetryPolicyBuilder::unlimited_attempts),
            "deadline is none, but unlimited attempts need a deadline to end them",
        ),
        (
            build(|it| {
                let none = Backoff::constant(Duration::ZERO);
                it.unlimited_attempts().deadline(Duration::from_secs(1)).backoff(none)
            }),
            "backoff is 0ns, but unlimited attempts need a wait between them",
        ),
        (
            build(|it| it.attempt_timeout(Duration::ZERO)),
            "attempt_timeout is 0ns, but nothing can be done in no time: it must be longer than \
             zero",
        ),
        (
            build(|it| it.deadline(Duration::ZERO)),
            "deadline is 0ns, but nothing can be done in no time: it must be longer than zero",
        ),
        (
            build(|it| it.attempt_timeout(Duration::from_secs(9)).deadline(Duration::from_secs(8))),
            "attempt_timeout is 9s, but it must not be longer than the deadline of 8s",
        ),
        (
            build(|it| it.head_timeout(Duration::ZERO)),
            "head_timeout is 0ns, but nothing can be done in no time: it must be longer than zero",
        ),
        (
            build(|it| it.head_timeout(Duration::from_secs(9)).deadline(Duration::from_secs(8))),
            "head_timeout is 9s, but it must not be longer than the deadline of 8s",
        ),
        (
            build(|it| {
                let (long, short) = (Duration::from_secs(9), Duration::from_secs(8));
                it.head_timeout(long).attempt_timeout(short)
            }),
            "head_timeout is 9s, but it must not be longer than the attempt_timeout of 8s",
        ),
        (
            build(|it| it.server_delays(ServerDelays::ClampedTo(Duration::ZERO))),
            "server_delays is ClampedTo(0ns), but a server that asked for time would get none: \
             ignore its delays instead",
        ),
        (
            build(|it| it.retry_statuses(StatusSet::transient().with(StatusCode::ACCEPTED))),
            "retry_statuses is 202, but a status below 400 is an answer: only 400 and above can be \
             listed",
        ),
        (
            build(|it| it.not_processed_statuses(StatusSet::empty().with(StatusCode::FOUND))),
            "not_processed_statuses is 302, but a status below 400 is an answer: only 400 and \
             above can be listed",
        ),
        (
            profile(promising(StatusCode::FOUND)),
            "profile is 302, but a status below 400 is an answer: only 400 and above can be listed",
        ),
        (
            profile(retrying(StatusCode::ACCEPTED)),
            "profile is 202, but a status below 400 is an answer: only 400 and above can be listed",
        ),
        (
            Backoff::exponential(secs(1), ms(30)).map(|_| ()),
            "max_delay is 30ms, but it must not be shorter than the base delay of 1s",
        ),
        (
            Backoff::constant(ms(1)).with_factor(2.0).map(|_| ()),
            "factor is 2.0, but only an exponential backoff has a factor",
        ),
        (
            Backoff::exponential(ms(1), ms(2)).unwrap().with_factor(0.5).map(|_| ()),
            "factor is 0.5, but it must be a finite number of at least 1",
        ),
        (
            Backoff::exponential(ms(1), ms(2)).unwrap().with_factor(f64::NAN).map(|_| ()),
            "factor is NaN, but it must be a finite number of at least 1",
        ),
        (Backoff::schedule([]).map(|_| ()), "schedule is [], but it needs at least one delay"),
        (
            Backoff::schedule([ms(2), ms(1)]).map(|_| ()),
            "schedule is [2ms, 1ms], but no delay may be shorter than the one before it",
        ),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), message);
    }
    // At their edges the rules hold.
    build(|it| it.max_attempts(1)).unwrap();
    build(|it| it.unlimited_attempts().deadline(Duration::from_nanos(1))).unwrap();
    build(|it| it.attempt_timeout(Duration::from_secs(8)).deadline(Duration::from_secs(8)))
        .unwrap();
    build(|it| it.retry_statuses(StatusSet::empty().with(StatusCode::BAD_REQUEST))).unwrap();
}

/// Dashboards and settings files have them; `Display` is for people, and says as much and no less.
#[test]
fn the_labels_are_stable() {
    let labels = [
        RetryableMethod::Idempotent.as_str(),
        RetryableMethod::IdempotentWithToken.as_str(),
        RetryableMethod::NonIdempotent.as_str(),
        Delivery::NotProcessed.as_str(),
        Delivery::Unknown.as_str(),
        RetryReason::Status(StatusCode::BAD_GATEWAY).as_str(),
        RetryReason::Fault(FaultKind::ConnectionLost).as_str(),
        RetryReason::Fault(FaultKind::Network).as_str(),
        RetryReason::ServerDirective.as_str(),
        RetryReason::Classifier.as_str(),
        DelaySource::Backoff.as_str(),
        DelaySource::ThrottleBackoff.as_str(),
        DelaySource::Server.as_str(),
        DelaySource::Classifier.as_str(),
        KeyFormat::Quoted.as_str(),
        KeyFormat::Bare.as_str(),
        HintUnit::Seconds.as_str(),
        HintUnit::DecimalSeconds.as_str(),
        HintUnit::Millis.as_str(),
        HintUnit::EpochSeconds.as_str(),
        HintUnit::EpochMillis.as_str(),
        HintUnit::Rfc3339.as_str(),
        HintUnit::GoDuration.as_str(),
    ];
    let expected = "idempotent idempotent_with_token non_idempotent \
        not_processed unknown status connection_lost network server_directive classifier \
        backoff throttle_backoff server classifier quoted bare \
        seconds decimal_seconds millis epoch_seconds epoch_millis rfc3339 go_duration";
    assert_eq!(labels.join(" "), expected);

    let shown = [
        RetryableMethod::IdempotentWithToken.to_string(),
        Fault::not_processed(FaultKind::Dns).to_string(),
        RetryReason::Status(StatusCode::BAD_GATEWAY).to_string(),
        RetryReason::Fault(FaultKind::Tls).to_string(),
        DelaySource::ThrottleBackoff.to_string(),
        StopReason::BodyNotReplayable.to_string(),
    ];
    let expected = "idempotent_with_token, dns (seems not processed), status 502, tls, \
        throttle_backoff, body_not_replayable";
    assert_eq!(shown.join(", "), expected);
}

#[test]
fn a_share_is_the_number_that_it_was_made_of() {
    for number in [0.0, 0.2, 1.0] {
        let Jitter::Proportional(share) = Jitter::proportional(number).unwrap() else {
            unreachable!("it is proportional");
        };
        assert_eq!(share.get().to_bits(), f64::to_bits(number));
    }
}
