use super::*;

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
    let entry = Attributes::new().nest(TUPLE, &tuple).number(8, 0x10).number(ID, 77);
    let named = this(entry.as_bytes()).unwrap();
    assert_eq!(named, Attributes::new().nest(TUPLE, &tuple).number(ID, 77));
    assert_eq!(
        this(Attributes::new().nest(TUPLE, &tuple).as_bytes()),
        None,
        "it would be whichever has these ends"
    );
}
