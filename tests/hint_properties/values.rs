//! What the properties are tried on.

use http::HeaderValue;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::reference::rfc3339;

/// 1900-01-01 and 9999-12-31 23:59:59, in seconds from the epoch.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) const FIRST: i64 = -2_208_988_800;
/// No `SystemTime` of wasm is earlier.
#[cfg(target_arch = "wasm32")]
pub(crate) const FIRST: i64 = 0;
pub(crate) const LAST: i64 = 253_402_300_799;

pub(crate) fn clock() -> impl Strategy<Value = (i64, u32)> {
    (FIRST..=LAST, 0..1_000_000_000_u32)
}

/// Local times whose every offset stays inside the years that are read.
pub(crate) fn instant() -> impl Strategy<Value = (i64, u32)> {
    (FIRST + 86_400..=LAST - 86_400, 0..1_000_000_000_u32)
}

pub(crate) fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0), 4 => -(24 * 60 - 1)..=24 * 60 - 1_i64]
}

/// What fits some unit.
fn valid_value() -> impl Strategy<Value = Vec<u8>> {
    let fields = "(19|20|99|18)[0-9]{2}-(0[0-9]|1[0-3])-(0[0-9]|1[0-9]|2[0-9]|3[0-2])[Tt]\
                  (0[0-9]|1[0-9]|2[0-4]):([0-5][0-9]|60):(00|59|60|61|[0-5][0-9])(\\.[0-9]{1,12})?\
                  (Z|z|[+-](0[0-9]|1[0-9]|2[0-4]):([0-5][0-9]|60))";
    let leap_second = "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T\
                       (23:59:60(Z|[+-]00:00)|00:59:60\\+01:00|18:29:60-05:30|23:59:60\\+01:00)";
    prop_oneof![
        "[0-9]{1,24}",
        "0{0,30}[0-9]{1,44}",
        "[0-9]{1,12}\\.[0-9]{1,24}",
        "[0-9]{1,24}\\.0{0,30}[0-9]{0,2}",
        "(179[0-9]{7}|179[0-9]{10})(\\.[0-9]{1,11})?",
        "([0-9]{1,4}(h|m|s|ms|us|\u{b5}s|\u{3bc}s|ns)){1,4}",
        "([0-9]{1,30}(\\.[0-9]{1,24})?(h|m|s|ms|us|ns)){1,3}",
        fields,
        leap_second,
        (instant(), offset(), 0..=9_usize)
            .prop_map(|((seconds, nanos), offset, digits)| rfc3339(seconds, nanos, offset, digits)),
    ]
    .prop_map(String::into_bytes)
}

/// Bytes of any kind that a field can carry, and near misses of what fits.
pub(crate) fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = || select((0_u8..=255).filter(|byte| is_field_byte(*byte)).collect::<Vec<_>>());
    let value = prop_oneof![
        1 => vec(byte(), 0..40),
        1 => "[0-9 .:TZhmsun+-]{0,24}".prop_map(String::into_bytes),
        4 => valid_value(),
        3 => (valid_value(), any::<Index>(), byte(), 0..3_u8).prop_map(mangle),
        1 => (valid_value(), any::<Index>(), select(&b"0123456789.:+-TZ"[..]), 0..3_u8)
            .prop_map(mangle),
    ];
    let space = || prop_oneof![3 => Just(""), 1 => select(&[" ", "\t", " \t "][..])];
    (space(), value, space())
        .prop_map(|(before, value, after)| [before.as_bytes(), &value, after.as_bytes()].concat())
}

fn is_field_byte(byte: u8) -> bool {
    HeaderValue::from_bytes(&[byte]).is_ok()
}

fn mangle((mut value, place, byte, how): (Vec<u8>, Index, u8, u8)) -> Vec<u8> {
    let place = place.index(value.len());
    match how {
        0 => value[place] = byte,
        1 => value.insert(place, byte),
        _ => drop(value.remove(place)),
    }
    value
}
