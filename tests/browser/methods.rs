//! Which methods are sent again, counted by the server.

use js_sys::Function;
use rand::Rng as _;
use reqwest::StatusCode;
use reqwest_typed_retry::{
    IdempotencyKey, KeyFormat, RetryRequestExt as _, RetryTracker, StopReason,
};
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::support::{came, client, methods, quick, url};

#[test]
async fn a_post_is_not_resent() {
    let tracker = RetryTracker::new();
    let client = client(quick());
    let request = client.post(url("post", "503~200")).body("pay").with_extension(tracker.clone());
    assert_eq!(request.send().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(methods("post").await, ["POST"]);
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::NotIdempotent);
}

#[test]
async fn a_put_is_resent_with_its_body() {
    let request = client(quick()).put(url("put", "503~503~200")).body("whole");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    let came = came("put").await;
    let sent: Vec<_> = came.iter().map(|came| (came.method.as_str(), came.body.as_str())).collect();
    assert_eq!(sent, [("PUT", "whole"); 3]);
}

#[test]
async fn a_post_with_a_key_is_resent_with_the_same_one() {
    let request = client(quick())
        .post(url("keyed", "503~200"))
        .body("pay")
        .idempotency_key(IdempotencyKey::new("order-17", KeyFormat::Bare).unwrap());
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    let keys: Vec<_> = came("keyed").await.into_iter().map(|came| came.key).collect();
    assert_eq!(keys, ["order-17"; 2]);
}

const COUNT_DRAWS: &str = "(() => {
    let draws = 0;
    const real = crypto.getRandomValues.bind(crypto);
    const counted = into => { draws += 1; return real(into); };
    Object.defineProperty(crypto, 'getRandomValues', { value: counted, configurable: true });
    return () => draws;
})()";

#[test]
async fn keys_and_waits_are_drawn_by_the_randomness_of_the_browser() {
    let draws = js_sys::eval(COUNT_DRAWS).unwrap().unchecked_into::<Function>();
    let draws = || draws.call0(&JsValue::NULL).unwrap().as_f64().unwrap();
    assert_eq!(draws(), 0.0);
    let client =
        client(quick().honour_idempotency_keys(true).generate_idempotency_keys(KeyFormat::Bare));
    client.post(url("drawn", "200")).body("pay").send().await.unwrap();
    assert!(draws() > 0.0);
    assert_eq!(came("drawn").await[0].key.len(), 36);
    // The generator of the waits: it takes a new seed after 64 KiB.
    let drawn = draws();
    rand::rng().fill_bytes(&mut [0; 1 << 17]);
    assert!(draws() > drawn);
}

#[test]
async fn a_key_that_is_made_is_made_once_for_a_call() {
    let client =
        client(quick().honour_idempotency_keys(true).generate_idempotency_keys(KeyFormat::Bare));
    for name in ["made-1", "made-2"] {
        let request = client.post(url(name, "503~200")).body("pay");
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    }
    let (one, other) = (came("made-1").await, came("made-2").await);
    assert_eq!((one.len(), other.len()), (2, 2));
    assert_eq!(one[0].key, one[1].key);
    assert_eq!(other[0].key, other[1].key);
    assert_ne!(one[0].key, other[0].key);
    assert!(one[0].key.len() >= 32, "{one:?}");
}
