//! The scripted final middleware.

use std::collections::VecDeque;
use std::fmt;
use std::future;
use std::io;
use std::iter;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Extensions, HeaderMap, Method};
use hyper::body::{Bytes, Frame};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Body, Client, Request, Response, ResponseBuilderExt as _, Url};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::time::Instant;

use super::Reply;
use super::reply::Kind;
use crate::ResendCount;

/// A final middleware: answers each request with the next reply of its list, in the order of arrival, and records
/// it. It opens no socket. Clones share the list and the record, so keep one and give one to the client.
///
/// It stands for reqwest and the network. What the `reqwest::Client` itself does is not there: its timeouts, default
/// headers, redirects, cookies, decompression. Nor are faults of a connection that came about, and a
/// [`DeliveryProof`](crate::DeliveryProof) sees no exchange and proves nothing: for these take a server on loopback.
///
/// A script that is added before the retry layer answers in its place: one request, and no history.
///
/// ```
/// use reqwest::StatusCode;
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::RetryMiddleware;
/// use reqwest_typed_retry::test_util::{Reply, Script};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = |network: &Script| {
///     ClientBuilder::new(reqwest::Client::new())
///         .with(RetryMiddleware::default())
///         .with(network.clone())
///         .build()
/// };
/// // In turn.
/// let network = Script::new([Reply::connect_error(), Reply::status(StatusCode::OK)]);
/// client(&network).get("http://api.test/").send().await?;
/// assert_eq!((network.received().len(), network.replies_left()), (2, 0));
///
/// // Down.
/// let network = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE));
/// let response = client(&network).get("http://api.test/").send().await?;
/// assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
///
/// // By the request.
/// let network = Script::answering(|request| match request.url.host_str() {
///     Some("mirror.test") => Reply::status(StatusCode::OK),
///     _ => Reply::dns_error(),
/// });
/// assert!(client(&network).get("http://api.test/").send().await.is_err());
/// assert!(client(&network).get("http://mirror.test/").send().await.is_ok());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Script {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    replies: Replies,
    received: Mutex<Vec<Received>>,
    started: Instant,
}

enum Replies {
    List(Mutex<VecDeque<Reply>>),
    Made(Box<dyn Fn(&Received) -> Reply + Send + Sync>),
}

impl fmt::Debug for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(list) => f.debug_tuple("List").field(&*locked(list)).finish(),
            Self::Made(_) => f.write_str("Made"),
        }
    }
}

/// One request as a [`Script`] received it: one attempt, where a retry layer is outside of it.
///
/// ```
/// # use std::time::Duration;
/// # use reqwest_middleware::ClientBuilder;
/// use reqwest::{Method, StatusCode};
/// use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let policy = RetryPolicy::builder().attempt_timeout(Duration::from_secs(10)).build()?;
/// let network = Script::new([
///     Reply::status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 30),
///     Reply::status(StatusCode::OK),
/// ]);
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::new(policy))
/// #     .with(network.clone())
/// #     .build();
/// let put = client.put("http://api.test/users/7").header("x-tenant", "blue").body("hello");
/// put.send().await?;
/// let [first, second] = &network.received()[..] else { return Err("two attempts".into()) };
/// assert_eq!((&second.method, second.url.path()), (&Method::PUT, "/users/7"));
/// assert_eq!(second.headers["x-tenant"], "blue");
/// assert_eq!(second.body.as_deref(), Some(&b"hello"[..]));
/// assert_eq!(second.timeout, Some(Duration::from_secs(10))); // the attempt timeout
/// assert_eq!((first.resend_count, second.resend_count), (0, 1));
/// assert!(second.at - first.at >= Duration::from_secs(30));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received {
    /// When, in tokio's time since the script was made: make it inside the test.
    pub at: Duration,
    /// Its method.
    pub method: Method,
    /// Its URL.
    pub url: Url,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body, empty where there is none; `None` for a stream.
    pub body: Option<Vec<u8>>,
    /// Its own timeout.
    pub timeout: Option<Duration>,
    /// What [`ResendCount::of`] says of it: 0 for the first attempt.
    pub resend_count: u32,
}

/// The error of a request for which a [`Script`] has no reply left. The retry layer does not send it again.
///
/// ```
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// use reqwest_middleware::Error;
/// # use reqwest_typed_retry::RetryMiddleware;
/// use reqwest_typed_retry::test_util::{Reply, Script, ScriptExhausted};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let network = Script::new([Reply::status(StatusCode::SERVICE_UNAVAILABLE)]);
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// let Err(Error::Middleware(error)) = client.get("http://api.test/").send().await else {
///     return Err("one reply does not do for a resend".into());
/// };
/// let exhausted = error.downcast_ref::<ScriptExhausted>().ok_or("an error of the script's")?;
/// assert_eq!((exhausted.number, exhausted.url.path()), (2, "/"));
/// assert_eq!(
///     exhausted.to_string(),
///     "the script has no reply left for its request 2, GET http://api.test/"
/// );
/// # assert_eq!(network.received().len(), 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptExhausted {
    /// Which request of the script it is, counted from 1.
    pub number: usize,
    /// Its method.
    pub method: Method,
    /// Its URL.
    pub url: Url,
}

impl fmt::Display for ScriptExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, method, url } = self;
        write!(f, "the script has no reply left for its request {number}, {method} {url}")
    }
}

impl std::error::Error for ScriptExhausted {}

impl Script {
    /// These replies, in order; after the last one, [`ScriptExhausted`].
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(Replies::List(Mutex::new(replies.into_iter().collect())))
    }

    /// The same reply to every request.
    #[must_use]
    pub fn always(reply: Reply) -> Self {
        Self::answering(move |_| reply.clone())
    }

    /// What `make` replies to each request: by its URL, where several are called side by side, or by a state of
    /// its own. A panic of it, such as a failed `assert!`, reaches the call.
    #[must_use]
    pub fn answering(make: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(Replies::Made(Box::new(make)))
    }

    fn with(replies: Replies) -> Self {
        Self {
            state: Arc::new(State { replies, received: Mutex::default(), started: Instant::now() }),
        }
    }

    /// How many replies of the list nobody has had yet. 0 where there is no list: for
    /// [`always`](Self::always) and [`answering`](Self::answering).
    #[must_use]
    pub fn replies_left(&self) -> usize {
        match &self.state.replies {
            Replies::List(list) => locked(list).len(),
            Replies::Made(_) => 0,
        }
    }

    /// What has been received so far, the request that is being answered included.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        locked(&self.state.received).clone()
    }

    /// Records the request, and takes its reply.
    fn take(&self, request: &Request, extensions: &Extensions) -> Result<Reply> {
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
        let (number, left) = {
            let all = &mut *locked(&self.state.received);
            all.push(received.clone());
            // Before another request arrives.
            let left = match &self.state.replies {
                Replies::List(list) => locked(list).pop_front(),
                Replies::Made(_) => None,
            };
            (all.len(), left)
        };
        if let Replies::Made(make) = &self.state.replies {
            return Ok(make(&received));
        }
        let Received { method, url, .. } = received;
        left.ok_or_else(|| Error::middleware(ScriptExhausted { number, method, url }))
    }

    async fn answer(Reply { kind, after }: Reply, request: Request) -> Result<Response> {
        let timeout = request.timeout().copied();
        let comes_in_time = timeout.is_none_or(|timeout| after < timeout);
        if !comes_in_time || matches!(kind, Kind::Hang) {
            return hang(request).await;
        }
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        match kind {
            Kind::Response { status, headers, body, is_cut } => {
                let response = http::Response::builder().url(request.url().clone()).status(status);
                let body = if is_cut { Body::wrap(Cut(Some(body.into()))) } else { body.into() };
                let mut response = response.body(body).map_err(Error::middleware)?;
                *response.headers_mut() = headers;
                Ok(Response::from(response))
            }
            Kind::DnsError => fault(request, UNRESOLVED).await,
            Kind::ConnectError => fault(request, UNREACHABLE).await,
            Kind::Hang => hang(request).await,
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
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'call>>
    where
        'script: 'call,
        'ext: 'call,
        'next: 'call,
        Self: 'call,
    {
        Box::pin(async move {
            let reply = self.take(&request, extensions)?;
            Self::answer(reply, request).await
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A body whose connection ends after these bytes.
struct Cut(Option<Bytes>);

impl hyper::body::Body for Cut {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the script cuts the body");
        let bytes = self.get_mut().0.take().filter(|bytes| !bytes.is_empty());
        Poll::Ready(Some(bytes.map(Frame::data).ok_or_else(cut)))
    }
}

const UNRESOLVED: &str = "unresolved.test";
const UNREACHABLE: &str = "unreachable.test";
const SILENT: &str = "silent.test";

/// Makes reqwest's own errors: nobody else can build them. A resolver that never gives an address
/// keeps every request below it from opening a socket.
async fn fault(request: Request, host: &str) -> Result<Response> {
    // One for all scripts: a client takes a while to make.
    static CLIENT: LazyLock<Client> = LazyLock::new(|| {
        let client = Client::builder().no_proxy().dns_resolver(NoAddress).build();
        client.unwrap_or_default()
    });
    let (url, timeout) = (request.url().clone(), request.timeout().copied());
    let mut fault = CLIENT.get(format!("http://{host}/"));
    if let Some(timeout) = timeout {
        fault = fault.timeout(timeout);
    }
    fault.send().await.map_err(|error| Error::Reqwest(error.with_url(url)))
}

async fn hang(request: Request) -> Result<Response> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let nothing_ended_it =
        "no time limit, and not its caller, ended a request that the script left hanging";
    tokio::time::timeout(YEAR, fault(request, SILENT))
        .await
        .unwrap_or_else(|_| Err(Error::middleware(io::Error::other(nothing_ended_it))))
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
