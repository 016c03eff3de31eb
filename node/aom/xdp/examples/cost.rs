//! Measures the program's time for one packet in the kernel: `cargo run --features xdp --example cost`, as root.
//!
//! Runs it 20,000 times on a request with a 64-byte payload (BPF_PROG_TEST_RUN, no network) and prints the median for 1 to 4
//! receivers. The kernel measures each single run, so the figures include its overhead, which the line "dropped" shows.

use corniche_aom_xdp::{RequestRules, UdpPorts, loader::Sequencer};
use std::{io::Write, net::Ipv4Addr};

const PORTS: UdpPorts = UdpPorts { requests: 0xA04D, packets: 0xA04D };
const RULES: RequestRules = RequestRules { address: Ipv4Addr::new(239, 1, 0, 7), max_payload_bytes: 64 };

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let mut request = vec![0; 42 + 160 + 64];
    request[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 252, 0, 1, 0, 0, 64, 17]);
    request[30..34].copy_from_slice(&RULES.address.octets());
    request[36..40].copy_from_slice(&[0xA0, 0x4D, 0, 232]);
    request[42..50].copy_from_slice(&[0xA0, 0x4D, 1, 0, 0, 0, 0, 7]);
    let mut sequencer = Sequencer::load(PORTS, false)?;
    writeln!(out, "dropped: {} ns", median(&mut sequencer, &request, 1)?)?;
    for receivers in 1..=4 {
        let mut sequencer = Sequencer::load(PORTS, false)?;
        sequencer.begin_epoch(7, 1, RULES, &vec![[9; 16]; receivers])?;
        writeln!(out, "{receivers} receivers: {} ns", median(&mut sequencer, &request, 4)?)?;
    }
    Ok(())
}

fn median(sequencer: &mut Sequencer, frame: &[u8], action: u32) -> anyhow::Result<u128> {
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let (taken, _, time) = sequencer.test_run(frame)?;
        anyhow::ensure!(taken == action, "expected XDP action {action}, got {taken}");
        times.push(time.as_nanos());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
