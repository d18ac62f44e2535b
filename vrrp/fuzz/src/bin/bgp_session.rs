//! See [`windlass_vrrp_fuzz::bgp_session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_vrrp_fuzz::bgp_session::run(data));
