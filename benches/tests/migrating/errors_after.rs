use reqwest_middleware::ClientWithMiddleware;
use reqwest_typed_retry::RetryTracker;

/// Whether the connection did not come about, and how many retries there were.
pub async fn call(client: &ClientWithMiddleware, url: &str) -> Option<(bool, usize)> {
    let tracker = RetryTracker::new();
    let request = client.get(url).with_extension(tracker.clone());
    let error = request.send().await.err()?;
    Some((error.is_connect(), tracker.history()?.resends()))
}
