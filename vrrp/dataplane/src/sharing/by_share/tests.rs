use std::net::IpAddr;

use windlass_kernel::port::Protocol;

use super::*;
use crate::sharing::{LOTS, SharedBy};

fn service(number: u8) -> Service {
    (IpAddr::from([203, 0, 113, number]), Protocol::Tcp)
}

fn share(port: u16) -> Arc<Share> {
    let (by, servers) = (SharedBy::Connection, Vec::new());
    let (interface, ports) = ("eth0".to_owned(), [port].into());
    Arc::new(Share { interface, ports, by, servers, lots: [0; LOTS], former: Vec::new() })
}

fn shares(ports: &[u16]) -> Shares {
    let services = (0..).zip(ports).map(|(number, port)| (service(number), share(*port)));
    Shares { services: services.collect(), ..Shares::default() }
}

#[test]
fn only_the_values_of_changed_shares_are_derived_again() {
    let mut values = ByShare::default();
    for (ports, derived) in [
        (&[80, 80, 80][..], &[0, 1, 2][..]),
        (&[80, 80, 80], &[]),
        (&[80, 443, 80], &[1]),
        (&[80], &[]),
        (&[80, 443], &[1]),
    ] {
        let (shares, mut asked) = (shares(ports), Vec::new());
        let all = values.follow(&shares, |service, share| {
            asked.push(service);
            share.ports.clone()
        });
        let all: Vec<_> = all.map(|(service, ports)| (service, ports.clone())).collect();
        let expected = (0..).zip(ports).map(|(number, port)| (service(number), [*port].into()));
        assert_eq!(all, expected.collect::<Vec<_>>());
        assert_eq!(asked, derived.iter().map(|number| service(*number)).collect::<Vec<_>>(), "{ports:?}");
    }
}
