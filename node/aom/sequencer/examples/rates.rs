//! Prints how many requests one processor can stamp and send, for each back end and suite: requests per second of processor time of the
//! writer thread, on loopback sockets. Linux only.
//!
//! ```text
//! cargo run --release -p corniche-aom-sequencer --example rates
//! ```
//!
//! The processor time includes reading requests, and most of the receivers' part of the loopback network. A network card does
//! the latter elsewhere, so these rates are low. Two host hops remain in every case: this measures no latency.

use corniche_aom_sequencer::{BackEnd, Config, Group, MulticastConfig, Sequencer};
use corniche_aom_wire::{EpochStart, ExchangeKey, Kind, MAX_PAYLOAD_BYTES, Suite, encode_request};
use socket2::{Domain, Socket, Type};
use std::{
    error::Error,
    fs,
    io::Write,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const RECEIVERS: usize = 4;
const PAYLOAD_BYTES: usize = 64;
const SIGN_EVERY: u32 = 32;
const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "| measurement | requests per processor second | in {} s | GSO refused |", TIME.as_secs())?;
    writeln!(out, "|---|---|---|---|")?;
    for (back_end, name) in [(BackEnd::Unicast, "unicast"), (BackEnd::Multicast, "multicast"), (BackEnd::Gso, "gso")] {
        for suite in [Suite::SipHash64, Suite::SipHash128, Suite::Ecdsa, Suite::Ed25519] {
            let rate = measure(back_end, suite)?;
            let ratio = if suite.tag_bytes() == 0 { format!(" every={SIGN_EVERY}") } else { String::new() };
            let label = format!("{name} suite={}{ratio} receivers={RECEIVERS} payload={PAYLOAD_BYTES}", suite as u8);
            writeln!(out, "| {label} | {:.0} | {} | {} |", rate.per_second, rate.requests, rate.refused)?;
        }
    }
    Ok(())
}

struct Rate {
    per_second: f64,
    requests: u64,
    refused: u64,
}

fn measure(back_end: BackEnd, suite: Suite) -> Result<Rate, Box<dyn Error>> {
    let (receivers, multicast) = open(back_end)?;
    let destinations = match multicast {
        Some(address) => vec![address],
        None => receivers.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>()?,
    };
    let exchange_keys = match suite.kind() {
        Kind::Hm => vec![ExchangeKey::from_bytes([9; 32]).public(); RECEIVERS],
        Kind::Pk => Vec::new(),
    };
    let group = Group {
        chain_id: 86,
        group: 7,
        suite,
        sequencers: 1,
        index: 0,
        secret: [5; 32].into(),
        exchange_keys,
        max_payload_bytes: MAX_PAYLOAD_BYTES,
        destinations,
        authority: Box::new(|_, _| false),
    };
    let config = Config {
        back_end,
        sign_every: SIGN_EVERY,
        multicast: MulticastConfig { interface: Some(Ipv4Addr::LOCALHOST), ttl: 1 },
        ..Config::new("127.0.0.1:0".parse()?)
    };
    let directory = tempfile::tempdir()?;
    let sequencer = Sequencer::start(&config, vec![group], directory.path())?;
    let is_running = Arc::new(AtomicBool::new(true));
    let drain = drain(receivers, is_running.clone());
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    let request = encode_request(7, &[1; PAYLOAD_BYTES])?;

    let start = EpochStart { group: 7, epoch: 0, certificate: b"" }.encode()?;
    while sequencer.metrics().epoch(7).is_none() {
        sender.send_to(&start, sequencer.address())?;
    }
    // All code and buffers are in use after a first request.
    while sequencer.metrics().seq(7) < 2 {
        sender.send_to(&request, sequencer.address())?;
    }
    let (seq, processor, start) = (sequencer.metrics().seq(7), processor_time()?, Instant::now());
    while start.elapsed() < TIME {
        for _ in 0..64 {
            // Requests that the sequencer cannot read in time are lost in its receive buffer.
            sender.send_to(&request, sequencer.address())?;
        }
    }
    let requests = sequencer.metrics().seq(7) - seq;
    let per_second = requests as f64 / (processor_time()? - processor).as_secs_f64();
    let refused = sequencer.metrics().gso_fallbacks(7);
    is_running.store(false, Ordering::Relaxed);
    drain.join().map_err(|_| "the receivers panicked")?;
    sequencer.stop_handle().stop();
    sequencer.wait()?;
    Ok(Rate { per_second, requests, refused })
}

/// Returns the processor time of the writer thread.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == "sequencer") {
            let times = fs::read_to_string(task.join("schedstat"))?;
            let nanos = times.split(' ').next().ok_or("schedstat is empty")?;
            return Ok(Duration::from_nanos(nanos.parse()?));
        }
    }
    Err("no thread is named `sequencer`".into())
}

/// Empties the receivers' buffers now and then. A thread that waits for each packet would cost the writer a wake-up for each.
fn drain(sockets: Vec<UdpSocket>, is_running: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut datagram = [0; 9000];
        while is_running.load(Ordering::Relaxed) {
            for socket in &sockets {
                while socket.recv(&mut datagram).is_ok() {}
            }
            thread::sleep(Duration::from_millis(1));
        }
    })
}

fn open(back_end: BackEnd) -> Result<(Vec<UdpSocket>, Option<SocketAddr>), Box<dyn Error>> {
    let group = Ipv4Addr::new(239, 86, 65, 80);
    let is_multicast = back_end == BackEnd::Multicast;
    let any_port = |ip| SocketAddr::V4(SocketAddrV4::new(ip, 0));
    let mut address = any_port(if is_multicast { group } else { Ipv4Addr::LOCALHOST });
    let mut sockets = Vec::new();
    for _ in 0..RECEIVERS {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_recv_buffer_size(8 << 20)?;
        if is_multicast {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
        } else {
            socket.bind(&address.into())?;
        }
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        if is_multicast {
            address = socket.local_addr()?;
        }
        sockets.push(socket);
    }
    Ok((sockets, is_multicast.then_some(address)))
}
