//! A Service with SCTP: by the kernel's sockets where it has them, else by packets of the test's own.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};
use windlass_api::{PortProtocol, RestrictedPort};
use windlass_e2e::{Lab, ProxyMode, await_that, scenario};

use super::{
    client::{PATIENCE, Transport, any, await_answered, await_refused},
    sctp_packets::{Responder, SCTP, associate},
    watched::await_guarded,
};
use crate::setup::{LIMIT, await_ingresses, dual_stack, ingresses, lab, services};

/// Port of the Service.
const PORT: u16 = 3868;
/// Port of its server.
pub(super) const SERVER_PORT: u16 = 38_680;

#[test]
fn sctp_service_is_answered_and_nothing_else_is_beside_kube_proxy_in_nftables_mode() -> anyhow::Result<()> {
    scenario("sctp-nft", lab(), async |lab| served_by_sctp(lab).await)
}

#[test]
fn sctp_service_is_answered_and_nothing_else_is_beside_kube_proxy_in_iptables_mode() -> anyhow::Result<()> {
    scenario("sctp-ipt", lab().proxy_mode(ProxyMode::Iptables), async |lab| served_by_sctp(lab).await)
}

async fn served_by_sctp(lab: &Lab) -> anyhow::Result<()> {
    if let Err(error) = kernel_socket(Domain::IPV4) {
        eprintln!("skipped: SCTP by sockets: {error}. Its packets are the test's own instead.");
    }
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &["n3"]).await?;
    let server = Server::start(lab, "web-n3")?;
    let service = lab
        .load_balancer("web", |service| {
            dual_stack(service);
            let sctp = json!([{"name": "sctp", "protocol": "SCTP", "port": PORT, "targetPort": SERVER_PORT}]);
            service.spec.get_or_insert_default().ports = serde_json::from_value(sctp).ok();
        })
        .await?;
    ensure!(service.spec.and_then(|spec| spec.ports).is_some_and(|ports| ports.len() == 1), "no port");
    let vips = await_ingresses(lab, "web", 2).await?;
    for &vip in &vips {
        await_answered(lab, Transport::Sctp, vip, PORT, "web-n3").await?;
        // The same number by another protocol, and another number by the same.
        for (transport, port) in [(Transport::Tcp, PORT), (Transport::Udp, PORT), (Transport::Sctp, PORT + 1)]
        {
            await_refused(lab, transport, vip, port).await?;
        }
    }

    // Who may reach it is said of the SCTP port, and kept: the client is not of the range.
    restrict(lab, &["192.0.2.102/32"]).await?;
    for &vip in &vips {
        let claimed = lab.virtual_ip(vip).await?.with_context(|| format!("{vip} is not claimed"))?;
        let ports: Vec<_> = claimed.spec.sources.iter().flat_map(|sources| sources.ports.clone()).collect();
        let port = RestrictedPort { protocol: PortProtocol::Sctp, port: PORT };
        ensure!(ports == [port], "the claim of {vip} says {ports:?}");
    }
    for node in ["n1", "n2"] {
        await_guarded(lab, node, vips[0], Transport::Sctp, &[PORT]).await?;
    }
    for &vip in &vips {
        await_kept_out(lab, vip).await?;
        await_refused(lab, Transport::Tcp, vip, PORT).await?;
    }
    restrict(lab, &["192.0.2.101/32", "2001:db8::101/128"]).await?;
    for &vip in &vips {
        await_answered(lab, Transport::Sctp, vip, PORT, "web-n3").await?;
    }

    // The node that takes over answers too.
    let owner = lab.await_owner("c1", vips[0]).await?;
    lab.node(&owner)?.pull_cable()?;
    lab.await_owner_other_than("c1", vips[0], &owner).await?;
    await_answered(lab, Transport::Sctp, vips[0], PORT, "web-n3").await?;
    await_refused(lab, Transport::Sctp, vips[0], PORT + 1).await?;
    ensure!(ingresses(lab, "web").await? == vips, "the addresses changed");
    drop(server);
    Ok(())
}

/// Lets in who is of these ranges, and waits until the claims say so.
async fn restrict(lab: &Lab, ranges: &[&str]) -> anyhow::Result<()> {
    let change = Patch::Merge(json!({"spec": {"loadBalancerSourceRanges": ranges}}));
    services(lab, "default").patch("web", &PatchParams::default(), &change).await?;
    for vip in ingresses(lab, "web").await? {
        let of_family = ranges.iter().filter(|range| range.contains(':') == vip.is_ipv6());
        let wanted: Vec<_> = of_family.map(|range| (*range).to_owned()).collect();
        await_that(&format!("the claim of {vip} says {wanted:?}"), LIMIT, async || {
            let claim = lab.virtual_ip(vip).await?.context("no claim")?;
            let said: Vec<_> = claim.spec.sources.iter().map(|sources| sources.allowed.clone()).collect();
            ensure!(said == [wanted.clone()], "it says {said:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Waits until the client's packets are dropped: not answered, and not refused.
async fn await_kept_out(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let target = SocketAddr::new(vip, PORT);
    await_that(&format!("c1 is kept out of {target}"), LIMIT, async || {
        match lab.within("c1", || associate(target))? {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(())),
            other => anyhow::bail!("the client got {other:?}"),
        }
    })
    .await
}

/// A socket of the kernel's own SCTP, which not every kernel has.
fn kernel_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM, Some(Protocol::from(SCTP)))
}

/// What the server at `target` calls itself.
pub(super) fn ask(target: SocketAddr) -> io::Result<String> {
    let Ok(socket) = kernel_socket(Domain::for_address(target)) else { return associate(target) };
    socket.connect_timeout(&target.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A server of both families that answers SCTP with its name, until it is dropped.
pub(super) struct Server {
    stop: Arc<AtomicBool>,
}

impl Server {
    /// Starts it beside a light backend's server, as `web-n3`.
    pub(super) fn start(lab: &Lab, pod: &str) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for ipv4 in [true, false] {
            let (stopped, name) = (Arc::clone(&stop), pod.to_owned());
            let answer = lab.within(pod, || answering(ipv4, name))?.context("opening the server's socket")?;
            std::thread::Builder::new().name(format!("sctp-{pod}")).spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    // Each step ends by itself when nobody asks.
                    let _ = answer();
                }
            })?;
        }
        Ok(Self { stop })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What answers one client.
fn answering(ipv4: bool, name: String) -> io::Result<Box<dyn Fn() -> io::Result<()> + Send>> {
    let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
    let Ok(socket) = kernel_socket(domain) else {
        let responder = Responder::new(ipv4, SERVER_PORT, &name)?;
        return Ok(Box::new(move || responder.step()));
    };
    if !ipv4 {
        socket.set_only_v6(true)?;
    }
    socket.bind(&SocketAddr::new(any(ipv4), SERVER_PORT).into())?;
    socket.listen(8)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let listener = TcpListener::from(socket);
    Ok(Box::new(move || listener.accept()?.0.write_all(name.as_bytes())))
}
