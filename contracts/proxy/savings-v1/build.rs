//! A stack of half a page, where the default is sixteen pages: each page that a module starts with is paid for at every call.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo:rustc-link-arg-cdylib=-zstack-size=32768");
    }
}
