use super::*;

fn error(what: &str, number: i32) -> SharingError {
    Failure { what: what.to_owned(), source: io::Error::from_raw_os_error(number) }.into()
}

#[test]
fn a_kernel_that_lacks_a_part_is_told_by_the_name_of_the_part_and_its_module() {
    let table = [
        (Missing::Fwd, libc::ENOENT, "nft_fwd_netdev"),
        (Missing::Hash, libc::ENOENT, "nft_hash"),
        (Missing::Netdev, libc::EOPNOTSUPP, "CONFIG_NETFILTER_INGRESS"),
    ];
    for (part, number, module) in table {
        let error = error(&part.step(), number);
        assert!(matches!(error, SharingError::Unsupported { missing, .. } if missing == part), "{error:?}");
        assert!(error.to_string().contains(module), "{error}");
    }
    let family = error("create the nftables table netdev windlass-sharing", libc::EOPNOTSUPP);
    assert!(matches!(family, SharingError::Unsupported { missing: Missing::Netdev, .. }), "{family:?}");
}

#[test]
fn an_interface_that_is_gone_and_a_missing_capability_are_no_missing_parts() {
    let gone =
        error("create the chain of the interface eth0 in the table netdev windlass-sharing", libc::ENOENT);
    assert!(matches!(gone, SharingError::Kernel { .. }), "{gone:?}");
    let denied = error(&Missing::Fwd.step(), libc::EPERM);
    assert!(matches!(denied, SharingError::Denied { .. }), "{denied:?}");
}
