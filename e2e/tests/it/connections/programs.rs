//! What people use connections for, across the death of the node that announces the address and its return: a TLS session, a database
//! transaction, bulk transfers, flows of UDP.

mod bulk;
mod postgres;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, Talk, await_that, scenario};

use self::postgres::Transaction;
use super::{await_owner, await_replicated, replicate};
use crate::setup::{LIMIT, await_ingresses, dual_stack, lab};

/// The server of the backend.
const SERVER: &str = "web-n3";
const POSTGRES: u16 = 5432;
const TLS: [u16; 2] = [8443, 8444];
const BULK: u16 = 9000;
/// How many connections there are to them over each address; of the two of TLS each has one.
const PORTS: [(u16, usize); 4] = [(POSTGRES, 1), (BULK, 2), (TLS[0], 0), (TLS[1], 0)];
/// A name in the certificate.
const HOST: &str = "kubernetes.default.svc";

#[test]
fn tls_postgresql_bulk_transfers_and_udp_flows_go_on_when_the_active_dies_and_comes_back()
-> anyhow::Result<()> {
    scenario("connections-programs", lab(), async |lab| {
        let vips = served(lab).await?;
        let database = postgres::start(lab, SERVER).await?;
        let mut tls = start_tls(lab, &vips).await?;
        let mut transactions = Vec::new();
        for vip in &vips {
            transactions.push(Transaction::begin(lab, *vip).await?);
        }
        let transfers = bulk::start(lab, SERVER, &vips)?;
        let flows = flows(lab, &vips)?;
        let sources = await_told(lab, &vips, &flows).await?;
        go_on(&mut tls, &mut transactions, &flows, &sources).await?;
        let hand = lab.node("n1")?.take_cable()?;
        bulk::release(&transfers).await?;
        hand.pull()?;
        for transfer in &transfers {
            transfer.ensure_under_way()?;
        }
        await_owner(lab, &vips, "n2").await?;
        for transfer in transfers {
            transfer.finish()?;
        }
        go_on(&mut tls, &mut transactions, &flows, &sources).await.context("n1 has died")?;

        lab.node("n1")?.plug_cable()?;
        await_owner(lab, &vips, "n1").await?;
        go_on(&mut tls, &mut transactions, &flows, &sources).await.context("n1 is back")?;
        for transaction in transactions {
            transaction.commit(lab, &database).await?;
        }
        Ok(())
    })
}

async fn go_on(
    tls: &mut [Talk],
    transactions: &mut [Transaction],
    flows: &[UdpSocket],
    sources: &[String],
) -> anyhow::Result<()> {
    for session in tls {
        session.expect("still there", "ereht llits").await?;
    }
    for transaction in transactions {
        transaction.insert().await?;
    }
    for (flow, source) in flows.iter().zip(sources) {
        let seen = await_that("a flow of UDP is answered", LIMIT, async || ask(flow).map(Some)).await?;
        ensure!(seen == *source, "the backend sees {seen}, not {source}");
    }
    Ok(())
}

/// Windlass on `n1` and `n2`, of which the first announces, and a Service of both families with a port for each program.
async fn served(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    replicate(lab, &["n1", "n2"]).await?;
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", |service| {
        dual_stack(service);
        let ports = service.spec.get_or_insert_default().ports.get_or_insert_default();
        for (name, port) in [("postgres", POSTGRES), ("tls", TLS[0]), ("tls6", TLS[1]), ("bulk", BULK)] {
            let port = json!({"name": name, "protocol": "TCP", "port": port, "targetPort": port});
            ports.push(serde_json::from_value(port).expect("a port"));
        }
    })
    .await?;
    let vips = await_ingresses(lab, "web", 2).await?;
    await_replicated(lab, &vips, "n1", "n2").await?;
    Ok(vips)
}

/// A server for each address, which answers each line with its letters in the opposite order, and a session with each.
async fn start_tls(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<Vec<Talk>> {
    let file = |name: &str| lab.folder().join("pki").join(name).display().to_string();
    let (ca, certificate, key) = (file("ca.crt"), file("apiserver.crt"), file("apiserver.key"));
    let mut sessions = Vec::new();
    for (vip, port) in vips.iter().zip(TLS) {
        let (name, listens, to) = (format!("tls-{port}"), port.to_string(), SocketAddr::new(*vip, port));
        let server =
            ["openssl", "s_server", "-accept", &listens, "-cert", &certificate, "-key", &key, "-rev"];
        lab.start_beside(SERVER, &name, &server)?;
        let to = to.to_string();
        let certified = ["-CAfile", &ca, "-verify_return_error", "-verify_hostname", HOST];
        let client = [&["openssl", "s_client", "-quiet", "-connect", &to], &certified[..]].concat();
        // Once the server listens.
        let what = format!("a session of TLS with {to}");
        let session = await_that(&what, LIMIT, async || {
            let mut session = lab.talk("c1", &name, &client)?;
            session.expect("begin", "nigeb").await?;
            Ok(Some(session))
        });
        sessions.push(session.await?);
    }
    Ok(sessions)
}

fn flows(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<Vec<UdpSocket>> {
    let flow = |vip: &IpAddr| {
        let any: IpAddr =
            if vip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((*vip, SERVICE_PORT))?;
        // What is lost is said again.
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        anyhow::Ok(socket)
    };
    lab.within("c1", || vips.iter().map(flow).collect())?
}

/// Waits until the next node knows every connection, of which there are some, and the flows of UDP; whom the backend sees of these.
async fn await_told(lab: &Lab, vips: &[IpAddr], flows: &[UdpSocket]) -> anyhow::Result<Vec<String>> {
    await_that("n2 knows all connections", LIMIT, async || {
        let sources = flows.iter().map(ask).collect::<anyhow::Result<Vec<String>>>()?;
        for vip in vips {
            let known = lab.tracked("n2", Protocol::Tcp, *vip).await?;
            for (port, least) in PORTS {
                let open = lab.open_ports("c1", *vip, port).await?;
                ensure!(
                    open.len() >= least && open.is_subset(&known),
                    "{vip}:{port}: {open:?}, known {known:?}"
                );
            }
        }
        for (vip, flow) in vips.iter().zip(flows) {
            let known = lab.tracked("n2", Protocol::Udp, *vip).await?;
            ensure!(known.contains(&flow.local_addr()?.port()), "{vip}: {known:?}");
        }
        Ok(Some(sources))
    })
    .await
}

/// Whom the backend sees.
fn ask(flow: &UdpSocket) -> anyhow::Result<String> {
    flow.send(b"clientip")?;
    let mut answer = [0; 100];
    let length = flow.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
