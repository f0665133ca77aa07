//! What a policy is explained as: snapshots for people, and a comparison with what it decides.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod clients;
#[path = "../support/faults.rs"]
mod faults;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use faults::FAULTS;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, DelayHint, Explanation, Fault, FaultKind, FaultSet, HintUnit,
    Jitter, KeyFormat, Outcome, RetryPolicy, RetryableMethod, ServerDelays, StatusCondition,
    StatusSet,
};

const WIDTH: usize = 100;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn field(name: &str) -> HeaderName {
    name.parse().unwrap()
}

fn statuses(codes: impl IntoIterator<Item = u16>) -> StatusSet {
    codes.into_iter().map(|code| StatusCode::from_u16(code).unwrap()).collect()
}

/// The policies whose explanations are kept in `tests/data/explain`.
fn kept() -> Vec<(&'static str, RetryPolicy)> {
    let builder = RetryPolicy::builder;
    let ms = Duration::from_millis;
    let no_opinion = |_: &Attempt<'_>| None;
    let built = [
        ("default", builder()),
        ("never", RetryPolicy::never().to_builder()),
        ("new", RetryPolicy::new(8, ms(50), secs(2)).unwrap().to_builder()),
        (
            "payments",
            builder()
                .profile(ApiProfile::stripe())
                .generate_idempotency_keys(KeyFormat::Bare)
                .not_processed_statuses(statuses([429]))
                .attempt_timeout(secs(5))
                .deadline(secs(20)),
        ),
        (
            "openai",
            builder()
                .profile(ApiProfile::openai())
                .assume_idempotent(true)
                .attempt_timeout(secs(120)),
        ),
        (
            "github",
            builder()
                .profile(ApiProfile::github())
                .server_delays(ServerDelays::ClampedTo(secs(900)))
                .attempt_timeout(secs(30)),
        ),
        (
            "unlimited",
            builder()
                .unlimited_attempts()
                .backoff(Backoff::decorrelated(ms(200), secs(30)).unwrap())
                .head_timeout(secs(10))
                .deadline(secs(600)),
        ),
        (
            "schedule",
            builder()
                .max_attempts(5)
                .backoff(Backoff::schedule([secs(1), secs(5), secs(30)]).unwrap())
                .throttle_backoff(Backoff::constant(secs(60)))
                .jitter(Jitter::None)
                .server_delays(ServerDelays::Ignored)
                .classifier(no_opinion)
                .attempt_timeout(secs(10)),
        ),
    ];
    built.map(|(name, builder)| (name, builder.build().unwrap())).into()
}

/// Policies that nobody has, each with something that could go wrong.
fn extreme() -> Vec<(&'static str, RetryPolicy)> {
    let builder = RetryPolicy::builder;
    let long = |letter: &str, length| field(&letter.repeat(length));
    let many_hints = (0..40).fold(ApiProfile::standard(), |profile, at| {
        let hint = DelayHint::new(long("h", 3 * at + 1), HintUnit::EpochMillis);
        let gate = long("g", 120 - 3 * at);
        profile.hint(match at % 3 {
            0 => hint.unless_left(gate),
            1 => hint.only_if(gate, "none \u{fc}brig | `at` \"all\" ".repeat(at)),
            _ => hint,
        })
    });
    let verdicts = ["x-may-resend", "x-again"].map(field);
    let all_at_once = verdicts
        .into_iter()
        .fold(ApiProfile::stripe(), ApiProfile::verdict_field)
        .verdict_field(long("v", 98))
        .hint_before(DelayHint::new(field("retry-after"), HintUnit::EpochSeconds))
        .retry_statuses(statuses([403, 404, 409, 502]).iter(), StatusCondition::WithServerDelay)
        .retry_statuses(statuses([404, 412, 777]).iter(), StatusCondition::WithHonouredKey)
        .retry_statuses(statuses([419, 420]).iter(), StatusCondition::Always)
        .not_processed_statuses(statuses([403, 412, 418, 429]).iter());
    let endless = Backoff::exponential(Duration::MAX / 3, Duration::MAX).unwrap();
    let built = [
        ("many statuses", builder().retry_statuses(statuses((0..500).map(|at| 400 + at)))),
        (
            "many statuses with gaps",
            builder()
                .retry_statuses(statuses((0..299).map(|at| 401 + 2 * at)))
                .not_processed_statuses(statuses((0..199).map(|at| 402 + 3 * at))),
        ),
        ("all statuses", builder().retry_statuses(statuses(400..=999))),
        ("no statuses", builder().retry_statuses(StatusSet::empty())),
        ("no faults", builder().retry_faults(FaultSet::empty())),
        ("many hints", builder().profile(many_hints)),
        ("all at once", builder().profile(all_at_once.clone())),
        (
            "all at once, ignored",
            builder().profile(all_at_once.clone()).server_delays(ServerDelays::Ignored),
        ),
        (
            "one verdict field and a condition",
            builder().profile(ApiProfile::github().verdict_field(field("x-again"))),
        ),
        (
            "keys in long fields",
            builder()
                .idempotency_key_fields((90..130).map(|length| long("k", length)))
                .honour_idempotency_keys(true)
                .generate_idempotency_keys(KeyFormat::Quoted),
        ),
        ("no key field", builder().idempotency_key_fields([]).honour_idempotency_keys(true)),
        (
            "assumed, with conditions",
            builder()
                .profile(all_at_once)
                .assume_idempotent(true)
                .generate_idempotency_keys(KeyFormat::Quoted),
        ),
        (
            "long waits",
            builder()
                .max_attempts(u32::MAX)
                .backoff(endless.clone())
                .throttle_backoff(endless.with_factor(1.5).unwrap())
                .jitter(Jitter::Full)
                .server_delays(ServerDelays::ClampedTo(Duration::MAX))
                .attempt_timeout(Duration::MAX)
                .deadline(Duration::MAX),
        ),
        (
            "many rules",
            (0..12).fold(builder().max_attempts(7), |builder, _| {
                builder.classifier(|_: &Attempt<'_>| None)
            }),
        ),
    ];
    built.map(|(name, builder)| (name, builder.build().unwrap())).into()
}

fn check_kept(name: &str, plain: &str, markdown: &str) {
    let kept_in = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/explain");
    for (form, text) in [("txt", plain), ("md", markdown)] {
        let path = kept_in.join(format!("{name}.{form}"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == expected,
            "{} differs; UPDATE_SNAPSHOTS=1 rewrites it\n--- kept\n{expected}\n--- now\n{text}",
            path.display()
        );
    }
}

#[test]
fn the_explanations_are_those_that_are_kept() {
    for (name, policy) in kept() {
        let explanation = policy.explain();
        check_kept(name, &explanation.to_string(), &format!("{explanation:#}"));
    }
}

#[test]
fn no_line_is_too_long_but_for_a_word_that_is() {
    for (name, policy) in kept().into_iter().chain(extreme()) {
        let text = policy.explain().to_string();
        for line in text.lines() {
            let fits = line.chars().count() <= WIDTH || !line.trim().contains(' ');
            assert!(fits, "{name}: {line}");
            assert_eq!(line, line.trim_end(), "{name}");
        }
        assert!(!text.contains("\n\n\n") && text.ends_with('\n'), "{name}: {text}");
    }
}

#[test]
fn markdown_has_no_line_that_is_neither_a_block_nor_whole() {
    for (name, policy) in kept().into_iter().chain(extreme()) {
        let text = format!("{:#}", policy.explain());
        let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(headings, ["### What is sent again", "### How long it waits", "### Limits"]);
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        for table in text.split("\n\n").filter(|block| block.starts_with('|')) {
            let counts: BTreeSet<_> = table.lines().map(bars).collect();
            assert_eq!(counts.len(), 1, "{name}: {table}");
        }
    }
}

#[test]
fn an_explanation_is_the_same_each_time_and_goes_anywhere() {
    fn check<T: Clone + std::fmt::Debug + Send + Sync + 'static>(_: &T) {}
    for (name, policy) in kept().into_iter().chain(extreme()) {
        let explanation: Explanation = policy.explain();
        check(&explanation);
        let mut report = String::new();
        write!(report, "{explanation}{}", policy.clone().explain()).unwrap();
        assert_eq!(report, explanation.clone().to_string().repeat(2), "{name}");
    }
}

#[test]
fn a_wait_that_may_be_none_says_so() {
    let policy = RetryPolicy::builder().jitter(Jitter::Full).build().unwrap();
    let text = policy.explain().to_string();
    assert!(text.contains("\nresend 2 of 2  0s to 200ms  0s to 2s\n"), "{text}");
}

#[test]
fn classifiers_are_not_called() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let policy = RetryPolicy::builder()
        .classifier(move |_: &Attempt<'_>| {
            counted.fetch_add(1, Ordering::Relaxed);
            None
        })
        .build()
        .unwrap();
    assert!(policy.explain().to_string().contains("one rule of the application's own"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// What the rows of the plain text say.
struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    fn of(policy: &RetryPolicy) -> Self {
        let text = policy.explain().to_string();
        let lines: Vec<_> = text.lines().collect();
        let rule = lines.iter().position(|line| line.starts_with("---")).unwrap();
        // Each column is as wide as its dashes.
        let mut spans = Vec::new();
        let mut at = 0;
        for dashes in lines[rule].split("  ") {
            spans.push(at..at + dashes.len());
            at += dashes.len() + 2;
        }
        let cells = |line: &str| -> Vec<String> {
            let cell = |span: &std::ops::Range<usize>| {
                let end = span.end.min(line.len());
                line.get(span.start..end).unwrap_or("").trim().to_owned()
            };
            spans.iter().map(cell).collect()
        };
        let head = lines.iter().position(|line| line.starts_with("outcome")).unwrap();
        let columns = cells(lines[head])[1..].to_vec();
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for line in lines[rule + 1..].iter().take_while(|line| !line.is_empty()) {
            let cells = cells(line);
            if line.starts_with("  ") {
                let (label, _) = rows.last_mut().unwrap();
                label.push(' ');
                label.push_str(&cells[0]);
            } else {
                rows.push((cells[0].clone(), cells[1..].to_vec()));
            }
        }
        Self { columns, rows }
    }

    /// The first row that fits.
    fn find(&self, fits: impl Fn(&str) -> bool) -> &[String] {
        let row = self.rows.iter().find(|(label, _)| fits(label));
        &row.unwrap_or_else(|| panic!("no row fits: {:?}", self.rows)).1
    }

    fn response(&self, status: u16, has_delay: bool, verdict: Option<bool>) -> &[String] {
        self.find(|label| {
            let (statuses, conditions) = label.split_once(" with ").unwrap_or((label, ""));
            is_among(status, statuses)
                && conditions.split(" and ").filter(|condition| !condition.is_empty()).all(
                    |condition| match condition {
                        "a server delay" => has_delay,
                        verdict_of if verdict_of.ends_with("true") => verdict == Some(true),
                        verdict_of if verdict_of.ends_with("false") => verdict == Some(false),
                        other => panic!("unknown condition {other}"),
                    },
                )
        })
    }

    fn fault(&self, kind: FaultKind) -> &[String] {
        self.find(|label| {
            let kinds = label.strip_prefix("fault: ");
            kinds.is_some_and(|kinds| kinds.split(", ").any(|listed| listed == kind.as_str()))
        })
    }

    fn cell<'a>(&self, row: &'a [String], class: RetryableMethod) -> &'a str {
        let names = match class {
            RetryableMethod::Idempotent => {
                &["idempotent", "every request", "every other request"][..]
            }
            RetryableMethod::IdempotentWithToken => &["with a key", "every request"],
            _ => &["other"],
        };
        &row[self.columns.iter().position(|column| names.contains(&&**column)).unwrap()]
    }
}

fn is_among(status: u16, label: &str) -> bool {
    label.split(", ").any(|part| {
        let number = |text: &str| text.parse::<u16>().unwrap();
        if part == "every other status" {
            true
        } else if part.starts_with("fault: ")
            || !part.starts_with(|c: char| c.is_ascii_digit() || c == 'b')
        {
            false
        } else if let Some(end) = part.strip_prefix("below ") {
            status < number(end)
        } else if let Some((first, last)) = part.split_once('-') {
            (number(first)..=number(last)).contains(&status)
        } else {
            number(part) == status
        }
    })
}

/// Asks the policy, and compares.
fn assert_agrees(
    name: &str,
    policy: &RetryPolicy,
    cell: &str,
    class: RetryableMethod,
    outcome: Outcome<'_>,
    is_proven: bool,
) {
    let attempt = Attempt::new(1, class, &Method::GET, outcome, SystemTime::UNIX_EPOCH)
        .with_sole_exchange(is_proven);
    let decision = policy.decide(&attempt, &mut seeded_jitter(7));
    let expected = match cell {
        "resend" => None,
        "if not processed" => {
            let fault_says_so = match outcome {
                Outcome::Fault { fault, .. } => fault == Fault::not_processed(fault.kind()),
                _ => true,
            };
            (!(is_proven && fault_says_so)).then_some("not_idempotent")
        }
        no => Some(no.strip_prefix("no: ").unwrap_or_else(|| panic!("unknown cell {no}"))),
    };
    let decided = decision.stop_reason().map(|reason| reason.as_str());
    assert_eq!(decided, expected, "{name}: {class} {outcome:?} proven {is_proven}: {decision}");
}

/// The same rules, with time and attempts for a resend.
fn with_room(policy: &RetryPolicy) -> RetryPolicy {
    policy.to_builder().max_attempts(2).deadline(None).build().unwrap()
}

/// The classes that a request can have under `policy`.
fn classes(policy: &RetryPolicy, key_fields: &[&str]) -> Vec<RetryableMethod> {
    let keyed: HeaderMap =
        key_fields.iter().map(|name| (field(name), HeaderValue::from_static("key"))).collect();
    let classes = [
        policy.method_class(&Method::GET, &HeaderMap::new()),
        policy.method_class(&Method::POST, &keyed),
        policy.method_class(&Method::POST, &HeaderMap::new()),
    ];
    let mut seen = Vec::new();
    for class in classes {
        if !seen.contains(&class) {
            seen.push(class);
        }
    }
    seen
}

#[test]
fn the_table_says_what_is_decided() {
    const VERDICTS: [&str; 4] =
        ["x-should-retry", "stripe-should-retry", "x-may-resend", "x-again"];
    for (name, policy) in kept().into_iter().chain(extreme()) {
        let table = Table::of(&policy);
        let policy = with_room(&policy);
        let long_key = "k".repeat(100);
        let classes = classes(&policy, &["idempotency-key", &long_key]);
        assert_eq!(table.columns.len(), classes.len(), "{name}");
        for kind in FAULTS {
            let row = table.fault(kind);
            for class in &classes {
                let cell = table.cell(row, *class);
                for fault in [Fault::unknown(kind), Fault::not_processed(kind)] {
                    for is_proven in [false, true] {
                        let outcome = Outcome::fault(fault);
                        assert_agrees(name, &policy, cell, *class, outcome, is_proven);
                    }
                }
            }
        }
        for verdict in [None, Some(true), Some(false)] {
            for has_delay in [false, true] {
                let mut headers = HeaderMap::new();
                if has_delay {
                    headers.insert("retry-after", HeaderValue::from_static("1"));
                }
                if let Some(verdict) = verdict {
                    for name in VERDICTS {
                        headers.insert(name, verdict.to_string().parse().unwrap());
                    }
                }
                for status in 100..=999 {
                    let row = table.response(status, has_delay, verdict);
                    let outcome =
                        Outcome::response(StatusCode::from_u16(status).unwrap(), &headers);
                    for class in &classes {
                        let cell = table.cell(row, *class);
                        assert_agrees(name, &policy, cell, *class, outcome, false);
                        assert_agrees(name, &policy, cell, *class, outcome, true);
                    }
                }
            }
        }
    }
}

#[test]
fn the_fields_are_listed_in_the_order_in_which_they_are_read() {
    let hint = |name: &str| DelayHint::new(field(name), HintUnit::Seconds);
    let profile = ApiProfile::standard()
        .hint_before(hint("x-first"))
        .hint(hint("x-last"))
        .hint_before(hint("x-second"));
    let policy = RetryPolicy::builder().profile(profile).build().unwrap();
    let text = policy.explain().to_string();
    let listed: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .filter_map(|line| Some(line.split_once(". ")?.1.split_once(':')?.0))
        .collect();
    assert_eq!(listed.len(), 5, "{text}");

    let mut headers = HeaderMap::new();
    for (at, name) in listed.iter().enumerate() {
        let seconds = match *name {
            "ratelimit" => format!("\"q\";r=0;t={}", at + 1),
            _ => (at + 1).to_string(),
        };
        headers.insert(field(name), seconds.parse().unwrap());
    }
    for (at, name) in listed.iter().enumerate() {
        let delay = policy.server_delay(&headers, SystemTime::UNIX_EPOCH);
        assert_eq!(delay, Some(secs(at as u64 + 1)), "{name}");
        headers.remove(*name);
    }
}

/// Each policy, and what its explanation says.
#[test]
fn the_words_fit_the_numbers() {
    let builder = RetryPolicy::builder;
    let verdict = |length: usize| {
        builder().profile(ApiProfile::standard().verdict_field(field(&"v".repeat(length))))
    };
    let only_if = |value: &str| {
        let hint = DelayHint::new(field("x-wait"), HintUnit::Seconds).only_if(field("x-is"), value);
        builder().profile(ApiProfile::standard().hint(hint))
    };
    for (label, policy, says, never_says) in [
        ("two in a row", builder().retry_statuses(statuses([502, 503])), "\n502, 503 ", "502-503"),
        ("three in a row", builder().retry_statuses(statuses(502..505)), "\n502-504 ", "502, "),
        (
            "a gap that a condition leaves",
            builder().profile(ApiProfile::github()).retry_statuses(statuses([500])),
            "\n403, 429 with a server delay ",
            "403-429",
        ),
        ("a verdict field of 24", verdict(24), &format!(" with {}:", "v".repeat(24)), "verdict of"),
        ("one of 25", verdict(25), "a verdict of true", "vvv: true"),
        (
            "what a row above says is not said again",
            builder().profile(ApiProfile::openai()).retry_statuses(statuses([400, 599])),
            "\n401-598 with x-should-retry: true ",
            "400-59",
        ),
        (
            "keys that make no difference",
            builder()
                .profile(ApiProfile::openai())
                .assume_idempotent(true)
                .honour_idempotency_keys(true),
            "  every request\n",
            "with a key",
        ),
        (
            "keys that make one",
            builder().profile(ApiProfile::stripe()).assume_idempotent(true),
            "every other request",
            "every request",
        ),
        (
            "and do not, where they are not honoured",
            builder()
                .profile(ApiProfile::stripe())
                .assume_idempotent(true)
                .honour_idempotency_keys(false),
            "every request",
            "every other request",
        ),
        ("six attempts", builder().max_attempts(6), "\nresend 5 of 5 ", "\n..."),
        ("seven", builder().max_attempts(7), "\nresend 6 of 6 ", "\n..."),
        ("eight", builder().max_attempts(8), "\n...", "resend 6 of 7"),
        ("no wait", builder().backoff(Backoff::constant(Duration::ZERO)), " 0s ", "0ns"),
        ("what a value may hide", only_if("a\u{1b}b\nc"), r#"x-is is "a\u{1b}b\nc""#, "\u{1b}"),
    ] {
        let text = policy.build().unwrap().explain().to_string();
        assert!(text.contains(says), "{label}: no {says:?} in\n{text}");
        assert!(!text.contains(never_says), "{label}: {never_says:?} in\n{text}");
        let resends: Vec<_> = text.lines().filter(|line| line.starts_with("resend ")).collect();
        let told: BTreeSet<_> = resends.iter().collect();
        assert_eq!(told.len(), resends.len(), "{label}: a row twice in\n{text}");
    }
    let ticks = only_if("0").build().unwrap();
    let profile = ApiProfile::standard().hint(DelayHint::new(field("a``b"), HintUnit::Seconds));
    let ticks = ticks.to_builder().profile(profile).build().unwrap();
    assert!(format!("{:#}", ticks.explain()).contains("``` a``b ```"));
}
