//! The file is what the generator makes.

use std::process::Command;

#[test]
fn file_is_as_generated() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/generate.py");
    let Ok(output) = Command::new("python3").args([script, "--check"]).output() else {
        return corniche_aom_vectors::skip("file_is_as_generated", "python3 is missing");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_hardware_producer_has_vectors() {
    for (producer, minimum) in [("xdp", 20), ("rtl", 45), ("p4", 24)] {
        let count = corniche_aom_vectors::for_producer(producer).len();
        assert!(count >= minimum, "{producer}: {count} vectors, fewer than {minimum}");
    }
    assert!(corniche_aom_vectors::load().frames.len() >= 18);
}
