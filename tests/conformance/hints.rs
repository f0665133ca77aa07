//! What servers say about resends beyond Retry-After, by the profiles of their APIs.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, DelayHint, DelaySource, HintUnit, Jitter, Outcome, RetryDecision,
    RetryPolicy, RetryPolicyBuilder, RetryableMethod, ServerDelays, StatusCondition, StatusSet,
    StopReason,
};
use serde::Deserialize;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{instant, millis, run, same};

const FILE: &str = include_str!("../data/server_hints.json");

#[derive(Deserialize)]
struct HintCase {
    id: String,
    profile: [String; 1],
    built_in: bool,
    request: Request,
    response: Response,
    now: String,
    #[serde(default)]
    policy: Limits,
    computed_backoff_ms: Option<u64>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    idempotency_key: bool,
}

#[derive(Deserialize)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
}

#[derive(Default, Deserialize)]
struct Limits {
    max_server_delay_ms: Option<u64>,
    on_exceed: Option<String>,
}

#[derive(Deserialize)]
struct Expected {
    verdict: Option<bool>,
    hint_ms: Option<u64>,
    hint_source: Option<String>,
    decision: Option<ExpectedDecision>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ExpectedDecision {
    Stop(String),
    WaitMs(u64, u64),
}

fn name(name: &str) -> HeaderName {
    name.parse().unwrap()
}

/// A built-in profile, or one that the test writes as anyone could.
fn profile(named: &str) -> (ApiProfile, bool) {
    let standard = ApiProfile::standard();
    let built_in = match named {
        "standard" => standard,
        "openai" | "anthropic" => ApiProfile::openai(),
        "azure" => ApiProfile::azure(),
        "stripe" => ApiProfile::stripe(),
        "github" => ApiProfile::github(),
        custom => return (custom_profile(custom), false),
    };
    (built_in, true)
}

fn custom_profile(named: &str) -> ApiProfile {
    let hint = |field, unit| DelayHint::new(name(field), unit);
    // 429 is listed, and a reset field counts only once nothing is left.
    let limited = |hint: DelayHint, remaining: Option<&str>| {
        let hint = match remaining {
            Some(remaining) => hint.only_if(name(remaining), "0"),
            None => hint,
        };
        ApiProfile::standard()
            .hint(hint)
            .retry_statuses([StatusCode::TOO_MANY_REQUESTS], StatusCondition::WithServerDelay)
    };
    let (remaining, x_remaining) = (Some("ratelimit-remaining"), Some("x-ratelimit-remaining"));
    match named {
        "adyen" => {
            ApiProfile::standard().verdict_field(name("transient-error")).honours_idempotency_keys()
        }
        "gitlab" => limited(hint("ratelimit-reset", HintUnit::EpochSeconds), remaining),
        "ratelimit-draft-06" => limited(hint("ratelimit-reset", HintUnit::Seconds), remaining),
        "sendgrid" => limited(hint("x-ratelimit-reset", HintUnit::EpochSeconds), x_remaining),
        "epoch-ms" => limited(hint("x-ratelimit-reset", HintUnit::EpochMillis), x_remaining),
        "discord" => {
            limited(hint("x-ratelimit-reset-after", HintUnit::DecimalSeconds), x_remaining)
        }
        "shopify" => limited(hint("retry-after", HintUnit::DecimalSeconds), None),
        "twilio" => ApiProfile::standard()
            .retry_statuses([StatusCode::TOO_MANY_REQUESTS], StatusCondition::Always)
            .not_processed_statuses([StatusCode::TOO_MANY_REQUESTS]),
        named => panic!("unknown profile {named}"),
    }
}

impl HintCase {
    fn profile(&self) -> ApiProfile {
        let [named] = &self.profile;
        let (profile, built_in) = profile(named);
        assert_eq!(built_in, self.built_in, "{}", self.id);
        profile
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.response.status).unwrap()
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (field, value) in &self.response.headers {
            headers.append(name(field), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn delay(&self, headers: &HeaderMap) -> Option<Duration> {
        self.profile().server_delay(headers, instant(&self.now))
    }

    fn method(&self) -> Method {
        self.request.method.parse().unwrap()
    }

    fn class(&self, policy: &RetryPolicy) -> RetryableMethod {
        let key = self.request.idempotency_key.then(|| (name("idempotency-key"), "k".parse()));
        let headers = key.into_iter().map(|(field, value)| (field, value.unwrap())).collect();
        policy.method_class(&self.method(), &headers)
    }

    /// The profile, with statuses of the policy's own and no limit to a server's delay.
    fn policy(&self, statuses: StatusSet) -> RetryPolicyBuilder {
        RetryPolicy::builder()
            .profile(self.profile())
            .retry_statuses(statuses)
            .server_delays(ServerDelays::UpTo(Duration::MAX))
    }

    fn decide(&self, policy: &RetryPolicy, class: RetryableMethod, proven: bool) -> RetryDecision {
        let (method, headers) = (self.method(), self.headers());
        let outcome = Outcome::response(self.status(), &headers);
        let attempt =
            Attempt::new(1, class, &method, outcome, instant(&self.now)).with_sole_exchange(proven);
        policy.decide(&attempt, &mut seeded_jitter(1))
    }

    /// Of this request, or, if it must not be repeated, of one that differs in that alone.
    fn decide_repeatable(&self, statuses: StatusSet) -> RetryDecision {
        let policy = self.policy(statuses).build().unwrap();
        let class = match self.class(&policy) {
            RetryableMethod::NonIdempotent => RetryableMethod::Idempotent,
            class => class,
        };
        self.decide(&policy, class, false)
    }

    fn check_delay(&self) -> Result<(), String> {
        let headers = self.headers();
        let delay = self.delay(&headers);
        // What is refused has no delay to follow, whatever its fields ask for.
        if self.expected.verdict != Some(false) {
            same("delay in ms", delay.map(millis), self.expected.hint_ms)?;
        }
        let Some(source) = &self.expected.hint_source else { return Ok(()) };
        let mut without = headers;
        without.remove(name(source)).unwrap();
        same(&format!("unchanged without {source}"), self.delay(&without) == delay, false)
    }

    fn check_verdict(&self) -> Result<(), String> {
        let unlisted = self.decide_repeatable(StatusSet::empty());
        let listed = self.decide_repeatable(StatusSet::from_iter([self.status()]));
        let permanent = Some(StopReason::Permanent);
        match self.expected.verdict {
            Some(true) => {
                same("unlisted, resent", unlisted.delay().is_some(), true)?;
                same("listed, resent", listed.delay().is_some(), true)
            }
            Some(false) => {
                same("unlisted", unlisted.stop_reason(), permanent)?;
                same("listed", listed.stop_reason(), Some(StopReason::ServerRefused))
            }
            None => {
                same("unlisted", unlisted.stop_reason(), permanent)?;
                same("listed, resent", listed.delay().is_some(), true)
            }
        }
    }

    /// No verdict lifts method safety: only a promise of the API does, and only with a proof.
    fn check_method_safety(&self) -> Result<(), String> {
        for statuses in [StatusSet::transient(), StatusSet::empty()] {
            let policy = self.policy(statuses).build().unwrap();
            let class = self.class(&policy);
            if class != RetryableMethod::NonIdempotent {
                return Ok(());
            }
            let unsafe_to_repeat = match self.decide_repeatable(statuses) {
                RetryDecision::RetryAfter { .. } => Some(StopReason::NotIdempotent),
                stop => stop.stop_reason(),
            };
            let decision = self.decide(&policy, class, false);
            same("unmarked POST", decision.stop_reason(), unsafe_to_repeat)?;
            let proven = self.decide(&policy, class, true);
            let promised = self.profile == ["twilio"];
            same("proven POST, resent", proven.delay().is_some(), promised)?;
        }
        Ok(())
    }

    fn check_decision(&self) -> Result<(), String> {
        let Some(expected) = &self.expected.decision else { return Ok(()) };
        let mut builder = RetryPolicy::builder().profile(self.profile());
        if let Some(most) = self.policy.max_server_delay_ms {
            assert_eq!(self.policy.on_exceed.as_deref(), Some("give_up"), "{}", self.id);
            builder = builder.server_delays(ServerDelays::UpTo(Duration::from_millis(most)));
        }
        if let Some(backoff) = self.computed_backoff_ms {
            let backoff = Backoff::constant(Duration::from_millis(backoff));
            builder = builder.backoff(backoff).jitter(Jitter::None);
        }
        let policy = builder.build().unwrap();
        let decision = self.decide(&policy, self.class(&policy), false);
        match (expected, decision) {
            (ExpectedDecision::Stop(reason), RetryDecision::DoNotRetry { reason: actual, .. }) => {
                same("stop", format!("{actual:?}").starts_with(reason), true)
            }
            (ExpectedDecision::WaitMs(least, most), RetryDecision::RetryAfter { delay, .. }) => {
                same("wait in its interval", (*least..=*most).contains(&millis(delay)), true)
            }
            (_, decision) => Err(format!("the decision is {decision}")),
        }
    }
}

#[test]
fn what_servers_say_is_read_and_followed_by_the_profiles_of_their_apis() {
    run("server_hints.json", FILE, |case: &HintCase| {
        case.check_delay()?;
        case.check_verdict()?;
        case.check_method_safety()?;
        case.check_decision()
    });
}

#[test]
fn a_case_that_is_decided_otherwise_is_decided_so() {
    let cases: Vec<HintCase> = serde_json::from_str(FILE).unwrap();
    for (id, delay, by_policy) in [
        // Told in the body, which a classifier can read.
        ("gh-secondary-no-header", None, DelaySource::Backoff),
        // How long, where the policy lists the status. No reason to send again by itself.
        ("openai-go-duration", Some(360_000), DelaySource::Server),
        ("openai-go-duration-ms", Some(12), DelaySource::Server),
        ("anthropic-rfc3339", Some(20_000), DelaySource::Server),
        // A field that is missing is a weak sign of a spent budget.
        ("anthropic-429-no-hint", None, DelaySource::ThrottleBackoff),
    ] {
        let case = cases.iter().find(|case| case.id == id).unwrap();
        assert_eq!(case.delay(&case.headers()).map(millis), delay, "{id}");
        if case.expected.hint_source.is_some() {
            assert_eq!(case.check_delay(), Ok(()), "{id}");
        }
        assert_eq!(case.check_method_safety(), Ok(()), "{id}");
        let unlisted = case.decide_repeatable(StatusSet::empty());
        assert_eq!(unlisted.stop_reason(), Some(StopReason::Permanent), "{id}");
        let listed = case.decide_repeatable(StatusSet::from_iter([case.status()]));
        assert_eq!(listed.delay_source(), Some(by_policy), "{id}");
    }
}
