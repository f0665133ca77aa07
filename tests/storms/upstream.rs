//! The servers behind a client, without sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_typed_retry::ResendCount;
use tokio::time::Instant;

/// A final middleware that answers by a rule and records what arrived.
#[derive(Clone)]
pub(crate) struct Upstream {
    rule: Arc<dyn Fn(&Arrival) -> Answer + Send + Sync>,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    made: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) url: Url,
    /// Since the upstream was made.
    pub(crate) at: Duration,
    pub(crate) resend: u32,
    /// How many arrived before it.
    pub(crate) index: usize,
    pub(crate) customer: Option<String>,
}

/// A status, and perhaps a `Retry-After` in seconds.
pub(crate) type Answer = (StatusCode, Option<&'static str>);

impl Upstream {
    pub(crate) fn new(rule: impl Fn(&Arrival) -> Answer + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule), arrivals: Arc::default(), made: Instant::now() }
    }

    /// The same answer to everything.
    pub(crate) fn always(status: StatusCode) -> Self {
        Self::new(move |_| (status, None))
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }
}

#[async_trait]
impl Middleware for Upstream {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        _: Next<'_>,
    ) -> Result<Response> {
        let customer = request.headers().get("x-customer");
        let arrival = {
            let mut arrivals = self.arrivals.lock().unwrap();
            let arrival = Arrival {
                url: request.url().clone(),
                at: self.made.elapsed(),
                resend: ResendCount::of(extensions),
                index: arrivals.len(),
                customer: customer.map(|name| name.to_str().unwrap().to_owned()),
            };
            arrivals.push(arrival.clone());
            arrival
        };
        let (status, retry_after) = (self.rule)(&arrival);
        let mut response = http::Response::builder().status(status);
        if let Some(retry_after) = retry_after {
            response = response.header("retry-after", retry_after);
        }
        Ok(response.body("").unwrap().into())
    }
}
