use super::*;

#[test]
fn a_bearer_token_is_what_stands_behind_the_word() {
    let table: [(&[u8], Option<&str>); 8] = [
        (b"Bearer abc", Some("abc")),
        (b"bearer  abc ", Some("abc")),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Basic YTpi", None),
        (b"abc", None),
        (b"", None),
        (b"Bearer \xff\xfe", None),
    ];
    for (header, expected) in table {
        assert_eq!(bearer(Some(header)), expected, "{header:?}");
    }
    assert_eq!(bearer(None), None);
}
