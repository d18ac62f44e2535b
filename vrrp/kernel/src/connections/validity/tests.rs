use windlass_vrrp::replication::Transport;

use super::*;

fn connection(client: &str, vip: &str, backend: &str, source: &str) -> Connection {
    let [client, vip, backend, source] = [client, vip, backend, source].map(|text| text.parse().unwrap());
    Connection { key: ConnectionKey { transport: Transport::Tcp, client, vip }, backend, source }
}

#[test]
fn what_the_kernel_cannot_have_is_refused_with_its_reason() {
    let (client, vip, backend, source) =
        ("192.0.2.3:40000", "192.0.2.50:80", "192.0.2.4:8080", "192.0.2.50:1");
    assert_eq!(check_connection(&connection(client, vip, backend, source)), Ok(()));
    let v6 = connection("[2001:db8::3]:1", "[2001:db8::50]:80", "[2001:db8::4]:1", "[2001:db8::3]:1");
    assert_eq!(check_connection(&v6), Ok(()));
    let table = [
        (
            connection("[2001:db8::3]:1", vip, backend, source),
            "client [2001:db8::3]:1 is of another IP version",
        ),
        (connection(client, vip, "[2001:db8::3]:1", source), "backend [2001:db8::3]:1 is of another"),
        (connection(client, vip, backend, "[2001:db8::3]:1"), "source [2001:db8::3]:1 is of another"),
        (connection("192.0.2.3:0", vip, backend, source), "client 192.0.2.3:0 has port 0"),
        (connection(client, "192.0.2.50:0", backend, source), "VIP 192.0.2.50:0 has port 0"),
        (connection(client, vip, "0.0.0.0:1", source), "backend 0.0.0.0:1 is not the address of one host"),
        (connection("224.0.0.1:1", vip, backend, source), "client 224.0.0.1:1 is not"),
        (connection(client, vip, "127.0.0.1:1", source), "backend 127.0.0.1:1 is not"),
        (connection("255.255.255.255:1", vip, backend, source), "client 255.255.255.255:1 is not"),
        (connection(client, vip, "169.254.169.254:80", source), "backend 169.254.169.254:80 is not"),
        (connection(client, vip, "169.254.20.10:53", source), "backend 169.254.20.10:53 is not"),
    ];
    for (bad, said) in table {
        let error = check_connection(&bad).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn a_replica_leads_to_no_socket_of_this_node_that_has_not_accepted_it_and_shows_no_other_client_than_the_vip()
{
    let (client, vip) = ("192.0.2.3:40000", "192.0.2.50:80");
    let (client6, vip6) = ("[2001:db8::3]:40000", "[2001:db8::50]:80");
    let own: BTreeSet<IpAddr> = ["192.0.2.2", "10.0.0.1", "2001:db8::2"].map(|ip| ip.parse().unwrap()).into();
    let elsewhere = connection(client, vip, "192.0.2.4:8080", "192.0.2.50:1");
    let elsewhere6 = connection(client6, vip6, "[2001:db8::4]:8080", "[2001:db8::50]:1");
    for (replica, is_accepted, refusal) in [
        (elsewhere, false, None),
        (elsewhere6, false, None),
        (
            connection(client, vip, "192.0.2.2:10250", "192.0.2.50:1"),
            false,
            Some("backend 192.0.2.2:10250 is"),
        ),
        (connection(client, vip, "10.0.0.1:22", "192.0.2.50:1"), false, Some("backend 10.0.0.1:22 is")),
        (
            connection(client6, vip6, "[2001:db8::2]:10250", "[2001:db8::50]:1"),
            false,
            Some("backend [2001:db8::2]:10250 is"),
        ),
        // A pod in the host's network, to which a peer forwards what came to the VIP.
        (connection(client, vip, "192.0.2.2:8080", "192.0.2.50:1"), true, None),
        // The backend would take this node, or anything else, for its client.
        (
            Connection { source: "192.0.2.2:1".parse().unwrap(), ..elsewhere },
            false,
            Some("source 192.0.2.2:1 is"),
        ),
        (
            Connection { source: client.parse().unwrap(), ..elsewhere },
            true,
            Some("source 192.0.2.3:40000 is"),
        ),
    ] {
        let checked = check_replica(&replica, &own, || is_accepted).map_err(|error| error.to_string());
        match refusal {
            None => assert_eq!(checked, Ok(()), "{replica:?}"),
            Some(said) => {
                assert!(checked.as_ref().is_err_and(|error| error.starts_with(said)), "{checked:?}");
            }
        }
    }
}
