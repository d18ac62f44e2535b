use super::*;

#[test]
fn every_distinct_answer_of_arping_is_reported_once() {
    let output = "ARPING 192.0.2.200 from 192.0.2.101 eth0\n\
                  Unicast reply from 192.0.2.200 [02:00:00:00:00:0C]  0.652ms\n\
                  Unicast reply from 192.0.2.200 [02:00:00:00:00:0B]  0.700ms\n\
                  Unicast reply from 192.0.2.200 [02:00:00:00:00:0C]  0.652ms\n\
                  Sent 2 probes (2 broadcast(s))\nReceived 3 response(s)\n";
    let macs: Vec<String> = answering_macs(output).unwrap().iter().map(Mac::to_string).collect();
    assert_eq!(macs, ["02:00:00:00:00:0b", "02:00:00:00:00:0c"]);
}

#[test]
fn silence_is_an_empty_list_and_garbage_an_error() {
    assert_eq!(answering_macs("ARPING 192.0.2.200\nSent 2 probes\nReceived 0 response(s)\n").unwrap(), []);
    assert!(answering_macs("Unicast reply from 192.0.2.200 02:00:00:00:00:0b\n").is_err());
    assert!(answering_macs("Unicast reply from 192.0.2.200 [02:00]\n").is_err());
}
