//! Yosys turns the circuits into gates: no latches, and no more logic than the budget.

use corniche_aom_vectors::skip;
use std::{path::Path, process::Command};

/// Modules, files besides their own, and the most LUTs of an UltraScale+ device, LUTs used as memory included.
const CIRCUITS: &[(&str, &[&str], u32)] = &[
    ("aom_hm", &["aom_ingress", "siphash_lane"], 7_500),
    ("aom_pk", &["aom_ingress", "sha256_block", "ecdsa_online", "presignature_stock"], 10_000),
];

#[test]
fn circuits_have_no_latches_and_fit_their_budgets() {
    for &(top, files, budget) in CIRCUITS {
        let Some(statistics) = synthesize(top, files) else { return };
        let luts: u32 = statistics.lines().map(luts).sum();
        assert!(luts > budget / 2, "{top}: {luts} LUTs; is the circuit still there?\n{statistics}");
        assert!(luts <= budget, "{top}: {luts} LUTs, more than {budget}\n{statistics}");
    }
}

/// Statistics of the cells, or `None` where Yosys is missing.
fn synthesize(top: &str, files: &[&str]) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("verilog");
    let sources: Vec<_> = [&[top], files].concat().iter().map(|file| format!("{file}.v")).collect();
    let script = format!(
        "read_verilog -I. {}; hierarchy -check -top {top}; proc; flatten; \
         select -assert-none t:$dlatch t:$dlatchsr t:$adlatch t:$sr; check -assert; \
         synth_xilinx -family xcup -top {top}; stat",
        sources.join(" ")
    );
    let Ok(output) = Command::new("yosys").args(["-p", &script]).current_dir(folder).output() else {
        skip("circuits_have_no_latches_and_fit_their_budgets", "yosys is missing (Debian: apt-get install yosys)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{top}: {}", String::from_utf8_lossy(&output.stderr));
    let last = text.rfind("Number of cells:").expect("stat prints it");
    Some(text[last..].to_owned())
}

/// LUTs of one line of statistics: `LUT6  1506`. A memory of 64 or 32 words takes eight LUTs.
fn luts(line: &str) -> u32 {
    let fields: Vec<_> = line.split_whitespace().collect();
    match fields[..] {
        [cell, count] => {
            let count = || count.parse::<u32>().expect("a count");
            match cell {
                "RAM32M16" | "RAM64M8" => 8 * count(),
                _ if cell.starts_with("LUT") || cell.starts_with("SRL") => count(),
                _ => 0,
            }
        }
        _ => 0,
    }
}
