//! Any fields of a response, under the built-in profiles and such as have hints of any unit and condition: a
//! profile asks for what the slow reading asks for, and for memory in proportion.

#![no_main]

use fuzz::memory::measure;
use fuzz::profiles::{Gate, Hint, Profile, UNITS, built_in, field};
use fuzz::source::Source;
use fuzz::{at, nanos, nanos_of, reading};
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

fn hint(source: &mut Source) -> Hint {
    let unit = UNITS[usize::from(source.byte()) % UNITS.len()];
    let gate = match source.byte() {
        byte @ ..96 => {
            Gate::OnlyIf(field(byte), String::from_utf8_lossy(source.text()).into_owned())
        }
        byte @ 96..160 => Gate::UnlessLeft(field(byte)),
        _ => Gate::Open,
    };
    // Mostly a field that is nobody else's.
    let field = match source.byte() {
        byte @ ..128 => field(byte),
        _ => field(0),
    };
    Hint { field, unit, gate }
}

fuzz_target!(|data: &[u8]| {
    let mut source = Source(data);
    let now = at(source.clock());
    let now_nanos = nanos_of(now);
    let kind = source.byte();
    let (api, profile) = if kind & 0x80 == 0 {
        built_in(kind)
    } else {
        let before = (0..kind & 3).map(|_| hint(&mut source)).collect();
        let after = (0..kind >> 2 & 3).map(|_| hint(&mut source)).collect();
        let profile = Profile { before, after, ..Profile::default() };
        (profile.build(), profile)
    };
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    while !source.is_empty() && headers.len() < 16 {
        let name = HeaderName::from_static(field(source.byte()));
        let value = source.value(now_nanos);
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            if name == "ratelimit" && reading::is_partly_padded(value.as_bytes()) {
                continue;
            }
            bytes += value.len();
            headers.append(name, value);
        }
    }

    let (asked, held) = measure(|| api.server_delay(&headers, now));
    let expected = profile.server_delay(&headers, now_nanos);
    let agrees = match (asked.map(nanos), expected) {
        (Some(asked), Some((least, most))) => (least..=most).contains(&asked),
        (asked, expected) => asked.is_none() && expected.is_none(),
    };
    assert!(
        agrees,
        "{headers:?} at {now_nanos} ns from 1970 ask for {asked:?}, expected {expected:?} by {profile:?}"
    );
    assert_eq!(api.server_delay(&headers, now), asked, "asked again");
    assert!(held <= 2 * bytes + 256, "{held} bytes for fields of {bytes}: {headers:?}");
});
