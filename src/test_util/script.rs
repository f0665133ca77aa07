//! The scripted final middleware.

use std::collections::VecDeque;
use std::fmt;
use std::future;
use std::iter;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::{Extensions, HeaderMap, Method};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Request, Response, ResponseBuilderExt as _, Url};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::time::Instant;

use super::Reply;
use super::reply::Kind;
use crate::ResendCount;

/// A final middleware: answers each request with the next reply of its list, and records it. It
/// opens no socket. Clones share the list and the record, so keep one and give one to the client.
#[derive(Clone, Debug)]
pub struct Script {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    replies: Mutex<Replies>,
    received: Mutex<Vec<Received>>,
    started: Instant,
    faults: Faults,
}

#[derive(Debug)]
enum Replies {
    List(VecDeque<Reply>),
    Always(Reply),
}

/// One request as a [`Script`] received it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received {
    /// When, in tokio's time since the script was made.
    pub at: Duration,
    /// Its method.
    pub method: Method,
    /// Its URL.
    pub url: Url,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body, unless that is a stream.
    pub body: Option<Vec<u8>>,
    /// Its own timeout.
    pub timeout: Option<Duration>,
    /// What [`ResendCount::of`] says of it.
    pub resend_count: u32,
}

/// The error of a request for which a [`Script`] has no reply left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptExhausted;

impl fmt::Display for ScriptExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the script has no reply left for this request")
    }
}

impl std::error::Error for ScriptExhausted {}

impl Script {
    /// These replies, in order; after the last one, [`ScriptExhausted`].
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(Replies::List(replies.into_iter().collect()))
    }

    /// The same reply to every request.
    #[must_use]
    pub fn always(reply: Reply) -> Self {
        Self::with(Replies::Always(reply))
    }

    fn with(replies: Replies) -> Self {
        Self {
            state: Arc::new(State {
                replies: Mutex::new(replies),
                received: Mutex::default(),
                started: Instant::now(),
                faults: Faults::default(),
            }),
        }
    }

    /// What has been received so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, request: &Request, extensions: &Extensions) {
        let body = match request.body() {
            Some(body) => body.as_bytes().map(<[u8]>::to_vec),
            None => Some(Vec::new()),
        };
        let received = Received {
            at: self.state.started.elapsed(),
            method: request.method().clone(),
            url: request.url().clone(),
            headers: request.headers().clone(),
            body,
            timeout: request.timeout().copied(),
            resend_count: ResendCount::of(extensions),
        };
        self.state.received.lock().unwrap_or_else(PoisonError::into_inner).push(received);
    }

    fn next_reply(&self) -> Result<Reply> {
        match &mut *self.state.replies.lock().unwrap_or_else(PoisonError::into_inner) {
            Replies::List(list) => {
                list.pop_front().ok_or_else(|| Error::middleware(ScriptExhausted))
            }
            Replies::Always(reply) => Ok(reply.clone()),
        }
    }

    async fn answer(&self, request: Request) -> Result<Response> {
        let Reply { kind, after } = self.next_reply()?;
        let faults = &self.state.faults;
        let timeout = request.timeout().copied();
        let comes_in_time = timeout.is_none_or(|timeout| after < timeout);
        if !comes_in_time || matches!(kind, Kind::Hang) {
            return faults.hang(request).await;
        }
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        match kind {
            Kind::Response { status, headers, body } => {
                let response = http::Response::builder().url(request.url().clone()).status(status);
                let mut response = response.body(body).map_err(Error::middleware)?;
                *response.headers_mut() = headers;
                Ok(Response::from(response))
            }
            Kind::DnsError => faults.send(request, UNRESOLVED).await,
            Kind::ConnectError => faults.send(request, UNREACHABLE).await,
            Kind::Hang => faults.hang(request).await,
            Kind::Error(make) => Err(make()),
        }
    }
}

impl Middleware for Script {
    fn handle<'script, 'ext, 'next, 'call>(
        &'script self,
        request: Request,
        extensions: &'ext mut Extensions,
        _next: Next<'next>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response>> + Send + 'call>>
    where
        'script: 'call,
        'ext: 'call,
        'next: 'call,
        Self: 'call,
    {
        Box::pin(async move {
            self.record(&request, extensions);
            self.answer(request).await
        })
    }
}

const UNRESOLVED: &str = "unresolved.test";
const UNREACHABLE: &str = "unreachable.test";
const SILENT: &str = "silent.test";

/// Makes reqwest's own errors: nobody else can build them. A resolver that never gives an address
/// keeps every request below it from opening a socket.
#[derive(Debug, Default)]
struct Faults {
    client: OnceLock<Client>,
}

impl Faults {
    /// Made when first needed: a client takes a while, and most scripts have no fault.
    fn client(&self) -> &Client {
        self.client.get_or_init(|| {
            let client = Client::builder().no_proxy().dns_resolver(NoAddress).build();
            client.unwrap_or_default()
        })
    }

    async fn send(&self, request: Request, host: &str) -> Result<Response> {
        let (url, timeout) = (request.url().clone(), request.timeout().copied());
        let mut fault = self.client().get(format!("http://{host}/"));
        if let Some(timeout) = timeout {
            fault = fault.timeout(timeout);
        }
        fault.send().await.map_err(|error| Error::Reqwest(error.with_url(url)))
    }

    async fn hang(&self, request: Request) -> Result<Response> {
        self.send(request, SILENT).await
    }
}

#[derive(Debug)]
struct NoAddress;

impl Resolve for NoAddress {
    fn resolve(&self, name: Name) -> Resolving {
        match name.as_str() {
            SILENT => Box::pin(future::pending()),
            UNREACHABLE => Box::pin(future::ready(Ok(Box::new(iter::empty()) as Addrs))),
            _ => Box::pin(future::ready(Err("the script resolves no name".into()))),
        }
    }
}
