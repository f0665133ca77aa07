//! A hook that panics: its call does so too, and nothing else is any different.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use reqwest_middleware::ClientWithMiddleware;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, AttemptRecord, Cooldown, ObservedCall, RetryBudget, RetryHistory, RetryMiddleware,
    RetryObserver, RetryPolicy, RetryPolicyBuilder, RetryRequestExt as _, RetryScope,
    SharedSession, Verdict,
};
use tokio::time::timeout;

use super::listening::Hooks;
use super::{URL, asking, ms, policy, reply, world};

/// Panics at this hook, when it is called for this time.
struct Panics {
    at: &'static str,
    left: AtomicU32,
}

impl Panics {
    fn hook(&self, name: &str) {
        if name == self.at && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            panic::resume_unwind(Box::new("the hook")); // without a message on stderr
        }
    }
}

impl RetryObserver for Panics {
    fn attempt_ended(&self, _: &ObservedCall<'_>, _: &AttemptRecord) {
        self.hook("ended");
    }

    fn resending(&self, _: &ObservedCall<'_>, _: &AttemptRecord) {
        self.hook("resending");
    }

    fn held_back(&self, _: &ObservedCall<'_>, _: Duration) {
        self.hook("held");
    }

    fn gave_up(&self, _: &ObservedCall<'_>, _: &RetryHistory) {
        self.hook("gave");
    }

    fn recovered(&self, _: &ObservedCall<'_>, _: &RetryHistory) {
        self.hook("recovered");
    }
}

/// A client whose second observer panics, and what its others were told.
struct Watched {
    client: ClientWithMiddleware,
    script: Script,
    budget: RetryBudget,
    before: Hooks,
    after: Hooks,
}

impl Watched {
    /// With 8 tokens of 10, and a cooldown that a call may have closed for two seconds.
    async fn new(
        (at, nth): (&'static str, u32),
        policy: RetryPolicyBuilder,
        is_closed: bool,
        replies: Vec<Reply>,
    ) -> Self {
        let budget = RetryBudget::builder().capacity(10).build().unwrap();
        let cooldown = Cooldown::by_origin();
        let builder = |policy: RetryPolicyBuilder| {
            let policy = policy.deadline(ms(60_000)).build().unwrap();
            RetryMiddleware::builder(policy).budget(budget.clone()).cooldown(cooldown.clone())
        };
        let other = builder(super::policy()).build().unwrap();
        let sick = Script::new([reply(503), reply(503), reply(503), asking(429, 2)]);
        let other = world::client(other, &sick);
        other.get(URL).send().await.unwrap();
        if is_closed {
            let once = RetryScope::new().policy(RetryPolicy::never());
            once.run(other.get(URL).send()).await.unwrap();
        }
        let (before, after) = (Hooks::default(), Hooks::default());
        let retry = builder(policy)
            .observer(before.clone())
            .observer(Panics { at, left: AtomicU32::new(nth) })
            .observer(after.clone());
        let script = Script::new(replies);
        let client = world::client(retry.build().unwrap(), &script);
        Self { client, script, budget, before, after }
    }

    /// In thousandths of a token.
    fn level(&self) -> u64 {
        (self.budget.level(&URL.parse().unwrap()) * 1_000.0).round() as u64
    }

    /// The hooks that all were told of, and the last one, which only those were that come first.
    fn told(&self, label: &str) -> (Vec<String>, String) {
        let names = |hooks: &Hooks| {
            let lines = hooks.lines().into_iter();
            lines.map(|line| line.split([' ', ':']).nth(2).unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (mut before, after) = (names(&self.before), names(&self.after));
        let last = before.pop().unwrap();
        assert_eq!(before, after, "{label}");
        (before, last)
    }
}

async fn panics(what: impl Future, label: &str) {
    let payload = AssertUnwindSafe(what).catch_unwind().await.map(|_| ()).expect_err(label);
    assert_eq!(payload.downcast_ref(), Some(&"the hook"), "{label}");
}

struct Case {
    label: &'static str,
    /// Where, and the how many-th call of it.
    at: (&'static str, u32),
    is_closed: bool,
    statuses: &'static [u16],
    /// Those that all are told of, before.
    told: &'static [&'static str],
    sent: usize,
    level: u64,
    /// When the call can be dropped at the same stage.
    dropped_at: Option<u64>,
}

impl Case {
    fn policy() -> RetryPolicyBuilder {
        // It does not wait for as long as the server asks; its client does.
        policy().classifier(|attempt: &Attempt<'_>| {
            let is_limited = attempt.outcome().status().is_some_and(|it| it == 429);
            is_limited.then_some(Verdict::Transient { delay: Some(ms(100)) })
        })
    }

    async fn world(&self, at: (&'static str, u32)) -> Watched {
        let later = [reply(503), reply(200)];
        let replies = self.statuses.iter().map(|status| match status {
            429 => asking(429, 2),
            status => reply(*status),
        });
        Watched::new(at, Self::policy(), self.is_closed, replies.chain(later).collect()).await
    }

    async fn check(&self) {
        let label = self.label;
        let world = self.world(self.at).await;
        assert_eq!(world.level(), 8_000, "{label}");
        panics(world.client.get(URL).send(), label).await;
        assert_eq!(world.script.received().len(), self.sent, "{label}: sent");
        assert_eq!(world.level(), self.level, "{label}: level");
        let (told, last) = world.told(label);
        assert_eq!(told, self.told, "{label}");
        assert_eq!(last, self.at.0, "{label}");

        // The next call is one like others.
        let told = (world.before.lines().len(), world.after.lines().len());
        tokio::time::sleep(ms(5_000)).await;
        for _ in self.sent..self.statuses.len() {
            let once = RetryScope::new().policy(RetryPolicy::never());
            once.run(world.client.get(URL).send()).await.unwrap();
        }
        let status = world.client.get(URL).send().await.unwrap().status();
        assert_eq!(status, 200, "{label}");
        let new = (world.before.lines().len() - told.0, world.after.lines().len() - told.1);
        assert_eq!(new.0, new.1, "{label}: all are told again");
        assert!(new.0 >= 4, "{label}: {new:?}");

        // It left what a call leaves that is dropped at that stage.
        if let Some(millis) = self.dropped_at {
            let world = self.world(("never", 0)).await;
            let call = timeout(ms(millis), world.client.get(URL).send()).await;
            assert!(call.is_err(), "{label}");
            assert_eq!(world.script.received().len(), self.sent, "{label}: sent, dropped");
            assert_eq!(world.level(), self.level, "{label}: level, dropped");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_hook_leaves_what_a_dropped_call_leaves() {
    const ALL: &[u16] = &[503, 503, 503];
    let case = |label, at, statuses, told| Case {
        label,
        at,
        is_closed: false,
        statuses,
        told,
        sent: 0,
        level: 0,
        dropped_at: None,
    };
    let cases = [
        // A resend that has not been sent gives its token back.
        Case {
            sent: 1,
            level: 8_000,
            dropped_at: Some(50),
            ..case("the first failure", ("ended", 1), ALL, &[])
        },
        Case {
            sent: 1,
            level: 8_000,
            dropped_at: Some(50),
            ..case("the first resend", ("resending", 1), ALL, &["ended"])
        },
        // One that has been sent is spent.
        Case {
            sent: 2,
            level: 7_000,
            dropped_at: Some(200),
            ..case("the second failure", ("ended", 2), ALL, &["ended", "resending"])
        },
        Case {
            sent: 2,
            level: 7_000,
            dropped_at: Some(200),
            ..case("the second resend", ("resending", 2), ALL, &["ended", "resending", "ended"])
        },
        Case {
            sent: 3,
            level: 6_000,
            ..case(
                "the last failure",
                ("ended", 3),
                ALL,
                &["ended", "resending", "ended", "resending"],
            )
        },
        Case {
            sent: 3,
            level: 6_000,
            ..case(
                "giving up",
                ("gave", 1),
                ALL,
                &["ended", "resending", "ended", "resending", "ended"],
            )
        },
        // The answer counts.
        Case { sent: 1, level: 8_200, ..case("a first answer", ("ended", 1), &[200], &[]) },
        Case {
            sent: 2,
            level: 8_200,
            ..case("a later answer", ("ended", 2), &[503, 200], &["ended", "resending"])
        },
        Case {
            sent: 2,
            level: 8_200,
            ..case("the recovery", ("recovered", 1), &[503, 200], &["ended", "resending", "ended"])
        },
        // The cooldown.
        Case {
            is_closed: true,
            sent: 0,
            level: 8_000,
            dropped_at: Some(1_000),
            ..case("held back before the first attempt", ("held", 1), &[], &[])
        },
        Case {
            sent: 1,
            level: 8_000,
            dropped_at: Some(1_000),
            ..case("held back before a resend", ("held", 1), &[429], &["ended", "resending"])
        },
    ];
    for case in cases {
        case.check().await;
    }
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Gets the head, and finds the body cut.
async fn get_and_cut(world: &Watched, session: &SharedSession) -> io::Result<()> {
    world.client.get(URL).retry_session(session).send().await.unwrap();
    session.resend_after(cut()).await
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_hook_leaves_a_session_as_it_was() {
    type Case = (&'static str, (&'static str, u32), u32, &'static [&'static str], u64);
    let cases: [Case; 5] = [
        ("the head", ("ended", 1), 3, &[], 8_200),
        ("the cut", ("ended", 2), 3, &["ended"], 8_000),
        ("the resend after the cut", ("resending", 1), 3, &["ended", "ended"], 8_000),
        ("the last cut", ("ended", 2), 1, &["ended"], 8_000),
        ("giving up", ("gave", 1), 1, &["ended", "ended"], 8_000),
    ];
    for (label, at, max_attempts, expected, level) in cases {
        let session = SharedSession::new(policy().max_attempts(max_attempts).build().unwrap());
        let replies = vec![reply(200), reply(200), reply(200)];
        let world = Watched::new(at, policy(), false, replies).await;
        panics(get_and_cut(&world, &session), label).await;
        assert_eq!((session.attempts(), world.level()), (1, level), "{label}");
        let (told, last) = world.told(label);
        assert_eq!(told, expected, "{label}");
        assert_eq!(last, at.0, "{label}");

        // It goes on.
        let again = get_and_cut(&world, &session).await;
        assert_eq!(again.is_ok(), max_attempts > 1, "{label}");
        assert_eq!(session.attempts(), max_attempts.min(2), "{label}");
        let token = if again.is_ok() { 1_000 } else { 0 };
        assert_eq!(world.level(), level - token, "{label}: held for the resend");
        drop(session);
        assert_eq!(world.level(), level, "{label}: and given back");
    }
}

/// The middleware's own resends in a session: counted when they are decided on.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_hook_leaves_a_session_as_a_dropped_call_does() {
    for (at, label) in [(("resending", 1), "panic"), (("never", 0), "drop")] {
        let session = SharedSession::new(policy().build().unwrap());
        let world = Watched::new(at, policy(), false, vec![reply(503), reply(200)]).await;
        let call = world.client.get(URL).retry_session(&session).send();
        match label {
            "panic" => panics(call, label).await,
            _ => drop(timeout(ms(50), call).await.unwrap_err()),
        }
        assert_eq!((session.attempts(), world.level()), (2, 8_000), "{label}");
        let call = world.client.get(URL).retry_session(&session).send();
        assert_eq!(call.await.unwrap().status(), 200, "{label}");
        assert_eq!(session.attempts(), 2, "{label}");
    }
}
