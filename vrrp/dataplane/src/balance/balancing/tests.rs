use windlass_kernel::port::Protocol;

use super::*;

fn to(vip: &str, targets: impl IntoIterator<Item = String>) -> Balancing {
    let port = ProtocolPort { protocol: Protocol::Tcp, port: 6443 };
    let targets = targets.into_iter().map(|target| target.parse().unwrap()).collect();
    let backends = Backends { targets, source: ClientSource::Masquerade };
    Balancing { services: [((vip.parse().unwrap(), port), backends)].into(), ..Balancing::default() }
}

#[test]
fn what_could_get_nothing_is_refused_by_name_with_what_helps() {
    let (v4, v6) = ("192.0.2.5", "2001:db8::5");
    // VIP, backend, and what is said.
    let table = [
        (v4, "192.0.2.11:6443", None),
        (v4, "203.0.113.1:7443", None),
        (v6, "[2001:db8::11]:6443", None),
        (v4, "[2001:db8::11]:6443", Some("is of another family than the VIP")),
        (v6, "192.0.2.11:6443", Some("is of another family than the VIP")),
        (v4, "127.0.0.1:6443", Some("is reached from this node only")),
        (v6, "[::1]:6443", Some("is reached from this node only")),
        (v4, "0.0.0.0:6443", Some("is no place to send to")),
        (v6, "[ff02::1]:6443", Some("is no place to send to")),
        (v4, "192.0.2.11:0", Some("is no place to send to")),
        (v4, "169.254.0.7:6443", Some("is link-local")),
        (v6, "[fe80::1]:6443", Some("is link-local")),
        (v4, "192.0.2.5:7443", Some("is a VIP itself")),
    ];
    for (vip, target, expected) in table {
        let said = to(vip, [target.to_owned()]).check(15).err().map(|error| error.to_string());
        match expected {
            None => assert_eq!(said, None, "{target}"),
            Some(reason) => {
                let beginning = format!("backend {target} of {vip}, TCP port 6443: it {reason}");
                assert!(said.as_ref().is_some_and(|said| said.starts_with(&beginning)), "{said:?}");
            }
        }
    }
}

#[test]
fn each_backend_has_to_get_a_lot() {
    let many =
        |count: u32| to("192.0.2.5", (1..=count).map(|n| format!("10.0.{}.{}:6443", n / 200, n % 200 + 1)));
    many(LOTS).check(15).unwrap();
    let said = many(LOTS + 1).check(15).unwrap_err().to_string();
    assert_eq!(said, "192.0.2.5, TCP port 6443 has 61 backends: name 60 at most");
}
