//! Who may reach sockets of the host on the VIP.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use windlass_engine::RouterConfig;

use super::scene::{Family, await_vip, config, lan, own_address, said};
use crate::lab::{Host, LIMIT, await_some, require_root};

fn connect(host: &Host, address: IpAddr) -> io::Result<()> {
    let to = SocketAddr::new(address, 8022);
    host.run(move || TcpStream::connect_timeout(&to, LIMIT).map(drop))
}

#[test]
fn sockets_of_the_host_are_reached_on_the_vip_only_if_it_accepts_and_ping_is_answered_always() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(2);
        let (host, client) = (&lan.hosts[0], &lan.hosts[1]);
        let _listener = host.run(|| TcpListener::bind("[::]:8022").unwrap());
        let node = host.engine_with(|options| options.guard = true);
        let accepting = |accept| RouterConfig { accept, ..config(family, 0, 1) };
        let vip = family.vip();
        let ping = || said(client, &format!("ping -c 1 -W 1 {vip}"));
        node.engine.apply(vec![accepting(true)]);
        await_vip(host, family, true);
        await_some("connection to the VIP", || connect(client, vip).ok());
        await_some("answer to ping", ping);
        node.engine.apply(vec![accepting(false)]);
        await_some("refusal", || {
            connect(client, vip).err().filter(|e| e.kind() == io::ErrorKind::ConnectionRefused)
        });
        await_some("answer to ping", ping);
        connect(client, own_address(family, 0)).expect("the host's own address is open");
        node.engine.apply(vec![accepting(true)]);
        await_some("connection to the VIP", || connect(client, vip).ok());
    }
}
