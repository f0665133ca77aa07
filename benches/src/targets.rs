//! The targets, as lines that `benches/report` makes a table of.

/// Prints one. None of these may have a `|`.
pub fn print(what: &str, target: &str, measured: &str, is_met: bool) {
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("target: {what} | {target} | {measured} | {verdict}");
}
