//! The light variant and its faults.

use std::{
    net::{IpAddr, Ipv4Addr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use windlass_e2e::{BACKEND_HTTP, BACKEND_UDP, Direction, Lab, Mac, Protocol, await_that, scenario};

use crate::setup::dual_stack;

const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn light_lab_serves_a_service_through_real_kube_proxies() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light();
    scenario("light-serves", builder, async |lab| {
        let nodes = Api::<Node>::all(lab.client()).list(&ListParams::default()).await?;
        assert_eq!(nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["n1", "n2"]);

        lab.backend("web", &["n1", "n2"]).await?;
        let service = lab.load_balancer("web", dual_stack).await?;
        let spec = service.spec.context("a Service without spec")?;
        let node_port = spec.ports.context("no ports")?[0].node_port.context("no node port")?;
        let node_port = u16::try_from(node_port)?;
        // Through n1's kube-proxy a client reaches the servers of both nodes: pods have routes.
        let n1 = lab.host("n1")?;
        for address in [IpAddr::from(n1.address), n1.ipv6().into()] {
            let mut missing: Vec<&str> = vec!["web-n1", "web-n2"];
            await_that(&format!("both servers answer on n1's node port at {address}"), LIMIT, async || {
                let answer = lab.curl("c1", address, node_port).await?;
                missing.retain(|server| *server != answer);
                ensure!(missing.is_empty(), "{answer} answered, not yet {missing:?}");
                Ok(Some(()))
            })
            .await?;
        }
        assert_eq!(lab.neighbours("c1", n1.ipv6().into()).await?, [n1.mac()]);
        assert_eq!(lab.neighbours("c1", "2001:db8::99".parse()?).await?, []);
        Ok(())
    })
}

#[test]
fn uninitialized_nodes_have_the_taint_of_an_external_cloud_provider_and_no_address() -> anyhow::Result<()> {
    let builder = Lab::builder().light().uninitialized();
    scenario("light-uninitialized", builder, async |lab| {
        let node = Api::<Node>::all(lab.client()).get("n1").await?;
        let taints = node.spec.context("no spec")?.taints.unwrap_or_default();
        let keys: Vec<&str> = taints.iter().map(|taint| &*taint.key).collect();
        assert_eq!(keys, ["node.cloudprovider.kubernetes.io/uninitialized"]);
        assert_eq!(node.status.context("no status")?.addresses.unwrap_or_default(), []);
        Ok(())
    })
}

#[test]
fn service_accounts_of_windlass_have_only_the_rights_they_are_given() -> anyhow::Result<()> {
    scenario("light-rbac", Lab::builder().light(), async |lab| {
        let kubeconfig = lab.kubeconfig("agent").display().to_string();
        let question = ["auth", "can-i", "list", "nodes", "--kubeconfig", &kubeconfig];
        ensure!(lab.kubectl(&question).await.is_err(), "an agent without a role may list nodes");
        lab.kubectl(&["create", "clusterrole", "agent", "--verb=list", "--resource=nodes"]).await?;
        let account = "--serviceaccount=windlass-system:windlass-agent";
        lab.kubectl(&["create", "clusterrolebinding", "agent", "--clusterrole=agent", account]).await?;
        await_that("the role is in force", LIMIT, async || {
            let answer = lab.kubectl(&question).await?;
            Ok((answer.trim() == "yes").then_some(()))
        })
        .await
    })
}

#[test]
fn faults_hit_what_they_name_and_end_when_told() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light();
    scenario("light-faults", builder, async |lab| {
        lab.backend("web", &["n1", "n2"]).await?;
        let (n1, n2) = (lab.node("n1")?, lab.node("n2")?);
        let (first, second) = (n1.address(), n2.address());
        let reaches = async |address| {
            let address = format!("{address}");
            lab.exec("c1", &["ping", "-c", "1", "-W", "1", &address]).await.is_ok()
        };
        ensure!(reaches(first).await && reaches(second).await, "both nodes must answer at first");
        assert_eq!(lab.neighbours("c1", first.into()).await?, [n1.mac()]);

        n1.pull_cable()?;
        let carrier = lab.exec("n1", &["ip", "-o", "link", "show", "eth0"]).await?;
        ensure!(carrier.contains("NO-CARRIER"), "the node must see the cable pulled: {carrier}");
        ensure!(!reaches(first).await && reaches(second).await, "only n1 is cut off");
        assert_eq!(lab.neighbours("c1", first.into()).await?, Vec::<Mac>::new());
        n1.plug_cable()?;
        await_that("n1 is back", LIMIT, async || Ok(reaches(first).await.then_some(()))).await?;

        for direction in [Direction::Incoming, Direction::Outgoing] {
            n1.lose(direction, 100)?;
            ensure!(!reaches(first).await && reaches(second).await, "{direction:?} packets of n1 are lost");
            n1.lose_nothing(direction)?;
            ensure!(reaches(first).await, "{direction:?} packets of n1 arrive again");
        }

        lab.partition(&["c1", "n1"])?;
        ensure!(reaches(first).await && !reaches(second).await, "c1 and n1 are on one side, n2 on the other");
        lab.heal()?;
        ensure!(reaches(second).await, "the partition has healed");
        multicast_is_lost_where_it_is_filtered(lab, first, second).await?;

        n2.power_off().await?;
        let limit = Duration::from_secs(10);
        await_that("n2's server is dead", limit, async || {
            let processes = lab.exec("cp", &["ps", "-e", "-o", "args"]).await?;
            Ok((processes.matches("netexec").count() == 1).then_some(()))
        })
        .await?;
        ensure!(reaches(first).await && !reaches(second).await, "n2 is off, n1 is not");
        Ok(())
    })
}

/// What n1 sends by multicast of VRRP is lost on its way to n2, and not to c1, until the filter is gone.
async fn multicast_is_lost_where_it_is_filtered(lab: &Lab, n1: Ipv4Addr, n2: Ipv4Addr) -> anyhow::Result<()> {
    let group = Ipv4Addr::new(224, 0, 0, 18);
    let listen = |host: &str, own: Ipv4Addr| {
        lab.within(host, || {
            let socket = UdpSocket::bind((group, 0))?;
            socket.join_multicast_v4(&group, &own)?;
            socket.set_nonblocking(true)?;
            anyhow::Ok((socket.local_addr()?.port(), socket))
        })?
    };
    let (at_node, outside) = (listen("n2", n2)?, listen("c1", lab.host("c1")?.address)?);
    let sender = lab.within("n1", || UdpSocket::bind((n1, 0)))??;
    let hears = |(_, socket): &(u16, UdpSocket)| socket.recv(&mut [0; 8]).is_ok();
    let send = |(port, _): &(u16, UdpSocket)| sender.send_to(b"n1", (group, *port));
    lab.filter_multicast_on(&[("n1", "n2")])?;
    await_that("c1 hears n1", LIMIT, async || {
        send(&at_node)?;
        send(&outside)?;
        Ok(hears(&outside).then_some(()))
    })
    .await?;
    ensure!(!hears(&at_node), "n2 hears n1");
    lab.filter_multicast(false)?;
    await_that("n2 hears n1", LIMIT, async || {
        send(&at_node)?;
        Ok(hears(&at_node).then_some(()))
    })
    .await
}

#[test]
fn api_server_restart_keeps_data_port_and_credentials() -> anyhow::Result<()> {
    scenario("light-api-restart", Lab::builder().light(), async |lab| {
        let maps: Api<ConfigMap> = Api::default_namespaced(lab.client());
        let mut map = ConfigMap::default();
        map.metadata.name = Some("kept".into());
        let made = maps.create(&PostParams::default(), &map).await?;
        lab.stop_api_server().await?;
        ensure!(maps.get("kept").await.is_err(), "nobody can answer while the API server is stopped");
        lab.start_api_server().await?;
        assert_eq!(maps.get("kept").await?.uid(), made.uid());
        Ok(())
    })
}

#[test]
fn probe_measures_an_outage_and_names_who_answers() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(1).client("c1").light();
    scenario("light-probe", builder, async |lab| {
        lab.backend("web", &["n1"]).await?;
        // The pods' network is not the clients'; for this test one gets a way to it.
        let node = lab.node("n1")?;
        let gateway = node.address().to_string();
        lab.exec("c1", &["ip", "route", "add", "203.0.113.0/27", "via", &gateway]).await?;
        let server = Ipv4Addr::new(203, 0, 113, 2);
        for (protocol, port) in [(Protocol::Udp, BACKEND_UDP), (Protocol::Tcp, BACKEND_HTTP)] {
            let probe = lab.probe("c1", protocol, server, port, Duration::from_millis(1))?;
            // The pull is a condition for the gap, and each ping that fails takes its whole second.
            await_that("the server answers", LIMIT, async || {
                lab.curl("c1", server, BACKEND_HTTP).await?;
                Ok(Some(()))
            })
            .await?;
            node.pull_cable()?;
            let lost = lab.exec("c1", &["ping", "-c", "1", "-W", "1", &gateway]).await;
            ensure!(lost.is_err(), "the cable is pulled");
            node.plug_cable()?;
            await_that("the server answers again", LIMIT, async || {
                lab.curl("c1", server, BACKEND_HTTP).await?;
                Ok(Some(()))
            })
            .await?;
            let outcome = probe.stop()?;
            ensure!(
                outcome.longest_gap >= Duration::from_millis(900),
                "a pull of 1 s was seen as {outcome:?}"
            );
            ensure!(outcome.answered > 0 && outcome.sent > outcome.answered, "some were lost: {outcome:?}");
            assert_eq!(outcome.last_server.as_deref(), Some("web-n1"));
            assert_eq!(outcome.by_server.len(), 1, "{outcome:?}");
        }
        Ok(())
    })
}

#[test]
fn a_failing_body_is_an_error_that_says_what_failed() {
    let builder = Lab::builder().light();
    let result = Lab::run("light-fails", builder, async |lab| {
        let error = lab.node("n7").map(|node| node.address()).unwrap_err().to_string();
        assert!(error.contains("no node \"n7\" (it has n1)"), "{error}");
        panic!("the body's own words");
        #[expect(unreachable_code, reason = "gives the closure its type")]
        Ok(())
    });
    if nix::unistd::Uid::effective().is_root() {
        assert_eq!(result.unwrap_err().to_string(), "panicked: the body's own words");
    }
}
