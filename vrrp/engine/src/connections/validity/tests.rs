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
    ];
    for (bad, said) in table {
        let error = check_connection(&bad).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}
