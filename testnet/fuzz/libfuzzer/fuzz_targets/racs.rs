#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| (corniche_fuzz::target("racs").expect("a target").run)(data));
