//! One attempt at a server, within its time.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::tls::TlsClient;
use super::{Answer, Failure, Question, Target, grpc, http};

/// The time of one attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within {
    limit: Duration,
    start: Instant,
}

impl Within {
    pub(crate) fn from_now(limit: Duration) -> Self {
        Self { limit, start: Instant::now() }
    }

    pub(crate) const fn start(&self) -> Instant {
        self.start
    }

    pub(crate) const fn limit(&self) -> Duration {
        self.limit
    }

    pub(crate) fn end(&self) -> Instant {
        self.start + self.limit
    }
}

/// Question to servers, and the state that is kept for it between attempts.
#[derive(Debug)]
pub(crate) struct Probe {
    question: Question,
    /// TLS client of a question by HTTPS.
    tls: Option<TlsClient>,
}

impl Probe {
    pub(crate) fn new(question: Question) -> Self {
        let tls = match &question {
            Question::Http(http) => http.tls.as_ref().map(|tls| TlsClient::new(tls.clone())),
            Question::Tcp | Question::Grpc { .. } => None,
        };
        Self { question, tls }
    }

    /// Returns the question.
    pub(crate) const fn question(&self) -> &Question {
        &self.question
    }

    /// Asks this server.
    pub(crate) async fn ask(&mut self, target: &Target, within: Within) -> Answer {
        let found = self.first_answer(&[*target], || within).await;
        found.map_or_else(|| Err(Failure::unwell("no address to ask at")), |(_, answer)| answer)
    }

    /// Asks these servers in turn until one answers, at each of their addresses within a time of its own. Returns that answer, or else the
    /// first failure, and the address that was asked; `None` if there are no servers.
    pub(crate) async fn first_answer(
        &mut self,
        servers: &[Target],
        within: impl Fn() -> Within,
    ) -> Option<(SocketAddr, Answer)> {
        let mut first = None;
        for server in servers {
            for address in server.addresses() {
                match self.attempt_within(server, address, within()).await {
                    silence @ Err(Failure::Silent { .. }) => drop(first.get_or_insert((address, silence))),
                    answer @ (Ok(()) | Err(Failure::Unwell { .. })) => return Some((address, answer)),
                }
            }
        }
        first
    }

    async fn attempt_within(&mut self, target: &Target, address: SocketAddr, within: Within) -> Answer {
        let mut missing = "connection";
        let ended = timeout_at(within.end(), self.attempt(target, address, &mut missing)).await;
        ended.unwrap_or_else(|_| {
            Err(Failure::Silent { missing, cause: format!(" within {:?}", within.limit()) })
        })
    }

    async fn attempt(&mut self, target: &Target, address: SocketAddr, stage: &mut &'static str) -> Answer {
        // What is wrong with files here shows whether or not the server is there.
        let tls = self.tls.as_mut().map(|tls| tls.connector(target)).transpose().map_err(Failure::unwell)?;
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| Failure::Silent { missing: "connection", cause: format!(": {error}") })?;
        match (&self.question, tls) {
            (Question::Tcp, _) => Ok(()),
            (Question::Grpc { service }, _) => {
                *stage = "answer";
                grpc::ask(stream, target, service).await
            }
            (Question::Http(page), None) => {
                *stage = "answer";
                http::ask(stream, target, page).await
            }
            (Question::Http(page), Some(tls)) => {
                *stage = "TLS handshake";
                let stream = tls.handshake(stream).await?;
                *stage = "answer";
                http::ask(stream, target, page).await
            }
        }
    }
}
