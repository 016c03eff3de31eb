//! Panic messages, in debug builds.

#[link(wasm_import_module = "console")]
unsafe extern "C" {
    fn log_txt(text: *const u8, length: usize);
}

/// Makes panics print their location and message to the console. Each call starts with new memory, so each call repeats this.
pub extern "C" fn tell() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // SAFETY: the host reads the text's bytes and keeps no reference.
        unsafe { log_txt(text.as_ptr(), text.len()) };
    }));
}
