//! What a bucket promises, whoever takes and gives at the same time.

use loom::sync::Arc;

use crate::bucket::{Bucket, TOKEN};
use crate::{all_of_model, at_once};

/// What an answer adds by default.
const REFILL: u64 = TOKEN / 5;

/// A bucket with this much in it; both in thousandths, what is missing in whole tokens.
fn bucket(level: u64, capacity: u64) -> Arc<Bucket> {
    let bucket = Bucket::full(capacity);
    while bucket.level() > level {
        assert!(bucket.take());
    }
    assert_eq!(bucket.level(), level, "only whole tokens can be missing");
    Arc::new(bucket)
}

type Work<T> = fn(&Bucket) -> T;

fn how_many<const N: usize>(answers: [bool; N]) -> u64 {
    answers.into_iter().map(u64::from).sum()
}

#[test]
fn as_many_takers_succeed_as_there_are_tokens() {
    for tokens in 0..=3 {
        loom::model(move || {
            let bucket = bucket(tokens * TOKEN + REFILL, 3 * TOKEN + REFILL);
            let taken = how_many(at_once(&bucket, [Bucket::take; 3]));
            assert_eq!((taken, bucket.level()), (tokens, REFILL));
        });
    }
}

#[test]
fn takers_who_come_back_get_no_more_than_there_is() {
    loom::model(|| {
        let bucket = bucket(3 * TOKEN, 3 * TOKEN);
        let two: Work<u64> = |bucket| u64::from(bucket.take()) + u64::from(bucket.take());
        let taken: u64 = at_once(&bucket, [two; 2]).into_iter().sum();
        assert_eq!((taken, bucket.level()), (3, 0));
    });
}

#[test]
fn a_token_that_is_given_back_can_be_taken_once() {
    let seen = all_of_model(|| {
        let bucket = bucket(0, TOKEN);
        let give: Work<bool> = |bucket| {
            bucket.give(TOKEN);
            false
        };
        let taken = how_many(at_once(&bucket, [give, Bucket::take, Bucket::take]));
        assert_eq!(bucket.level(), TOKEN - taken * TOKEN);
        taken
    });
    assert_eq!(seen, [0, 1]);
}

#[test]
fn takes_and_gives_leave_an_exact_balance() {
    loom::model(|| {
        let bucket = bucket(4 * TOKEN, 9 * TOKEN);
        let work: [Work<bool>; 3] =
            [Bucket::take, |bucket| bucket.give(TOKEN), |bucket| bucket.give(REFILL)];
        assert_eq!(at_once(&bucket, work), [true, false, false]);
        assert_eq!(bucket.level(), 4 * TOKEN + REFILL);
    });
}

#[test]
fn many_takes_and_gives_of_two_leave_an_exact_balance() {
    loom::model(|| {
        let bucket = bucket(4 * TOKEN, 9 * TOKEN);
        let work: [Work<bool>; 2] = [
            |bucket| bucket.take() && !bucket.give(REFILL) && bucket.take(),
            |bucket| !bucket.give(TOKEN) && bucket.take() && !bucket.give(REFILL),
        ];
        assert_eq!(at_once(&bucket, work), [true, true]);
        assert_eq!(bucket.level(), 2 * TOKEN + 2 * REFILL);
    });
}

#[test]
fn each_who_takes_and_gives_back_leaves_it_as_it_was() {
    loom::model(|| {
        let bucket = bucket(3 * TOKEN, 3 * TOKEN);
        at_once(&bucket, [(|bucket| bucket.take() && bucket.give(TOKEN)) as Work<bool>; 2]);
        assert!(bucket.is_full());
    });
}

#[test]
fn the_level_is_never_above_the_capacity_nor_below_nothing() {
    let seen = all_of_model(|| {
        let bucket = bucket(TOKEN, 2 * TOKEN);
        let work: [Work<u64>; 3] = [
            |bucket| u64::from(bucket.give(TOKEN + REFILL)),
            |bucket| u64::from(bucket.take()) + u64::from(bucket.take()),
            Bucket::level,
        ];
        at_once(&bucket, work)[2]
    });
    assert_eq!(seen, [0, REFILL, TOKEN, TOKEN + REFILL, 2 * TOKEN]);
}

#[test]
fn the_giver_who_fills_it_is_told() {
    // What is missing, who of three givers of one token each is told.
    for (missing, told) in [(4, 0), (3, 1), (2, 2), (1, 3)] {
        loom::model(move || {
            let bucket = bucket((4 - missing) * TOKEN, 4 * TOKEN);
            let give: Work<bool> = |bucket| bucket.give(TOKEN);
            assert_eq!(how_many(at_once(&bucket, [give; 3])), told);
            assert_eq!(bucket.is_full(), told > 0);
        });
    }
}

#[test]
fn if_it_is_full_in_the_end_somebody_was_told() {
    loom::model(|| {
        let bucket = bucket(TOKEN, 2 * TOKEN);
        let work: [Work<bool>; 3] = [
            |bucket| bucket.give(TOKEN),
            |bucket| bucket.give(TOKEN),
            |bucket| {
                bucket.take();
                false
            },
        ];
        let told = how_many(at_once(&bucket, work));
        assert!(told > 0, "the last giver fills it, or the one before");
        assert!(bucket.is_full() || bucket.level() == TOKEN);
    });
}
