//! Sets a stack of half a page instead of sixteen pages: every call pays for each page that its module starts with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo:rustc-link-arg-cdylib=-zstack-size=32768");
    }
}
