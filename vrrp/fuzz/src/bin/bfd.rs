//! See [`windlass_vrrp_fuzz::bfd`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_vrrp_fuzz::bfd::run(data));
