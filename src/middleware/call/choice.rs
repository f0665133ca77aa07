//! Whose rules hold for a request, decided before its first send.

use std::borrow::Cow;

use http::HeaderName;
use reqwest::Request;

use crate::middleware::endpoint::EndpointId;
use crate::middleware::generator::System;
use crate::middleware::request_ext::RequestOptions;
use crate::middleware::retry_scope::RetryScope;
use crate::middleware::{RetryMiddleware, SharedSession};
use crate::policy::{IdempotencyKey, KeyFormat, RetryPolicy, RetryableMethod};

/// What was chosen.
pub(super) struct Choice<'a> {
    pub(super) policy: Cow<'a, RetryPolicy>,
    pub(super) endpoint: Option<EndpointId>,
    pub(super) class: RetryableMethod,
}

impl<'a> Choice<'a> {
    /// The request beats the scope, the scope beats the endpoint, the endpoint beats the client. A session is
    /// part of the request, and its policy stays what it was made with.
    ///
    /// Puts an idempotency key into the request, if it is to have one.
    #[inline]
    pub(super) fn make(
        retry: &'a RetryMiddleware,
        request: &mut Request,
        scope: Option<&RetryScope>,
        options: &mut Option<Box<RequestOptions>>,
    ) -> Self {
        let endpoint = retry.endpoints.find(request);
        let asked = options.as_deref();
        let brought = match (asked, scope) {
            (None, None) => None,
            _ => brought(asked, scope),
        };
        if let Some(policy) = &brought {
            retry.tell_unproven(policy);
        }
        let of_endpoint = || retry.endpoints.get(endpoint?)?.policy.as_ref();
        let mut policy = match brought {
            Some(brought) => Cow::Owned(brought),
            None => Cow::Borrowed(of_endpoint().unwrap_or(&retry.policy)),
        };
        if let Some(options @ RequestOptions { session: None, .. }) = asked {
            if options.sends_once || options.deadline.is_some() {
                policy = Cow::Owned(policy.for_one_request(options.sends_once, options.deadline));
            }
        }
        let class = class(&policy, request, options);
        Self { policy, endpoint, class }
    }
}

fn brought(asked: Option<&RequestOptions>, scope: Option<&RetryScope>) -> Option<RetryPolicy> {
    let session = asked.and_then(|options| options.session.as_ref());
    session
        .map(SharedSession::policy)
        .or_else(|| asked?.policy.clone())
        .or_else(|| scope?.own_policy().cloned())
}

#[inline]
fn class(
    policy: &RetryPolicy,
    request: &mut Request,
    options: &mut Option<Box<RequestOptions>>,
) -> RetryableMethod {
    let asked = options.as_ref().and_then(|options| options.idempotency_key.as_ref());
    let has_asked = asked.is_some();
    match asked {
        Some(key) => {
            let is_put = policy.put_idempotency_key(request.headers_mut(), key);
            let session = options.as_ref().and_then(|options| options.session.as_ref());
            if let Some(session) = session.filter(|_| is_put) {
                session.keep_key(request, key.clone());
            }
        }
        None => {
            let wanted = policy.wanted_key(request.method(), request.headers());
            if let Some((field, format)) = wanted.map(|(field, format)| (field.clone(), format)) {
                put_new_key(field, format, request, options);
            }
        }
    }
    let class = policy.method_class(request.method(), request.headers());
    let is_assumed = options.as_ref().is_some_and(|options| options.assume_idempotent);
    // A request that asks for a key says by that that its server honours keys.
    let is_keyed = has_asked && class == RetryableMethod::IdempotentWithToken;
    if (is_assumed || is_keyed) && !policy.is_repeatable(class) {
        RetryableMethod::Idempotent
    } else {
        class
    }
}

/// One key for the logical request: for all requests of a session, and if an outer middleware sends it once
/// more, for that pass, too.
fn put_new_key(
    field: HeaderName,
    format: KeyFormat,
    request: &mut Request,
    options: &mut Option<Box<RequestOptions>>,
) {
    // Not by the client's generator: with one that was seeded by hand, two processes would make the same
    // keys, and the server would take two orders for one.
    let make = || IdempotencyKey::generate(format, &mut System);
    let options = options.get_or_insert_default();
    options.belong_to(request);
    let key = match &options.session {
        Some(session) => session.new_key(request, make),
        None => options.new_key.get_or_insert_with(make).clone(),
    };
    request.headers_mut().insert(field, key.as_value().clone());
}
