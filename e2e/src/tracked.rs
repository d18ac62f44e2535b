//! Reads the connections to an address from the kernel of a node.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use anyhow::Context as _;

use crate::{lab::Lab, probe::Protocol};

impl Lab {
    /// Ports of clients of which the kernel of `node` tracks a connection of this protocol to `address`.
    pub async fn tracked(
        &self,
        node: &str,
        protocol: Protocol,
        address: IpAddr,
    ) -> anyhow::Result<BTreeSet<u16>> {
        let (family, address) = (if address.is_ipv4() { "ipv4" } else { "ipv6" }, address.to_string());
        let protocol = match protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let list = ["conntrack", "--dump", "--family", family, "--proto", protocol, "--orig-dst", &address];
        ports(&self.exec(node, &list).await?)
    }

    /// Returns the clients that have TCP connections to `address`, or had some recently, as the kernel of `node` tracks them.
    pub async fn tracked_clients(&self, node: &str, address: IpAddr) -> anyhow::Result<BTreeSet<IpAddr>> {
        let list = self.tracked_tcp(node, address, &[]).await?;
        list.lines().map(|line| sources(line).map(|[client, _]| client)).collect()
    }

    /// Which servers the kernel of `node` has given the open TCP connections from `client` to `address`.
    pub async fn tracked_servers(
        &self,
        node: &str,
        client: IpAddr,
        address: IpAddr,
    ) -> anyhow::Result<BTreeSet<IpAddr>> {
        let of_client = ["--orig-src", &client.to_string(), "--state", "ESTABLISHED"];
        let list = self.tracked_tcp(node, address, &of_client).await?;
        list.lines().map(|line| sources(line).map(|[_, server]| server)).collect()
    }

    async fn tracked_tcp(&self, node: &str, address: IpAddr, further: &[&str]) -> anyhow::Result<String> {
        let (family, address) = (if address.is_ipv4() { "ipv4" } else { "ipv6" }, address.to_string());
        let list = ["conntrack", "--dump", "--family", family, "--proto", "tcp", "--orig-dst", &address];
        self.exec(node, &[&list[..], further].concat()).await
    }

    /// Ports of `client` from which TCP connections to `address`:`port` are open, as its own kernel has them.
    pub async fn open_ports(
        &self,
        client: &str,
        address: IpAddr,
        port: u16,
    ) -> anyhow::Result<BTreeSet<u16>> {
        let to = SocketAddr::new(address, port).to_string();
        let list = ["ss", "--no-header", "--tcp", "--numeric", "state", "established", "dst", &to];
        local_ports(&self.exec(client, &list).await?)
    }
}

/// Returns the ports in the third column, the local address.
fn local_ports(list: &str) -> anyhow::Result<BTreeSet<u16>> {
    let port = |line: &str| {
        let address = line.split_whitespace().nth(2).and_then(|own| own.rsplit_once(':'));
        address.and_then(|(_, port)| port.parse().ok()).with_context(|| format!("no port in {line:?}"))
    };
    list.lines().map(port).collect()
}

/// Returns both `src=` of a line: the client of the connection, and its server.
fn sources(line: &str) -> anyhow::Result<[IpAddr; 2]> {
    let mut sources = line.split_whitespace().filter_map(|word| word.strip_prefix("src=")?.parse().ok());
    let both = sources.next().zip(sources.next());
    both.map(<[IpAddr; 2]>::from).with_context(|| format!("no two addresses in {line:?}"))
}

/// The first `sport=` of each line.
fn ports(list: &str) -> anyhow::Result<BTreeSet<u16>> {
    let port = |line: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("sport="));
        word.and_then(|word| word.parse().ok()).with_context(|| format!("no port in {line:?}"))
    };
    list.lines().map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_port_is_the_first_of_a_line() {
        let list = "tcp      6 599 ESTABLISHED src=192.0.2.101 dst=192.0.2.200 sport=41000 dport=80 src=203.0.113.66 dst=192.0.2.200 \
                    sport=8080 dport=50001 [ASSURED] mark=0 use=1\n";
        assert_eq!(ports(list).unwrap(), [41000].into());
        assert_eq!(ports("").unwrap(), [].into());
        assert!(ports("nonsense").is_err());
    }

    #[test]
    fn a_line_has_who_opened_the_connection_and_who_answers() {
        let line = "tcp      6 599 ESTABLISHED src=192.0.2.101 dst=192.0.2.29 sport=41000 dport=6443 src=192.0.2.22 dst=192.0.2.21 \
                    sport=6443 dport=50001 [ASSURED] mark=0 use=1";
        assert_eq!(sources(line).unwrap().map(|address| address.to_string()), ["192.0.2.101", "192.0.2.22"]);
        assert!(sources("src=192.0.2.101").is_err());
    }

    #[test]
    fn the_own_port_is_behind_the_last_colon_of_the_third_column() {
        let list = "0 0 192.0.2.101:41000 192.0.2.200:80\n0 0 [2001:db8::101]:41001 [2001:db8::200]:80\n";
        assert_eq!(local_ports(list).unwrap(), [41000, 41001].into());
        assert!(local_ports("nonsense").is_err());
    }
}
