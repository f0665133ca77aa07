//! Any lines, `Date`, `Age` and clock: `retry_after` never panics, and says what the slow reading says.

#![no_main]

use std::fmt;

use fuzz::source::Source;
use fuzz::{at, nanos, nanos_of, reading};
use libfuzzer_sys::fuzz_target;
use reqwest_typed_retry::retry_after;

struct Shown<'a>(&'a [Vec<u8>], Option<&'a [u8]>, Option<&'a [u8]>, i128);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let lines = self.0.iter().map(|line| text(line)).collect::<Vec<_>>();
        let (date, age) = (self.1.map(text), self.2.map(text));
        write!(f, "lines {lines:?}, Date {date:?}, Age {age:?}, {} ns from 1970", self.3)
    }
}

fuzz_target!(|data: &[u8]| {
    let mut source = Source(data);
    let has = source.byte();
    let now = at(source.clock());
    let now_nanos = nanos_of(now);
    let date = (has & 1 != 0).then(|| source.value(now_nanos));
    let age = (has & 2 != 0).then(|| source.value(now_nanos));
    let mut lines = Vec::new();
    while !source.is_empty() && lines.len() < 8 {
        lines.push(source.value(now_nanos));
    }
    let (date, age) = (date.as_deref(), age.as_deref());
    let shown = Shown(&lines, date, age, now_nanos);

    let slices = || lines.iter().map(Vec::as_slice);
    let asked = retry_after(slices(), date, age, now);
    let expected = reading::retry_after(slices(), date, age, now_nanos);
    assert_eq!(asked.map(nanos), expected, "{shown}");

    assert_eq!(retry_after(slices(), date, age, now), asked, "asked again: {shown}");
    assert_eq!(retry_after(slices().rev(), date, age, now), asked, "other way around: {shown}");
    let twice = slices().chain(slices()).chain([&b"soon"[..]]);
    assert_eq!(retry_after(twice, date, age, now), asked, "twice, and one more: {shown}");
    // Of the lines one has the last word.
    let alone = slices().filter_map(|line| retry_after([line], date, age, now)).max();
    assert_eq!(alone, asked, "one by one: {shown}");
});
