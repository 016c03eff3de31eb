#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| (corniche_fuzz::target("websocket_frames").expect("a target").run)(data));
