//! `Send`, where there are threads.

/// [`Send`] on every platform but a browser, where nothing leaves its thread and what waits for JavaScript could not:
/// there it is every type.
///
/// ```
/// use reqwest_typed_retry::{MaybeSend, ReplayBody};
///
/// // What a body factory may make, on every platform.
/// fn is_made_by_a_factory<F: Future<Output = ReplayBody> + MaybeSend + 'static>(_: &F) -> bool {
///     true
/// }
/// assert!(is_made_by_a_factory(&async { ReplayBody::new("a,b\n") }));
/// ```
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSend: Send {}

#[cfg(not(target_arch = "wasm32"))]
impl<T: Send> MaybeSend for T {}

/// Every type: [`Send`] on every platform but a browser.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSend {}

#[cfg(target_arch = "wasm32")]
impl<T> MaybeSend for T {}
