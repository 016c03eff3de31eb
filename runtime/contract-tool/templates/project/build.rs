//! Sets the stack size to half a page instead of the default of sixteen pages: every call pays gas for each initial page.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo:rustc-link-arg-cdylib=-zstack-size=32768");
    }
}
