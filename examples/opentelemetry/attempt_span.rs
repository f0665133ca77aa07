//! The span of one attempt, for the `TracingMiddleware` of reqwest-tracing inside the retry layer.

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::Result;
use reqwest_tracing::ReqwestOtelSpanBackend;
use reqwest_typed_retry::{ResendCount, fault_source};
use tracing::Span;
use tracing::field::Empty;

/// An HTTP client span by the conventions of OpenTelemetry, with `http.request.resend_count`.
///
/// It leaves out `url.full` and the texts of errors, since both can hold secrets: reqwest's errors
/// show the whole URL. Numbers are `i64`: of all integers only that is a number in
/// tracing-opentelemetry, all others become text there.
///
/// An attempt that is dropped on its way, by a `head_timeout`, a deadline or the caller, has a span
/// like any other, but with neither a status nor an error.
pub(crate) struct AttemptSpan;

impl ReqwestOtelSpanBackend for AttemptSpan {
    fn on_request_start(request: &Request, extensions: &mut Extensions) -> Span {
        let (method, url) = (request.method().as_str(), request.url());
        let resends = i64::from(ResendCount::of(extensions));
        tracing::info_span!(
            "HTTP request",
            otel.name = method,
            otel.kind = "client",
            otel.status_code = Empty,
            http.request.method = method,
            http.request.resend_count = (resends > 0).then_some(resends), // not on the first attempt
            http.response.status_code = Empty,
            server.address = url.host_str(),
            server.port = url.port_or_known_default().map(i64::from),
            error.type = Empty,
        )
    }

    fn on_request_end(span: &Span, outcome: &Result<Response>, _: &mut Extensions) {
        let error_type = match outcome {
            Ok(response) => {
                let status = response.status();
                span.record("http.response.status_code", i64::from(status.as_u16()));
                let failed = status.is_client_error() || status.is_server_error();
                failed.then(|| status.as_str().to_owned())
            }
            // The retry layer's own word for it, one of few: `connect`, `timeout`, ...
            Err(error) => Some(fault_source::classify(error).kind().as_str().to_owned()),
        };
        if let Some(error_type) = error_type {
            span.record("error.type", error_type);
            span.record("otel.status_code", "ERROR");
        }
    }
}
