use super::*;
use crate::netfilter::attributes::unhex;

/// A connection from 192.0.2.3 port 40000 to 192.0.2.50 port 80, with the mark 0x10, as Linux 6.18 tells it.
#[test]
fn the_destination_is_that_of_the_first_packet() {
    let addresses = Attributes::new().bytes(1, &[192, 0, 2, 3]).bytes(2, &[192, 0, 2, 50]);
    let ports =
        Attributes::new().bytes(1, &[6]).bytes(2, &40000_u16.to_be_bytes()).bytes(3, &80_u16.to_be_bytes());
    let tuple = Attributes::new().nest(1, &addresses).nest(2, &ports);
    let reply =
        Attributes::new().nest(1, &Attributes::new().bytes(1, &[10, 0, 0, 1]).bytes(2, &[10, 0, 0, 2]));
    let entry = Attributes::new().nest(1, &tuple).nest(2, &reply).number(8, 0x10);
    assert_eq!(destination(entry.as_bytes()), Some([192, 0, 2, 50].into()));
    let v6 = Attributes::new().bytes(4, &unhex("20010db8000000000000000000000050"));
    let entry = Attributes::new().nest(1, &Attributes::new().nest(1, &v6));
    assert_eq!(destination(entry.as_bytes()), Some("2001:db8::50".parse().unwrap()));
    assert_eq!(destination(&unhex("00")), None);
}

#[test]
fn the_state_is_that_of_tcp() {
    let tcp = Attributes::new().bytes(1, &[7]).bytes(2, &[1]);
    let entry = Attributes::new().nest(4, &Attributes::new().nest(1, &tcp));
    assert_eq!(state(entry.as_bytes()), Some(7));
    assert_eq!(state(Attributes::new().number(8, 1).as_bytes()), None, "as UDP has none");
}

#[test]
fn a_connection_was_silent_for_as_long_as_the_shortest_of_the_limits_allows() {
    let limits = [86_400, 300, 120, 60];
    let table = [
        (86_399, Some(0)),
        (86_390, Some(9)),
        (86_400, None),
        // Whether it was silent for a day or spoke just now, and waits to be answered, is not known.
        (299, Some(0)),
        (290, Some(9)),
        (119, Some(0)),
        (0, Some(59)),
    ];
    for (expires_in, expected) in table {
        assert_eq!(silent_for(expires_in, &limits), expected.map(Duration::from_secs), "{expires_in}");
    }
    assert_eq!(silent_for(5, &[]), None);
}

#[test]
fn what_is_forgotten_is_named_by_its_number_too() {
    let tuple = Attributes::new().nest(1, &Attributes::new().bytes(1, &[192, 0, 2, 3]));
    let entry = Attributes::new().nest(TUPLE, &tuple).number(MARK, 0x10).number(ID, 77);
    let named = this(entry.as_bytes()).unwrap();
    assert_eq!(named, Attributes::new().nest(TUPLE, &tuple).number(ID, 77));
    assert_eq!(
        this(Attributes::new().nest(TUPLE, &tuple).as_bytes()),
        None,
        "it would be whichever has these ends"
    );
}
