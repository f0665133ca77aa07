//! The table of the policies.

use super::measures::Measures;
use super::table::Table;

/// One row for each policy.
pub(crate) fn report<'a>(results: impl IntoIterator<Item = (&'a str, &'a Measures)>) -> Table {
    let mut table = Table::new([
        "policy",
        "peak load",
        "extra sends, outage",
        "extra sends, all",
        "recovers in",
        "goodput, outage",
        "goodput, after",
        "mean wait",
        "work wasted",
    ]);
    for (name, measures) in results {
        let recovery = match measures.recovery {
            Some(seconds) => format!("{seconds} s"),
            None => format!("not in {} s", measures.watched),
        };
        table.row([
            name.to_owned(),
            format!("{:.2}", measures.peak),
            percent(measures.extra_in_outage),
            percent(measures.extra),
            recovery,
            percent(measures.goodput_in_outage),
            percent(measures.goodput_after),
            format!("{:.1} s", measures.wait),
            percent(measures.wasted),
        ]);
    }
    table
}

/// A share as a whole number of percent.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
