//! What the server saw, and what the caller got.

use std::time::{Duration, Instant};

use http::StatusCode;
use reqwest::Response;
use reqwest_typed_retry::RetryHistory;
use tokio::time::timeout;

use super::Result;
use super::contender::{Contender, Setup};
use super::request::Wanted;
use super::server::{Arrival, Script, Server};

/// Who has not ended by then is left alone. Twice the longest wait of all rows.
const PATIENCE: Duration = Duration::from_secs(8);

/// What a caller gets.
#[derive(Clone, Debug)]
pub enum Ended {
    /// Without a body, where that is cut.
    Answer {
        status: StatusCode,
        body: Option<String>,
        attempts_known: Option<usize>,
    },
    Failed {
        is_timeout: bool,
        is_connect: bool,
        status: Option<StatusCode>,
    },
    Waiting,
}

impl Ended {
    pub const TIMEOUT: Self = Self::Failed { is_timeout: true, is_connect: false, status: None };

    pub async fn of(sent: std::result::Result<Response, reqwest::Error>) -> Self {
        match sent {
            Ok(response) => Self::answer(response).await,
            Err(error) => Self::Failed {
                is_timeout: error.is_timeout(),
                is_connect: error.is_connect(),
                status: error.status(),
            },
        }
    }

    /// As [`reqwest_middleware::Error`] answers it.
    pub async fn of_chain(sent: reqwest_middleware::Result<Response>) -> Self {
        match sent {
            Ok(response) => Self::answer(response).await,
            Err(error) => Self::Failed {
                is_timeout: error.is_timeout(),
                is_connect: error.is_connect(),
                status: error.status(),
            },
        }
    }

    async fn answer(response: Response) -> Self {
        let history = response.extensions().get::<RetryHistory>();
        let attempts_known = history.map(|history| history.attempts().len());
        Self::Answer { status: response.status(), body: response.text().await.ok(), attempts_known }
    }

    /// In a word.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Answer { status, body: Some(_), .. } => status.as_str().to_owned(),
            Self::Answer { body: None, .. } => "cut body".to_owned(),
            Self::Failed { status: Some(status), .. } => format!("{} as an error", status.as_str()),
            Self::Failed { .. } => "error".to_owned(),
            Self::Waiting => "still waiting".to_owned(),
        }
    }
}

/// All that is known of one call.
#[derive(Clone, Debug)]
pub struct Seen {
    pub ended: Ended,
    pub arrivals: Vec<Arrival>,
    pub connections: usize,
    /// From the last arrival to the end.
    pub after_last: Duration,
}

impl Seen {
    /// # Errors
    /// If there is no server, or the contender does not build.
    pub async fn call(
        contender: Contender,
        script: Script,
        setup: &Setup,
        wanted: &Wanted,
    ) -> Result<Self> {
        let server = Server::start(script).await?;
        let caller = contender.caller(setup)?;
        let ended = timeout(PATIENCE, caller.call(wanted, &server.url())).await;
        let ended = ended.unwrap_or(Ok(Ended::Waiting))?;
        let (now, arrivals) = (Instant::now(), server.arrivals());
        let after_last = arrivals.last().map(|last| now - last.at).unwrap_or_default();
        Ok(Self { ended, arrivals, connections: server.connections(), after_last })
    }

    /// The requests that arrived.
    #[must_use]
    pub fn sends(&self) -> String {
        match self.arrivals.len() {
            1 => "1 send".to_owned(),
            sends => format!("{sends} sends"),
        }
    }

    /// How it ended, and after how many.
    #[must_use]
    pub fn outcome(&self) -> String {
        format!("{}, {}", self.ended.word(), self.sends())
    }

    /// Between the first two arrivals.
    #[must_use]
    pub fn gap(&self) -> Option<Duration> {
        match &self.arrivals[..] {
            [first, second, ..] => Some(second.at - first.at),
            _ => None,
        }
    }
}
