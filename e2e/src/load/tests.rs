use super::*;

#[test]
fn an_answer_is_whole_when_as_much_came_as_it_says() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nDate: x\r\n\r\n";
    for (answer, whole) in [
        (String::new(), false),
        (head[..20].to_owned(), false),
        (head.to_owned(), false),
        (format!("{head}web"), false),
        (format!("{head}web0"), true),
        ("HTTP/1.1 200 OK\r\n\r\nweb0".to_owned(), false),
        ("HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n".to_owned(), true),
    ] {
        assert_eq!(is_whole(answer.as_bytes()), whole, "{answer}");
    }
}
