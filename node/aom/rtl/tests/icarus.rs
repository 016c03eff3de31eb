//! A second simulator with four-valued logic: Icarus Verilog gives the bytes of the vectors too.
//!
//! An unknown bit (x) that reaches the output fails the comparison, so this also finds registers without a reset.

use corniche_aom_vectors::{Group, Step, Vector, for_producer, skip};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

const FILLER: u32 = 0xF111_F111;
const RING: usize = 8;

#[test]
fn hm_equals_the_vectors() {
    run("hm_equals_the_vectors", 1, &[]);
}

#[test]
fn pk_equals_the_vectors() {
    run("pk_equals_the_vectors", 4, &["-DPK"]);
}

/// Q5: without RESUME a group always begins its epoch at number 1, whatever the control plane writes.
#[test]
fn real_sequencers_cannot_resume_an_epoch() {
    let test = "real_sequencers_cannot_resume_an_epoch";
    let Some(folder) = folder(test) else { return };
    let vector = for_producer("rtl").into_iter().find(|vector| vector.id == "hm-s1-seq-32-bits").expect("it exists");
    let mut script = Script::default();
    script.vector(0, &vector);
    let program = compile(folder.path(), &["-DRESUME=0"]);
    let datagrams = script.play(folder.path(), &program);
    let numbers: Vec<_> = datagrams[0].sent.iter().map(|sent| u64::from_str_radix(&sent[32..48], 16).unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

fn folder(test: &str) -> Option<tempfile::TempDir> {
    if Command::new("iverilog").arg("-V").output().is_err() {
        skip(test, "iverilog is missing (Debian: apt-get install iverilog)");
        return None;
    }
    Some(tempfile::tempdir().expect("a temporary folder"))
}

fn run(test: &str, suite: u8, defines: &[&str]) {
    let Some(folder) = folder(test) else { return };
    let vectors: Vec<_> = for_producer("rtl").into_iter().filter(|vector| vector.groups[0].suite == suite).collect();
    let mut script = Script::default();
    for (number, vector) in vectors.iter().enumerate() {
        script.vector(number, vector);
    }
    let program = compile(folder.path(), &[&["-DRESUME=1"], defines].concat());
    let results = script.play(folder.path(), &program);
    assert_eq!(results.len(), vectors.len());
    for (vector, result) in vectors.iter().zip(results) {
        let expected: Vec<_> = vector.steps.iter().flat_map(|step| step.out.iter().map(|bytes| encode(bytes))).collect();
        let filler = format!("{FILLER:08x}");
        let sent: Vec<_> = result.sent.into_iter().filter(|sent| sent[8..16] != filler).collect();
        assert_eq!(sent, expected, "{}", vector.id);
        let drops = vector.steps.iter().filter(|step| step.drop.is_some() || step.lost).count();
        assert_eq!(result.drops, drops, "{}", vector.id);
    }
}

fn compile(folder: &Path, defines: &[&str]) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let output = Command::new("iverilog")
        .args(["-g2005", "-s", "icarus", "-y"])
        .arg(crate_folder.join("verilog"))
        .arg("-I")
        .arg(crate_folder.join("verilog"))
        .args(defines)
        .arg("-o")
        .arg(&program)
        .arg(crate_folder.join("tests/icarus.v"))
        .output()
        .expect("iverilog runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[derive(Default)]
struct Script(String);

/// Datagrams (hex) and drops of one vector.
struct Played {
    sent: Vec<String>,
    drops: usize,
}

impl Script {
    fn line(&mut self, line: std::fmt::Arguments) {
        writeln!(self.0, "{line}").expect("a string grows");
    }

    fn vector(&mut self, number: usize, vector: &Vector) {
        self.line(format_args!("r\nm {number:x}"));
        for (slot, group) in vector.groups.iter().enumerate() {
            self.group(slot, group);
        }
        if vector.groups[0].suite == 4 {
            // A group that never signs: it begins after a signed packet, and its K is the largest.
            let prev_seq = format!("{:024x}", 1_u128 << 64);
            for (field, data) in [(0, &*format!("{FILLER:x}")), (1, "1"), (8, "ffffffff"), (7, &*prev_seq), (4, "1")] {
                self.line(format_args!("c 3 {field} 0 {data}"));
            }
        }
        let mut next: Vec<_> = vector.groups.iter().map(|group| group.presignatures.iter()).collect();
        for step in vector.steps.iter().filter(|step| step.signed) {
            let id = u32::from_be_bytes(step.datagram[4..8].try_into().expect("a header"));
            let slot = vector.groups.iter().position(|group| group.group == id).expect("a known group");
            let presignature = next[slot].next().expect("one for each signature");
            self.line(format_args!("p {} {}", encode(&presignature.r), encode(&presignature.k_inverse)));
        }
        for step in &vector.steps {
            if step.lost {
                self.lose(step)
            } else {
                self.datagram(&step.datagram, step.flush)
            }
            self.line(format_args!("i"));
        }
    }

    fn group(&mut self, slot: usize, group: &Group) {
        let mut set =
            |field: u8, receiver: usize, data: &str| self.line(format_args!("c {slot} {field:x} {receiver:x} {data}"));
        set(0, 0, &format!("{:x}", group.group));
        set(1, 0, &format!("{:x}", group.epoch));
        set(2, 0, &format!("{:x}", group.receivers));
        set(3, 0, &format!("{:x}", group.first_seq));
        for (receiver, key) in group.tag_keys.iter().enumerate() {
            set(5, receiver, &encode(key));
        }
        if let Some(chain) = &group.chain {
            set(5, 0, &encode(group.signing_secret.as_ref().expect("PK groups have one")));
            set(6, 0, &encode(&chain.prev_hash));
            set(7, 0, &format!("{:08x}{:016x}", chain.since_signed, chain.prev_seq));
            set(8, 0, &format!("{:x}", group.sign_every.expect("PK groups have one")));
        }
        set(4, 0, if group.active { "1" } else { "0" });
    }

    fn datagram(&mut self, datagram: &[u8], flush: bool) {
        let words = datagram.len().div_ceil(8).max(1);
        for i in 0..words {
            let bytes = &datagram[8 * i..datagram.len().min(8 * i + 8)];
            let last = u8::from(i + 1 == words);
            self.line(format_args!("w {:0<16} {last} {:x} {}", encode(bytes), bytes.len(), u8::from(flush)));
        }
    }

    /// A real tail drop, as in `vectors.rs`.
    fn lose(&mut self, step: &Step) {
        self.line(format_args!("b 1"));
        let mut filler = step.datagram.to_vec();
        filler[4..8].copy_from_slice(&FILLER.to_be_bytes());
        for _ in 0..RING {
            self.datagram(&filler, false);
        }
        self.datagram(&step.datagram, step.flush);
        self.line(format_args!("t 4\nb 0"));
    }

    fn play(&self, folder: &Path, program: &Path) -> Vec<Played> {
        let script = folder.join("script");
        std::fs::write(&script, &self.0).expect("a writable folder");
        let output = Command::new("vvp").arg(program).arg(format!("+script={}", script.display())).output().expect("vvp runs");
        let text = String::from_utf8(output.stdout).expect("ASCII");
        assert_eq!(text.lines().last(), Some("end"), "the script was not played to its end");
        let (mut out, mut datagram) = (Vec::<Played>::new(), String::new());
        for line in text.lines() {
            let fields: Vec<_> = line.split(' ').collect();
            match fields[..] {
                ["m", _] => out.push(Played { sent: Vec::new(), drops: 0 }),
                ["d", _] => out.last_mut().expect("a mark comes first").drops += 1,
                ["o", data, last, bytes] => {
                    datagram.push_str(&data[..2 * usize::from_str_radix(bytes, 16).expect("no unknown bits")]);
                    if last == "1" {
                        out.last_mut().expect("a mark comes first").sent.push(std::mem::take(&mut datagram));
                    }
                }
                ["end"] => {}
                _ => panic!("unexpected line of the simulator: {line}"),
            }
        }
        out
    }
}

fn encode(bytes: &[u8]) -> String {
    hex::encode(bytes)
}
