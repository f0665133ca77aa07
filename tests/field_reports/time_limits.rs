//! Section I, as far as it needs a socket; the rest is in `tests/limits`.

use tokio::net::TcpListener;

use crate::support::{ms, no_waits};
use http::Method;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{RetryMiddleware, RetryTracker, StopReason};

// F096
#[tokio::test]
async fn a_read_timeout_while_the_body_is_on_its_way_proves_nothing() {
    for (method, attempts, stop) in [
        (Method::PUT, 3, StopReason::AttemptsExhausted),
        (Method::POST, 1, StopReason::NotIdempotent),
    ] {
        // It takes connections, and reads nothing.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let http = reqwest::Client::builder().no_proxy().read_timeout(ms(100)).build().unwrap();
        let retry = RetryMiddleware::new(no_waits().build().unwrap());
        let client = ClientBuilder::new(http).with(retry).build();
        let tracker = RetryTracker::new();
        let upload = client.request(method.clone(), url).body(vec![b'x'; 10 << 20]);
        let error = upload.with_extension(tracker.clone()).send().await.unwrap_err();
        assert!(error.is_timeout(), "{method}: {error:?}");
        let history = tracker.history().unwrap();
        assert_eq!(history.attempts().len(), attempts, "{method}: {history}");
        assert_eq!(history.stop_reason(), stop, "{method}: {history}");
    }
}
