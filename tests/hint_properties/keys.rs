//! Idempotency keys.

use std::collections::HashSet;

use http::{HeaderMap, Method};
use proptest::prelude::*;
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{IdempotencyKey, KeyFormat, RetryPolicy, RetryableMethod, constants};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::config;

/// Any text, and much of what is near to a rule.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,40}",
        "[\x1f-\x7f]{0,6}",
        "[ \"\\\\]{0,6}",
        "[ \"]{0,3}[ -~]{0,3}[ \"\\\\]{0,3}"
    ]
}

/// The text of a Structured Fields String (RFC 9651 4.2.5).
fn unquoted(value: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = value.chars();
    if chars.next()? != '"' {
        return None;
    }
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(text),
            '\\' => text.push(chars.next().filter(|char| matches!(char, '"' | '\\'))?),
            char @ ' '..='~' => text.push(char),
            _ => return None,
        }
    }
}

/// The rule that a key breaks, in the order in which they are looked at.
fn broken_rule(key: &str, format: KeyFormat) -> Option<&'static str> {
    let is_printable = key.chars().all(|char| (0x20..0x7f).contains(&u32::from(char)));
    let is_empty = key.chars().all(|char| char == ' ' || char == '"');
    let has_space_around = key.starts_with(' ') || key.ends_with(' ');
    match format {
        _ if !is_printable => Some("it must be printable ASCII"),
        _ if is_empty => Some("it must not be empty"),
        KeyFormat::Bare if has_space_around => Some("the space around a bare key would get lost"),
        _ => None,
    }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn a_key_reads_back_as_it_was_or_breaks_a_rule(text in text()) {
        for format in [KeyFormat::Bare, KeyFormat::Quoted] {
            let key = match (IdempotencyKey::new(&text, format), broken_rule(&text, format)) {
                (Ok(key), None) => key,
                (Err(error), Some(rule)) => {
                    let length = text.chars().count();
                    let expected = format!("idempotency_key is {length} characters long, but {rule}");
                    prop_assert_eq!(error.to_string(), expected);
                    continue;
                }
                (key, rule) => panic!("{text:?} as {format:?} is {key:?}, expected {rule:?}"),
            };
            let value = key.as_value().to_str().unwrap();
            let read = match format {
                KeyFormat::Quoted => unquoted(value),
                _ => Some(value.to_owned()),
            };
            prop_assert_eq!(read.as_ref(), Some(&text));
            // A receiver takes the space around a value away.
            prop_assert_eq!(value.trim(), value);
            let field = constants::IDEMPOTENCY_KEY.parse().unwrap();
            let headers = HeaderMap::from_iter([(field, key.as_value().clone())]);
            let class = RetryPolicy::default().method_class(&Method::POST, &headers);
            prop_assert_eq!(class, RetryableMethod::IdempotentWithToken);
            prop_assert_eq!(format!("{key:?}"), "IdempotencyKey { .. }");
        }
    }
}

#[test]
fn a_hundred_thousand_random_keys_are_uuids_of_version_4_and_all_different() {
    let rng = &mut seeded_jitter(1);
    let mut seen = HashSet::new();
    let (mut set, mut clear) = (0_u128, 0_u128);
    for count in 0..100_000 {
        let format = if count % 2 == 0 { KeyFormat::Bare } else { KeyFormat::Quoted };
        let key = IdempotencyKey::generate(format, rng);
        let value = key.as_value().to_str().unwrap();
        let text = match format {
            KeyFormat::Quoted => unquoted(value).unwrap(),
            _ => value.to_owned(),
        };
        let groups: Vec<&str> = text.split('-').collect();
        let widths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        assert_eq!(widths, [8, 4, 4, 4, 12], "{text}");
        let is_hex = |char| matches!(char, '0'..='9' | 'a'..='f');
        assert!(groups.iter().all(|group| group.chars().all(is_hex)), "{text}");
        assert!(groups[2].starts_with('4'), "{text}");
        assert!(groups[3].starts_with(['8', '9', 'a', 'b']), "{text}");
        let bits = u128::from_str_radix(&groups.concat(), 16).unwrap();
        (set, clear) = (set | bits, clear | !bits);
        assert!(seen.insert(text), "a key came twice");
    }
    // All bits but the six of version and variant are drawn.
    assert_eq!((set & clear).count_ones(), 122);
}
