#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| (corniche_fuzz::target("baxos").expect("a target").run)(data));
