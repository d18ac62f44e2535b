//! See [`windlass_vrrp_fuzz::bgp_message`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_vrrp_fuzz::bgp_message::run(data));
