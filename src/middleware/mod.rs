//! The adapter: applies a policy inside a `reqwest-middleware` chain. All I/O is here.
//!
//! | question | file |
//! |---|---|
//! | what happens to a call? | `call` (`choice`: whose rules hold; `sending`: the loop, `plain`: where there is none; `waiting`; `judgement`: what follows an attempt; `ending`: who is told), `retry_middleware` (its entry), `builder` |
//! | what is sent again? | `replay`, `body_factory` |
//! | what goes round an attempt? | `attempt`; `attempt_scope` (what it knows of itself), `resend_count` |
//! | what lies between two? | `wait`; `gate` (longer, where an origin is closed); `drain`, `discarded` (what becomes of the response) |
//! | how is a body read inside the attempt? | `buffer` |
//! | what can hold for some requests only? | `endpoint` |
//! | what does a file say of a client, and what does that come to? | `settings`, `explain` |
//! | what limits a task? | `retry_scope` |
//! | what can a single request ask for? | `request_ext`, `shared_session`; `identity` (is it the same one again?) |
//! | what proves that it was not processed? | `proof`; `exchange` (what it sees) |
//! | what errors does it make itself? | `error` |
//! | what is told, and to whom? | `history` (the caller; `report`: for machines), `observe` (the operator) |
//! | where does randomness come from? | `generator` |
//! | what is other in a browser? | `browser` (no parts of responses), `maybe_send` (no threads); there is no `proof` |

mod attempt;
mod attempt_scope;
mod body_factory;
#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(not(target_arch = "wasm32"))]
mod buffer;
mod builder;
mod call;
#[cfg(not(target_arch = "wasm32"))]
mod discarded;
mod drain;
mod endpoint;
mod error;
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "no observer sees one"))]
mod exchange;
mod explain;
mod gate;
mod generator;
mod history;
mod identity;
mod maybe_send;
mod observe;
#[cfg(not(target_arch = "wasm32"))]
mod proof;
mod replay;
#[cfg(feature = "serde")]
mod report;
mod request_ext;
mod resend_count;
mod retry_middleware;
mod retry_scope;
#[cfg(feature = "serde")]
mod settings;
mod shared_session;
mod wait;

use std::pin::Pin;

pub use body_factory::ReplayBody;
pub use builder::RetryMiddlewareBuilder;
pub use drain::DrainLimits;
pub use endpoint::{Endpoint, EndpointBuilder};
pub use error::{RetryError, RetryErrorExt};
pub use explain::ClientExplanation;
pub use history::{AttemptOutcome, AttemptRecord, RetryHistory, RetryTracker};
pub use maybe_send::MaybeSend;
#[cfg(feature = "metrics")]
pub use observe::MetricsObserver;
pub use observe::{ObservedCall, RetryObserver};
#[cfg(not(target_arch = "wasm32"))]
pub use proof::DeliveryProof;
pub use request_ext::RetryRequestExt;
pub use resend_count::ResendCount;
pub use retry_middleware::RetryMiddleware;
pub use retry_scope::RetryScope;
#[cfg(feature = "serde")]
pub use settings::RetrySettings;
pub use shared_session::SharedSession;

#[cfg(target_arch = "wasm32")]
use browser::{buffer, discarded};

#[cfg(not(target_arch = "wasm32"))]
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
#[cfg(target_arch = "wasm32")]
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
