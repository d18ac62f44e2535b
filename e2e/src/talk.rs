//! A program on a host of the lab that is spoken to by lines, as a person does at a terminal.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::lab::Lab;

/// Time limit of an answer: longer than the retransmission of a TCP segment that is lost in a failover takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub struct Talk {
    what: String,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Lab {
    /// Starts a program on a host; what it complains goes to the log `<host>-<name>.log`.
    pub fn talk(&self, host: &str, name: &str, command: &[&str]) -> anyhow::Result<Talk> {
        self.host(host)?;
        let log = self.logs().join(format!("{host}-{name}.log"));
        let log = std::fs::File::create(&log).with_context(|| format!("writing {}", log.display()))?;
        let mut child = Command::from(self.sandbox.command(Some(host), command))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("starting nsenter(1)")?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).context("no pipes")?;
        let output = BufReader::new(output).lines();
        Ok(Talk { what: format!("{name} on {host}"), input, output, _child: child })
    }
}

impl Talk {
    /// Says a line.
    pub async fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let said = self.input.write_all(format!("{line}\n").as_bytes()).await;
        said.with_context(|| format!("saying {line:?} to {}", self.what))
    }

    /// Says a line, and returns the next one that it answers.
    pub async fn ask(&mut self, line: &str) -> anyhow::Result<String> {
        self.say(line).await?;
        let answer = timeout(PATIENCE, self.output.next_line()).await;
        let answer = answer.with_context(|| format!("{} does not answer {line:?}", self.what))??;
        answer.with_context(|| format!("{} ended at {line:?}", self.what))
    }

    /// Says a line, and checks what is answered.
    pub async fn expect(&mut self, line: &str, expected: &str) -> anyhow::Result<()> {
        let answer = self.ask(line).await?;
        ensure!(answer == expected, "{} answers {line:?} by {answer:?}, not {expected:?}", self.what);
        Ok(())
    }
}
