//! `Retry-After` of every absurd size: no wait is longer than the policy allows, and nothing overflows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Client;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::test_util::{Reply, Script, seeded_jitter};
use reqwest_typed_retry::{
    ApiProfile, Cooldown, Jitter, RetryMiddlewareBuilder, RetryPolicyBuilder, ServerDelays,
};

use crate::clock::Clock;
use crate::world::{Back, WAIT, end, policy, retrying, run, send};

const URL: &str = "http://service.test/";

/// 2026-11-29 12:00:00.
pub(crate) const NOW: u64 = 1_795_953_600;

/// The bytes of a long value: a quarter of what a client takes as a head.
pub(crate) const LONG: usize = 100_000;

/// The limit of the policies here.
const LIMIT: Duration = Duration::from_secs(60);
const DEADLINE: Duration = Duration::from_secs(10);

/// What is to be read from a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Nothing,
    /// A moment that is there already.
    Now,
    For(Duration),
}

/// As long as a server can ask.
pub(crate) const FOR_EVER: Asked = Asked::For(Duration::from_secs(u64::MAX));

pub(crate) fn seconds(seconds: u64) -> Asked {
    Asked::For(Duration::from_secs(seconds))
}

/// The fields of one response, and what they ask for.
pub(crate) struct Row {
    fields: Vec<(HeaderName, Vec<u8>)>,
    asked: Asked,
}

impl Row {
    pub(crate) fn new(
        fields: impl IntoIterator<Item = (&'static str, impl Into<Vec<u8>>)>,
        asked: Asked,
    ) -> Self {
        let field = |(name, value): (&'static str, _)| (HeaderName::from_static(name), value);
        let fields = fields.into_iter().map(|(name, value)| field((name, value.into())));
        Self { fields: fields.collect(), asked }
    }

    fn label(&self) -> String {
        let (_, value) = self.fields.last().unwrap();
        let shown = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
        format!("{} fields, the last of {} bytes: {shown:?}", self.fields.len(), value.len())
    }

    fn reply(&self) -> Reply {
        let busy = Reply::status(StatusCode::SERVICE_UNAVAILABLE);
        self.fields.iter().fold(busy, |busy, (name, value)| {
            busy.header(name.clone(), HeaderValue::from_bytes(value).unwrap())
        })
    }
}

struct World<'a> {
    http: &'a Client,
    row: &'a Row,
    profile: &'a ApiProfile,
    /// The wall clock.
    now: SystemTime,
}

impl World<'_> {
    fn client(
        &self,
        policy: RetryPolicyBuilder,
        with: impl FnOnce(RetryMiddlewareBuilder) -> RetryMiddlewareBuilder,
    ) -> (ClientWithMiddleware, Script) {
        let script = Script::always(self.row.reply());
        let retry = retrying(policy.profile(self.profile.clone()));
        let now = self.now;
        let retry =
            with(retry.wall_clock(move || now).generator(seeded_jitter(7))).build().unwrap();
        let client = ClientBuilder::new(self.http.clone()).with(retry).with(script.clone());
        (client.build(), script)
    }

    /// Three attempts, so two waits, unless the limit keeps the first from starting.
    async fn check_limit(&self, delays: ServerDelays, refuses: bool) {
        let label = format!("{} under {delays:?}", self.row.label());
        let (client, script) = self.client(policy().server_delays(delays), |retry| retry);
        let (end, response, history) = send(client.get(URL)).await;
        let asked = match self.row.asked {
            _ if delays == ServerDelays::Ignored => None,
            Asked::Nothing => None,
            Asked::Now => Some(Duration::ZERO),
            Asked::For(asked) => Some(asked),
        };
        let is_long = asked.is_some_and(|asked| asked > LIMIT);
        let wait = match asked {
            None | Some(Duration::ZERO) => WAIT,
            Some(asked) => asked.min(LIMIT),
        };
        let (attempts, after, stop) = if is_long && refuses {
            (1, Duration::ZERO, "server_delay_too_long")
        } else {
            (3, 2 * wait, "attempts_exhausted")
        };
        assert_eq!((end.back, end.attempts), (Back::Status(503), attempts), "{label}");
        assert_eq!((end.after, end.stop.as_str()), (after, stop), "{label}");
        assert_eq!(history.server_delay(), asked, "{label}");
        assert_eq!(script.received().len(), attempts, "{label}");
        // It comes back as it came.
        let response = response.unwrap();
        let kept = response.headers();
        let fields = &self.row.fields;
        assert!(fields.iter().all(|(name, _)| kept.contains_key(name)), "{label}");
        assert_eq!(kept.len(), fields.len(), "{label}");
    }

    /// A delay without a limit ends at the deadline, and so do the calls that a cooldown holds back.
    async fn check_deadline(&self, delays: ServerDelays) {
        let label = format!("{} under {delays:?} and a deadline", self.row.label());
        let policy = policy().jitter(Jitter::Equal).server_delays(delays).deadline(DEADLINE);
        let (client, script) = self.client(policy, |retry| retry.cooldown(Cooldown::by_origin()));
        let first = end(client.get(URL)).await;
        assert!(first.after < DEADLINE, "{label}: {first:?}");
        let second = end(client.get(URL)).await;
        assert!(second.after < DEADLINE, "{label}: {second:?}");
        if let Asked::For(asked) = self.row.asked
            && asked >= DEADLINE
        {
            let at_once = (first.attempts, first.after, first.stop.as_str());
            assert_eq!(at_once, (1, Duration::ZERO, "deadline_would_pass"), "{label}");
            assert_eq!((second.back, second.attempts), (Back::Closed, 0), "{label}");
            assert_eq!(script.received().len(), 1, "{label}");
        }
    }
}

pub(crate) fn check(profile: &ApiProfile, rows: &[Row]) {
    let ((), _) = run(&Clock::default(), async {
        let http = Client::new();
        for row in rows {
            let now = UNIX_EPOCH + Duration::from_secs(NOW);
            let world = World { http: &http, row, profile, now };
            world.check_limit(ServerDelays::UpTo(LIMIT), true).await;
            world.check_limit(ServerDelays::ClampedTo(LIMIT), false).await;
            world.check_limit(ServerDelays::Ignored, false).await;
            world.check_deadline(ServerDelays::UpTo(Duration::MAX)).await;
            world.check_deadline(ServerDelays::ClampedTo(Duration::MAX)).await;
        }
    });
}

/// Whatever the clock of the client's own machine says, no wait is longer than the limit.
pub(crate) fn check_by_clock(profile: &ApiProfile, rows: &[Row], now: SystemTime) {
    let ((), _) = run(&Clock::default(), async {
        let http = Client::new();
        for row in rows {
            let world = World { http: &http, row, profile, now };
            for delays in [ServerDelays::UpTo(LIMIT), ServerDelays::ClampedTo(LIMIT)] {
                let policy = policy().server_delays(delays).jitter(Jitter::Equal);
                let (client, script) = world.client(policy, |retry| retry);
                let end = end(client.get(URL)).await;
                let label = format!("{} at {now:?} under {delays:?}: {end:?}", row.label());
                // A tenth may be added, of 5 s at most.
                assert!(end.after <= 2 * (LIMIT + Duration::from_secs(5)), "{label}");
                assert_eq!(script.received().len(), end.attempts, "{label}");
                let gave_up = (end.attempts, end.after) == (1, Duration::ZERO);
                assert!(end.attempts == 3 || gave_up, "{label}");
            }
        }
    });
}

pub(crate) fn retry_after(value: impl Into<Vec<u8>>, asked: Asked) -> Row {
    Row::new([("retry-after", value)], asked)
}

#[test]
fn a_number_asks_for_no_more_than_there_are_seconds() {
    check(
        &ApiProfile::standard(),
        &[
            retry_after("0", Asked::Now),
            retry_after("000000000000000000000000000000", Asked::Now),
            retry_after("60", seconds(60)),
            retry_after("61", seconds(61)),
            retry_after("2147483647", seconds((1 << 31) - 1)),
            retry_after("2147483648", seconds(1 << 31)),
            retry_after("4294967296", seconds(1 << 32)),
            retry_after("9223372036854775808", seconds(1 << 63)),
            retry_after("18446744073709551615", FOR_EVER),
            retry_after("18446744073709551616", FOR_EVER),
            retry_after("9".repeat(1_000), FOR_EVER),
            retry_after("9".repeat(LONG), FOR_EVER),
            retry_after(["0".repeat(LONG), "7".into()].concat(), seconds(7)),
        ],
    );
}

#[test]
fn what_is_no_number_asks_for_nothing() {
    let bytes = (0x80..=0xff).collect::<Vec<u8>>();
    let values = [
        "",
        " ",
        "\t",
        "-0",
        "-1",
        "-9223372036854775809",
        "+1",
        "1.5",
        "0.0",
        "1e400",
        "1e9",
        "NaN",
        "nan",
        "inf",
        "Infinity",
        "-inf",
        "0x7fffffff",
        "1_000",
        "1s",
        "60 seconds",
        "1, 2",
        "1,000",
        "120;120",
        "\"120\"",
        "120, Sun, 29 Nov 2026 12:02:00 GMT",
        "99999999999999999999,",
        "1 000",
    ];
    let rows = values.map(|value| retry_after(value, Asked::Nothing)).into_iter().chain([
        retry_after("\u{661}\u{662}\u{663}", Asked::Nothing),
        retry_after(bytes.clone(), Asked::Nothing),
        retry_after([b"120".to_vec(), bytes].concat(), Asked::Nothing),
        retry_after(b"120\xa0", Asked::Nothing),
        retry_after("-".repeat(LONG), Asked::Nothing),
        retry_after([" ".repeat(LONG), "7".into()].concat(), seconds(7)),
    ]);
    check(&ApiProfile::standard(), &rows.collect::<Vec<_>>());
}

#[test]
fn of_hundreds_of_fields_the_longest_counts() {
    let rows = |values: &[&str], last: &str, asked| {
        let values = values.iter().copied().cycle().take(900).chain([last]);
        Row::new(values.map(|value| ("retry-after", value)), asked)
    };
    check(
        &ApiProfile::standard(),
        &[
            rows(&["1", "soon", "-1"], "7", seconds(7)),
            rows(&["1", "\u{e9}", "0"], "99999999999999999999", FOR_EVER),
            rows(&["soon", "NaN", ""], "inf", Asked::Nothing),
            rows(&["soon", "NaN", ""], "0", Asked::Now),
        ],
    );
}

/// Whoever allows any delay gets it; but no clock is made to overflow.
#[test]
fn a_delay_without_any_limit_is_waited_for() {
    const A_WHILE: Duration = Duration::from_secs(50 * 60);
    for jitter in [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::proportional(1.0).unwrap()] {
        let row = retry_after("99999999999999999999", FOR_EVER);
        let clock = Clock::default();
        let (sent, _) = run(&clock, async {
            let profile = ApiProfile::standard();
            let now = SystemTime::now();
            let world = World { http: &Client::new(), row: &row, profile: &profile, now };
            let policy = policy().jitter(jitter).server_delays(ServerDelays::UpTo(Duration::MAX));
            let (client, script) = world.client(policy, |retry| retry);
            tokio::time::timeout(A_WHILE, client.get(URL).send()).await.unwrap_err();
            script.received().len()
        });
        assert_eq!(sent, 1, "{jitter:?}");
    }
}
