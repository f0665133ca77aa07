//! The errors of the middleware's own.

use std::error::Error;
use std::fmt;

use crate::policy::{Fault, FaultKind};

type BoxError = Box<dyn Error + Send + Sync>;

/// An error that the retry layer itself makes; those of the network and of other middlewares are
/// passed on as they are.
///
/// It comes inside [`reqwest_middleware::Error::Middleware`]:
///
/// ```
/// use reqwest_middleware::Error;
/// use reqwest_typed_retry::RetryError;
///
/// fn body_is_missing(error: &Error) -> bool {
///     match error {
///         Error::Middleware(error) => error.downcast_ref().is_some_and(RetryError::is_body),
///         Error::Reqwest(_) => false,
///     }
/// }
/// ```
#[derive(Debug)]
pub struct RetryError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Body(BoxError),
}

impl RetryError {
    pub(super) fn body(cause: BoxError) -> Self {
        Self { kind: Kind::Body(cause) }
    }

    /// The error of the layer's own that `error` is, if it is one.
    pub(super) fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// What happened, as the policy sees it. What is inside is not asked: the call by which a factory
    /// gets its bytes is none of the request's attempts.
    pub(super) fn fault(&self) -> Fault {
        match self.kind {
            Kind::Body(_) => Fault::unknown(FaultKind::Invalid),
        }
    }

    /// Whether a [body factory](crate::RetryRequestExt::body_factory) failed: this attempt was not
    /// sent. Its own error is the [`source`](Error::source).
    #[must_use]
    pub fn is_body(&self) -> bool {
        matches!(self.kind, Kind::Body(_))
    }
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Body(_) => f.write_str("the request body could not be made"),
        }
    }
}

impl Error for RetryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::Body(cause) => Some(cause.as_ref()),
        }
    }
}

impl From<RetryError> for reqwest_middleware::Error {
    fn from(error: RetryError) -> Self {
        Self::middleware(error)
    }
}
