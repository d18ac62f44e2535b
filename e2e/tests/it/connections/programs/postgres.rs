//! A PostgreSQL server behind the address, and transactions that stay open.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, Talk, await_that};

use super::POSTGRES;
use crate::setup::LIMIT;

/// Starts the newest that is installed, without files outside of the lab.
const SCRIPT: [&str; 6] = [
    "bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n1) data=/run/lab/postgres",
    r#"mkdir "$data"; chown postgres: "$data"; cd "$data""#,
    r#"as="setpriv --reuid=postgres --regid=postgres --init-groups --""#,
    r#"$as "$bin/initdb" --pgdata="$data" --auth=trust --no-sync --locale=C --encoding=UTF8"#,
    r#"printf 'host all all %s trust\n' 0.0.0.0/0 ::/0 >>"$data/pg_hba.conf""#,
    r#"exec $as "$bin/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories= -c fsync=off"#,
];

/// Words of psql that leave only the rows.
const QUIET: [&str; 4] = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"];

/// The server, by itself.
pub(super) struct Database {
    address: IpAddr,
}

/// A session with a transaction under way.
pub(super) struct Transaction {
    session: Talk,
    vip: IpAddr,
    /// Process of the server that serves this session, and no other.
    process: String,
    rows: usize,
}

/// Starts a server in the network of a backend's and waits until it answers.
pub(super) async fn start(lab: &Lab, server: &str) -> anyhow::Result<Database> {
    lab.start_beside(server, "postgres", &["sh", "-ec", &SCRIPT.join("; ")])?;
    let (address, _) = lab.host("n3")?.pod_addresses(2).context("no address of a pod")?;
    let database = Database { address: address.into() };
    await_that("PostgreSQL answers", LIMIT, async || {
        database.ask(lab, "CREATE TABLE kept (vip text, row int)").await?;
        Ok(Some(()))
    })
    .await?;
    Ok(database)
}

impl Database {
    /// Asks without the address in between.
    async fn ask(&self, lab: &Lab, statement: &str) -> anyhow::Result<String> {
        let (host, port) = (self.address.to_string(), POSTGRES.to_string());
        let to = ["psql", "--host", &host, "--port", &port, "--username", "postgres", "--command", statement];
        Ok(lab.exec("cp", &[&to[..], &QUIET].concat()).await?.trim().to_owned())
    }
}

impl Transaction {
    /// Over this address.
    pub(super) async fn begin(lab: &Lab, vip: IpAddr) -> anyhow::Result<Self> {
        let (host, port) = (vip.to_string(), POSTGRES.to_string());
        let to =
            ["psql", "--host", &host, "--port", &port, "--username", "postgres", "--set=ON_ERROR_STOP=1"];
        let mut session = lab.talk(
            "c1",
            &format!("psql-{}", if vip.is_ipv4() { 4 } else { 6 }),
            &[&to[..], &QUIET].concat(),
        )?;
        session.say("BEGIN;").await?;
        let process = session.ask("SELECT pg_backend_pid();").await?;
        let mut transaction = Self { session, vip, process, rows: 0 };
        transaction.insert().await?;
        Ok(transaction)
    }

    /// Adds a row to what is to be committed, in the same session.
    pub(super) async fn insert(&mut self) -> anyhow::Result<()> {
        self.rows += 1;
        let statement =
            format!("INSERT INTO kept VALUES ('{}', {}) RETURNING pg_backend_pid();", self.vip, self.rows);
        self.session.expect(&statement, &self.process).await
    }

    /// What was begun is there, for others, when it is committed, and not before.
    pub(super) async fn commit(mut self, lab: &Lab, database: &Database) -> anyhow::Result<()> {
        let count = format!("SELECT count(*) FROM kept WHERE vip = '{}'", self.vip);
        let before = database.ask(lab, &count).await?;
        ensure!(before == "0", "{before} rows are there before they are committed");
        self.session.say("COMMIT;").await?;
        self.session.expect(&format!("{count};"), &self.rows.to_string()).await?;
        let after = database.ask(lab, &count).await?;
        ensure!(after == self.rows.to_string(), "{after} rows are there, not {}", self.rows);
        Ok(())
    }
}
