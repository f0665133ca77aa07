//! Dates in `Retry-After`, from the first year to the last and beyond, beside dates in `Date`.

use std::time::{Duration, UNIX_EPOCH};

use reqwest_typed_retry::ApiProfile;

use crate::delays::{Asked, LONG, NOW, Row, check, check_by_clock, retry_after, seconds};

/// 9999-12-31 23:59:59.
const LAST: u64 = 253_402_300_799;
/// From 1900 to 1970.
const BEFORE_1970: u64 = 2_208_988_800;

const FIRST_DATE: &str = "Mon, 01 Jan 1900 00:00:00 GMT";
const LAST_DATE: &str = "Fri, 31 Dec 9999 23:59:59 GMT";

fn rows() -> Vec<Row> {
    let dated = |date: &str, value: &str, asked| {
        Row::new([("date", date.to_owned()), ("retry-after", value.to_owned())], asked)
    };
    let nothing = [
        "Sat, 01 Jan 0000 00:00:00 GMT",
        "Sun, 06 Nov 0094 08:49:37 GMT",
        "Sun, 31 Dec 1899 23:59:59 GMT",
        "Sat, 13 Sep 275760 00:00:00 GMT",
        "Sat, 01 Jan 10000 00:00:00 GMT",
        "Sun, 29 Nov -2026 12:00:00 GMT",
        "Sun, 29 Nov 2026 12:00:60 GMT",
        "Sun, 29 Nov 2026 24:00:00 GMT",
        "Sun, 29 Nov 2026 99:99:99 GMT",
        "Sun, 32 Nov 2026 12:00:00 GMT",
        "Sun, 29 Feb 2027 12:00:00 GMT",
        "Sun, 29 Nov 2026 12:00:00 GMT, Sun, 29 Nov 2026 12:02:00 GMT",
        "Sun, 29 No\u{e9} 2026 12:00:00 GMT",
        "2026-11-29T12:02:00Z",
        "+275760-09-13T00:00:00.000Z",
        "1795953720.5",
    ];
    let nothing = nothing.map(|value| retry_after(value, Asked::Nothing));
    let long = "Sun, 29 Nov 2026 12:00:00 GMT".repeat(LONG / 29);
    nothing
        .into_iter()
        .chain([
            retry_after(long, Asked::Nothing),
            retry_after(b"Sun, 29 Nov \xff\xfe26 12:00:00 GMT".to_vec(), Asked::Nothing),
            retry_after(FIRST_DATE, Asked::Now),
            retry_after("Wed, 31 Dec 1969 23:59:59 GMT", Asked::Now),
            retry_after("Wed, 31 Dec 1969 23:59:60 GMT", Asked::Now),
            retry_after("Sun, 29 Nov 2026 12:00:00 GMT", Asked::Now),
            retry_after("Sun, 29 Nov 2026 12:01:00 GMT", seconds(60)),
            retry_after("Sun, 29 Nov 2026 12:01:01 GMT", seconds(61)),
            retry_after("Sun Nov 29 12:02:00 2026", seconds(120)),
            // The latest that two digits can name, and a second more.
            retry_after("Sunday, 29-Nov-76 12:00:00 GMT", seconds(1_577_923_200)),
            retry_after("Sunday, 29-Nov-76 12:00:01 GMT", Asked::Now),
            // Leap seconds, that of the last day too.
            retry_after("Sun, 29 Nov 2026 23:59:60 GMT", seconds(12 * 3_600)),
            retry_after("Thu, 31 Dec 2026 23:59:60 GMT", seconds(2_808_000)),
            retry_after(LAST_DATE, seconds(LAST - NOW)),
            retry_after("Fri, 31 Dec 9999 23:59:60 GMT", seconds(LAST + 1 - NOW)),
            // As far apart as two dates can be.
            dated(FIRST_DATE, LAST_DATE, seconds(BEFORE_1970 + LAST)),
            dated(LAST_DATE, FIRST_DATE, Asked::Now),
            dated(LAST_DATE, LAST_DATE, Asked::Now),
            dated("Sat, 01 Jan 0000 00:00:00 GMT", LAST_DATE, seconds(LAST - NOW)),
            Row::new(
                [
                    ("age", "9".repeat(LONG)),
                    ("date", FIRST_DATE.to_owned()),
                    ("retry-after", LAST_DATE.to_owned()),
                ],
                seconds(LAST - NOW),
            ),
        ])
        .collect()
}

#[test]
fn a_date_asks_for_no_more_than_there_are_days() {
    check(&ApiProfile::standard(), &rows());
}

#[test]
fn no_clock_makes_a_wait_longer_than_the_limit() {
    let far = [0, LAST, 1 << 50].map(Duration::from_secs);
    let ahead = far.iter().filter_map(|by| UNIX_EPOCH.checked_add(*by));
    let back = far.iter().filter_map(|by| UNIX_EPOCH.checked_sub(*by));
    for now in ahead.chain(back) {
        check_by_clock(&ApiProfile::standard(), &rows(), now);
    }
}
