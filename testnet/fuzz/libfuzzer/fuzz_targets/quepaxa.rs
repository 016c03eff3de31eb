#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| (corniche_fuzz::target("quepaxa").expect("a target").run)(data));
