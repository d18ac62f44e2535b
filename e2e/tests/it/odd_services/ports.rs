//! Several protocols on one port number, and a hundred ports.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_e2e::{BACKEND_HTTP, BACKEND_UDP, Lab, ProxyMode, scenario};

use super::{
    client::{PATIENCE, Transport, ask_over, await_answered, await_refused},
    sctp::{SERVER_PORT, Server},
    watched::await_guarded,
};
use crate::setup::{LIMIT, ingresses, lab, services};

/// The port number that several protocols have.
const SAME: u16 = 53;
/// The first of a hundred.
const FIRST: u16 = 5000;
const HUNDRED: u16 = 100;

#[test]
fn one_port_number_is_answered_by_the_protocols_that_have_it_in_nftables_mode() -> anyhow::Result<()> {
    scenario("same-port-nft", lab(), async |lab| same_port(lab).await)
}

#[test]
fn one_port_number_is_answered_by_the_protocols_that_have_it_in_iptables_mode() -> anyhow::Result<()> {
    scenario("same-port-ipt", lab().proxy_mode(ProxyMode::Iptables), async |lab| same_port(lab).await)
}

async fn same_port(lab: &Lab) -> anyhow::Result<()> {
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend("web", &["n3"]).await?;
    let _server = Server::start(lab, "web-n3")?;
    let port = |transport| {
        let (name, target) = match transport {
            Transport::Tcp => ("TCP", BACKEND_HTTP),
            Transport::Udp => ("UDP", BACKEND_UDP),
            Transport::Sctp => ("SCTP", SERVER_PORT),
        };
        json!({"name": name.to_lowercase(), "protocol": name, "port": SAME, "targetPort": target})
    };
    let has = |transports: &[Transport]| transports.iter().copied().map(port).collect::<Vec<_>>();
    lab.load_balancer("web", |service| {
        let ports = json!(has(&[Transport::Tcp, Transport::Udp]));
        service.spec.get_or_insert_default().ports = serde_json::from_value(ports).ok();
    })
    .await?;
    let vip = lab.ingress("web", LIMIT).await?;
    // Each protocol comes and goes by itself; a number next to it is nobody's.
    for taken in [
        &[Transport::Tcp, Transport::Udp][..],
        &Transport::ALL,
        &[Transport::Udp, Transport::Sctp],
        &[Transport::Tcp],
    ] {
        set_ports(lab, has(taken)).await?;
        for transport in Transport::ALL {
            if taken.contains(&transport) {
                await_answered(lab, transport, vip, SAME, "web-n3").await?;
            } else {
                await_refused(lab, transport, vip, SAME).await?;
            }
            await_refused(lab, transport, vip, SAME + 1).await?;
        }
        ensure!(ingresses(lab, "web").await? == [vip], "the address changed");
    }
    Ok(())
}

#[test]
fn a_hundred_ports_are_answered_and_one_comes_and_goes_without_breaking_connections_on_the_others()
-> anyhow::Result<()> {
    scenario("hundred-ports", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3"]).await?;
        let port =
            |number: u16| json!({"name": format!("p{number}"), "port": number, "targetPort": BACKEND_HTTP});
        let mut numbers: Vec<u16> = (FIRST..FIRST + HUNDRED).collect();
        lab.load_balancer("web", |service| {
            let ports = numbers.iter().copied().map(port).collect();
            let spec = service.spec.get_or_insert_default();
            spec.ports = serde_json::from_value(Value::Array(ports)).ok();
            // With source ranges the guard knows every port by itself.
            spec.load_balancer_source_ranges = Some(vec!["192.0.2.0/24".into()]);
        })
        .await?;
        let vip = lab.ingress("web", LIMIT).await?;
        for node in ["n1", "n2"] {
            await_guarded(lab, node, vip, Transport::Tcp, &numbers).await?;
        }
        for &number in &numbers {
            await_answered(lab, Transport::Tcp, vip, number, "web-n3").await?;
        }

        let (first, last) = (FIRST, FIRST + HUNDRED - 1);
        let mut kept = Vec::new();
        for number in [first, last] {
            let target = SocketAddr::new(vip, number);
            let stream = lab.within("c1", || TcpStream::connect_timeout(&target, PATIENCE))?;
            kept.push(stream.with_context(|| format!("connecting to {target}"))?);
        }
        let mut still_there = || -> anyhow::Result<()> {
            for stream in &mut kept {
                let answer = ask_over(stream).with_context(|| format!("over {stream:?}"))?;
                ensure!(answer == "web-n3", "{answer:?} answered");
            }
            Ok(())
        };
        still_there()?;
        // One more, one less in the middle, and both back.
        let (more, middle) = (last + 1, FIRST + HUNDRED / 2);
        let all = numbers.clone();
        numbers.push(more);
        numbers.retain(|number| *number != middle);
        for (now, answered, refused) in [(&numbers, more, middle), (&all, middle, more)] {
            set_ports(lab, now.iter().copied().map(port).collect()).await?;
            await_answered(lab, Transport::Tcp, vip, answered, "web-n3").await?;
            await_refused(lab, Transport::Tcp, vip, refused).await?;
            for node in ["n1", "n2"] {
                await_guarded(lab, node, vip, Transport::Tcp, now).await?;
            }
            still_there()?;
            ensure!(ingresses(lab, "web").await? == [vip], "the address changed");
        }
        Ok(())
    })
}

/// Replaces the ports of `web`, and the endpoints' with them.
async fn set_ports(lab: &Lab, ports: Vec<Value>) -> anyhow::Result<()> {
    let change = Patch::Merge(json!({"spec": {"ports": ports}}));
    let service = services(lab, "default").patch("web", &PatchParams::default(), &change).await?;
    lab.write_endpoint_slices(&service).await
}
