//! One attempt at a server, within its time.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::tls::TlsClient;
use super::{Answer, grpc, http};
use crate::vip::settings::{Question, Target};

/// The time of one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    limit: Duration,
    start: Instant,
}

impl Within {
    pub(super) fn from_now(limit: Duration) -> Self {
        Self { limit, start: Instant::now() }
    }

    pub(super) const fn start(&self) -> Instant {
        self.start
    }

    pub(super) const fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn end(&self) -> Instant {
        self.start + self.limit
    }
}

/// Stage that an attempt has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Connection,
    Tls,
    Answer,
}

/// Question to servers, and the state that is kept for it between attempts.
#[derive(Debug)]
pub(super) struct Probe {
    question: Question,
    /// TLS client of a question by HTTPS.
    tls: Option<TlsClient>,
}

impl Probe {
    pub(super) fn new(question: Question) -> Self {
        let tls = match &question {
            Question::Http(http) => http.tls.as_ref().map(|tls| TlsClient::new(tls.clone())),
            Question::Tcp | Question::Grpc { .. } => None,
        };
        Self { question, tls }
    }

    /// Asks this server.
    pub(super) async fn ask(&mut self, target: &Target, within: Within) -> Answer {
        let mut stage = Stage::Connection;
        let ended = timeout_at(within.end(), self.attempt(target, &mut stage)).await;
        ended.unwrap_or_else(|_| {
            let missing = match stage {
                Stage::Connection => "connection",
                Stage::Tls => "TLS handshake",
                Stage::Answer => "answer",
            };
            Err(format!("no {missing} within {:?}", within.limit))
        })
    }

    async fn attempt(&mut self, target: &Target, stage: &mut Stage) -> Answer {
        // What is wrong with files here shows whether or not the server is there.
        let tls = self.tls.as_mut().map(|tls| tls.connector(target)).transpose()?;
        let stream = connect(target).await.map_err(|error| format!("no connection: {error}"))?;
        match (&self.question, tls) {
            (Question::Tcp, _) => Ok(()),
            (Question::Grpc { service }, _) => {
                *stage = Stage::Answer;
                grpc::ask(stream, target, service).await
            }
            (Question::Http(page), None) => {
                *stage = Stage::Answer;
                http::ask(stream, target, page).await
            }
            (Question::Http(page), Some(tls)) => {
                *stage = Stage::Tls;
                let stream = tls.handshake(stream).await?;
                *stage = Stage::Answer;
                http::ask(stream, target, page).await
            }
        }
    }
}

/// Connects to the first address that accepts; returns the first error if none does.
async fn connect(target: &Target) -> io::Result<TcpStream> {
    let mut first = None;
    for address in target.addresses() {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}
