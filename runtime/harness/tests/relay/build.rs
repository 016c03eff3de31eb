//! Sets a stack of half a page instead of the default 16 pages: every initial page costs gas in each call.

#[allow(clippy::disallowed_methods)] // build scripts get the target from the environment
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo:rustc-link-arg-cdylib=-zstack-size=32768");
    }
}
