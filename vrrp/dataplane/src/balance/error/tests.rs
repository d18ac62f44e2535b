use std::io;

use windlass_kernel::netfilter::failure::Failure;

use super::*;

#[test]
fn an_error_names_what_was_tried_and_what_to_do() {
    let table = [
        (libc::EPERM, "add: [NET_ADMIN]"),
        (libc::EOPNOTSUPP, "modules nf_tables, nft_chain_nat, nft_nat, nft_masq, nft_numgen"),
        (libc::EAFNOSUPPORT, "modules nf_tables"),
        (libc::ENOMEM, "`nft list ruleset`"),
    ];
    for (number, remedy) in table {
        let failure = Failure::new("try it", io::Error::from_raw_os_error(number));
        let said = BalanceError::from(failure).to_string();
        assert!(said.starts_with("cannot try it: ") && said.contains(remedy), "{said}");
    }
}
