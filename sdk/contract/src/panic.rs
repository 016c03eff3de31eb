//! What a panic says, in debug builds.

#[link(wasm_import_module = "console")]
unsafe extern "C" {
    fn log_txt(text: *const u8, length: usize);
}

/// Has panics say where and why they happen, to the console. A call begins with new memory, so each call does this anew.
pub extern "C" fn tell() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // SAFETY: the host reads the text's bytes and keeps nothing.
        unsafe { log_txt(text.as_ptr(), text.len()) };
    }));
}
