//! See [`windlass_vrrp_fuzz::wire`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_vrrp_fuzz::wire::parse_v4(data));
