//! The walk from an error to its causes, by type.

use std::error::Error;
use std::io;
use std::iter;
use std::sync::Arc;

/// Longer chains are cut: an error whose sources form a cycle must not hang the walk.
const MAX_DEPTH: usize = 64;

/// Each `T` among `error` and its causes, the outermost first.
pub(super) fn all<'a, T: Error + 'static>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a T> {
    iter::successors(Some(error), |error| cause(*error))
        .take(MAX_DEPTH)
        .filter_map(|error| error.downcast_ref())
}

/// The first `T` among `error` and its causes.
pub(super) fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    all(error).next()
}

/// reqwest asks all causes of an error, however many there are, and those of each of its own errors among them once
/// more: so many at most.
const MOST_OWN: usize = 8;

/// Whether reqwest's own questions about the causes of `error` have an answer soon.
fn ends_soon(error: &reqwest::Error) -> bool {
    let causes = || iter::successors(error.source(), |error| (*error).source()).take(MAX_DEPTH);
    causes().count() < MAX_DEPTH
        && causes().filter(|cause| cause.is::<reqwest::Error>()).count() <= MOST_OWN
}

/// Whether a time limit of reqwest's or of the system's passed.
pub(super) fn timed_out(error: &reqwest::Error) -> bool {
    ends_soon(error) && error.is_timeout()
}

/// Whether the name was not resolved.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn is_dns(error: &reqwest::Error) -> bool {
    ends_soon(error) && error.is_dns()
}

/// `source()` skips what matters: the payload of an `io::Error`, where TLS and nested io errors sit;
/// the io error inside one of h2's; and what is inside a transparent error, such as
/// `reqwest_middleware::Error` or a shared one.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().map(|payload| payload as _);
    }
    #[cfg(all(feature = "http2", not(target_arch = "wasm32")))]
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return error.get_io().map(|error| error as _);
    }
    if let Some(shared) = shared(error) {
        return Some(shared);
    }
    match error.downcast_ref() {
        Some(reqwest_middleware::Error::Reqwest(error)) => Some(error),
        // What `anyhow` was given in a box it shows to nobody but who asks for the box.
        Some(reqwest_middleware::Error::Middleware(error)) => Some(
            error
                .downcast_ref::<Box<dyn Error + Send + Sync>>()
                .map_or(error.as_ref(), |boxed| boxed.as_ref()),
        ),
        None => error.source(),
    }
}

/// What is inside an `Arc`, as requests that share one send return it.
fn shared<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<Arc<reqwest::Error>>() {
        Some(error.as_ref())
    } else if let Some(error) = error.downcast_ref::<Arc<reqwest_middleware::Error>>() {
        Some(error.as_ref())
    } else {
        error.downcast_ref::<Arc<dyn Error + Send + Sync>>().map(|error| error.as_ref() as _)
    }
}
