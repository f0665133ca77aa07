//! What the buckets of a client promise, while they are made and removed under the hands of those who
//! take and give. There is room for one here (`MAX_ORIGINS`), and the shared one.

use std::time::Duration;

use loom::sync::Arc;

use crate::bucket::TOKEN;
use crate::key::Key;
use crate::sick_origins::{Home, SickOrigins};
use crate::{all_of_model, at_once};

const IDLE_AFTER: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::from_secs(100);
const CAPACITY: u64 = 2 * TOKEN;
const REFILL: u64 = TOKEN / 5;

const ONE: Key = Key(1);
const OTHER: Key = Key(2);

fn origins() -> Arc<SickOrigins> {
    Arc::new(SickOrigins::new(CAPACITY, IDLE_AFTER))
}

type Work = fn(&SickOrigins) -> u64;

/// Runs all at the same time, and gives how much each of them took. No bucket is counted that is not
/// there, or the other way round.
fn run<const N: usize>(origins: &Arc<SickOrigins>, work: [Work; N]) -> [u64; N] {
    let taken = at_once(origins, work);
    assert_eq!(origins.count(), origins.recounted());
    taken
}

/// A resend that is sent: what it took.
fn resend(origins: &SickOrigins, key: Key, now: Duration) -> u64 {
    origins.take(key, now).map_or(0, |home| {
        origins.use_up(key, home, now);
        TOKEN
    })
}

/// A resend that is not sent after all.
fn resend_not_sent(origins: &SickOrigins, key: Key) -> u64 {
    let home = origins.take(key, NOW);
    home.map_or(0, |home| {
        origins.put_back(key, home, NOW);
        TOKEN
    })
}

/// A success at once.
fn answer(origins: &SickOrigins, key: Key) -> u64 {
    origins.give(key, Home::Own, REFILL, NOW);
    0
}

const SENT: Work = |origins| resend(origins, ONE, NOW);
const NOT_SENT: Work = |origins| resend_not_sent(origins, ONE);
const ANSWER: Work = |origins| answer(origins, ONE);

#[test]
fn tokens_that_come_back_leave_no_bucket() {
    loom::model(|| {
        let origins = origins();
        assert_eq!(run(&origins, [NOT_SENT, NOT_SENT]), [TOKEN, TOKEN]);
        assert_eq!(origins.count(), 0);
    });
}

/// Not even if the bucket is about to go, as it has just been filled.
#[test]
fn no_debit_is_lost() {
    loom::model(|| {
        let origins = origins();
        assert_eq!(run(&origins, [NOT_SENT, SENT]), [TOKEN, TOKEN]);
        assert_eq!((origins.count(), origins.level(ONE, NOW)), (1, CAPACITY - TOKEN));
    });
}

#[test]
fn no_more_is_taken_than_there_is() {
    loom::model(|| {
        let origins = origins();
        let taken: u64 = run(&origins, [SENT, |it| SENT(it) + SENT(it)]).iter().sum();
        assert_eq!(taken, CAPACITY);
        assert_eq!((origins.count(), origins.level(ONE, NOW)), (1, 0));
    });
}

#[test]
fn no_refill_is_lost() {
    loom::model(|| {
        let origins = origins();
        SENT(&origins);
        run(&origins, [ANSWER, SENT]);
        assert_eq!(origins.level(ONE, NOW), REFILL);
    });
}

/// As it comes before the debit or after it.
#[test]
fn an_answer_of_a_healthy_origin_adds_nothing_or_its_refill() {
    let levels = all_of_model(|| {
        let origins = origins();
        run(&origins, [ANSWER, SENT]);
        origins.level(ONE, NOW)
    });
    assert_eq!(levels, [CAPACITY - TOKEN, CAPACITY - TOKEN + REFILL]);
}

#[test]
fn those_without_room_share_one_bucket() {
    const OTHER_SENT: Work = |origins| resend(origins, OTHER, NOW);
    loom::model(|| {
        let origins = origins();
        SENT(&origins);
        assert_eq!(run(&origins, [OTHER_SENT, OTHER_SENT]), [TOKEN, TOKEN]);
        assert_eq!((origins.count(), origins.level(OTHER, NOW)), (2, 0));
    });
}

/// Here whoever comes first gets the only bucket of its own.
#[test]
fn the_shared_bucket_keeps_its_balance_too() {
    let levels = all_of_model(|| {
        let origins = origins();
        assert_eq!(run(&origins, [NOT_SENT, |it| resend(it, OTHER, NOW)]), [TOKEN, TOKEN]);
        assert_eq!(origins.count(), 1);
        // That the shared bucket is not full shows only while there is no room.
        origins.level(OTHER, NOW)
    });
    assert_eq!(levels, [CAPACITY - TOKEN, CAPACITY]);
}

#[test]
fn tokens_of_two_origins_that_come_back_leave_no_bucket() {
    loom::model(|| {
        let origins = origins();
        let taken = run(&origins, [NOT_SENT, |it| resend_not_sent(it, OTHER)]);
        assert_eq!(taken, [TOKEN, TOKEN]);
        assert_eq!(origins.count(), 0);
    });
}

/// One that was idle begins anew, once.
#[test]
fn all_who_find_it_idle_take_from_one_new_bucket() {
    const LATER: Work = |origins| resend(origins, ONE, NOW + IDLE_AFTER);
    loom::model(|| {
        let origins = origins();
        SENT(&origins);
        assert_eq!(run(&origins, [LATER, LATER]), [TOKEN, TOKEN]);
        assert_eq!(origins.level(ONE, NOW + IDLE_AFTER), 0);
    });
}

/// The token of a bucket that was idle comes back to the one that is there, if one is.
#[test]
fn a_token_that_comes_late_fills_a_bucket_and_no_more() {
    let levels = all_of_model(|| {
        let origins = origins();
        SENT(&origins);
        run(
            &origins,
            [
                |it| {
                    it.give(ONE, Home::Own, TOKEN, NOW + IDLE_AFTER);
                    0
                },
                |it| resend(it, ONE, NOW + IDLE_AFTER),
            ],
        );
        let level = origins.level(ONE, NOW + IDLE_AFTER);
        assert_eq!(origins.count(), usize::from(level < CAPACITY));
        level
    });
    assert_eq!(levels, [CAPACITY - TOKEN, CAPACITY]);
}
