//! Which methods are repeatable.

use http::{HeaderMap, Method};
use reqwest_typed_retry::{RetryPolicy, RetryableMethod};
use serde::Deserialize;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{run, same};

#[derive(Deserialize)]
struct MethodCase {
    method: String,
    idempotent: bool,
    auto_retry_default: bool,
}

#[test]
fn methods_have_the_class_of_the_registry() {
    run("method_safety.json", include_str!("../data/method_safety.json"), |case: &MethodCase| {
        let method: Method = case.method.parse().unwrap();
        let class = RetryPolicy::default().method_class(&method, &HeaderMap::new());
        let repeatable = class == RetryableMethod::Idempotent;
        same("repeatable", repeatable, case.auto_retry_default)?;
        // The only method that is registered as idempotent and never sent again.
        same("idempotent", repeatable || case.method == "PRI", case.idempotent)
    });
}
