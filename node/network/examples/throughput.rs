//! Messages per second and round trips between two nodes in one process over loopback, per transport and
//! size.
//!
//! `cargo run -p corniche-network --example throughput [SECONDS]`. Both nodes share the machine's cores, each
//! with its own single-threaded runtime. Processor time is that of the whole process. The last line is the
//! processor time of an idle link.

#![allow(clippy::print_stdout)]

use corniche_network::{
    ChainIdentity, Channel, Event, Events, Network, NetworkConfig, NetworkHandle, NetworkIdentity, PeerKey, Rate, Sent,
    Transport,
};
use corniche_types::{B256, Bytes};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const CHAIN: ChainIdentity = ChainIdentity { chain_id: 1, genesis_hash: B256::ZERO };

fn main() {
    let seconds = std::env::args().nth(1).map_or(2.0, |text| text.parse().expect("SECONDS is a number"));
    let time = Duration::from_secs_f64(seconds);
    let transports =
        [("tcp", "/ip4/127.0.0.1/tcp/0", Transport::Tcp), ("quic", "/ip4/127.0.0.1/udp/0/quic-v1", Transport::Quic)];
    println!("measure     transport channel bytes   result");
    for (name, listen, transport) in transports {
        let mut pair = Pair::start(listen, transport);
        for (channel, bytes) in
            [(Channel::Votes, 32), (Channel::Votes, 512), (Channel::Bulk, 65_536), (Channel::Bulk, 1_048_576)]
        {
            let (rate, processor) = pair.one_way(channel, bytes, time);
            println!(
                "one-way     {name:9} {channel:7?} {bytes:7} {rate:9.0} messages/s {:7.1} MB/s {:8.2} us processor/message",
                rate * bytes as f64 / 1e6,
                processor.as_secs_f64() * 1e6 / (rate * time.as_secs_f64()),
            );
        }
        let mut trips = pair.round_trips(32, time);
        print_trips("round-trip", name, "Votes", &mut trips);
        let mut trips = pair.requests(32, time);
        print_trips("request", name, "-", &mut trips);
        let before = processor_time();
        std::thread::sleep(time);
        let idle = (processor_time() - before).as_secs_f64() / time.as_secs_f64();
        println!("idle        {name:9} -             - {:9.3} ms processor/s, both nodes", idle * 1e3);
    }
}

fn print_trips(measure: &str, transport: &str, channel: &str, trips: &mut [Duration]) {
    trips.sort();
    let at = |percent: usize| trips[(trips.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    println!(
        "{measure:11} {transport:9} {channel:7}      32 {:9.1} us median, {:.1} p10, {:.1} p90, {} trips",
        at(50),
        at(10),
        at(90),
        trips.len(),
    );
}

struct Pair {
    runtimes: [Runtime; 2],
    handles: [NetworkHandle; 2],
    events: [Option<Events>; 2],
}

impl Pair {
    fn start(listen: &str, transport: Transport) -> Self {
        let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
        let runtimes = [runtime(), runtime()];
        let identities = [1, 2].map(|number| NetworkIdentity::from_seed([number; 32]));
        let keys: Vec<PeerKey> = identities.iter().map(NetworkIdentity::key).collect();
        let config = |number: usize| {
            let mut config = NetworkConfig::new(identities[number].clone(), CHAIN, keys.clone());
            config.listen.push(listen.parse().expect("an address"));
            config.preferred_transport = transport;
            config.limits.validator_rate = Rate { frames_per_second: u32::MAX, bytes_per_second: u32::MAX };
            config
        };
        let (first, first_events) = runtimes[0].block_on(Network::start(config(0))).expect("it starts");
        let address = format!("{}/p2p/{}", first.listen_addresses()[0], first.key());
        let second_config = config(1).with_bootstrap(&address).expect("an address");
        let (second, second_events) = runtimes[1].block_on(Network::start(second_config)).expect("it starts");
        let mut pair = Self { runtimes, handles: [first, second], events: [Some(first_events), Some(second_events)] };
        for number in 0..2 {
            let events = pair.events[number].as_mut().expect("taken only while measuring");
            assert!(matches!(events.blocking_recv(), Some(Event::PeerUp(_))));
        }
        pair
    }

    /// Sends as many messages as possible in about `time`, from the first node to the second.
    fn one_way(&mut self, channel: Channel, bytes: usize, time: Duration) -> (f64, Duration) {
        let to = self.handles[1].key();
        let from = self.handles[0].clone();
        let mut events = self.events[1].take().expect("not measuring twice at once");
        let before = processor_time();
        let start = Instant::now();
        let receiving = std::thread::spawn(move || {
            let mut received = 0u64;
            while let Some(Event::Message { bytes, .. }) = events.blocking_recv() {
                if bytes.is_empty() {
                    break;
                }
                received += 1;
            }
            (received, events)
        });
        let message = Bytes::from(vec![1; bytes]);
        while start.elapsed() < time {
            if from.send(to, channel, message.clone()) == Sent::QueueFull {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        while from.send(to, channel, Bytes::new()) != Sent::Queued {
            std::thread::yield_now();
        }
        let (received, events) = receiving.join().expect("the receiver ends");
        self.events[1] = Some(events);
        (received as f64 / start.elapsed().as_secs_f64(), processor_time() - before)
    }

    fn round_trips(&mut self, bytes: usize, time: Duration) -> Vec<Duration> {
        let keys = [self.handles[0].key(), self.handles[1].key()];
        let echo = self.handles[1].clone();
        let mut echo_events = self.events[1].take().expect("not measuring twice at once");
        let echoing = self.runtimes[1].spawn(async move {
            while let Some(Event::Message { bytes, channel, .. }) = echo_events.recv().await {
                if bytes.is_empty() {
                    break;
                }
                echo.send(keys[0], channel, bytes);
            }
            echo_events
        });
        let from = self.handles[0].clone();
        let mut events = self.events[0].take().expect("not measuring twice at once");
        let asking = self.runtimes[0].spawn(async move {
            let (start, mut trips) = (Instant::now(), Vec::new());
            while start.elapsed() < time {
                let sent = Instant::now();
                from.send(keys[1], Channel::Votes, Bytes::from(vec![1; bytes]));
                assert!(matches!(events.recv().await, Some(Event::Message { .. })));
                trips.push(sent.elapsed());
            }
            from.send(keys[1], Channel::Votes, Bytes::new());
            (trips, events)
        });
        let (trips, events) = self.runtimes[0].block_on(asking).expect("it ends");
        self.events = [Some(events), Some(self.runtimes[1].block_on(echoing).expect("it ends"))];
        trips
    }

    fn requests(&mut self, bytes: usize, time: Duration) -> Vec<Duration> {
        let to = self.handles[1].key();
        let mut events = self.events[1].take().expect("not measuring twice at once");
        let answering = self.runtimes[1].spawn(async move {
            while let Some(Event::Request { bytes, reply, .. }) = events.recv().await {
                let last = bytes.is_empty();
                reply.send(bytes);
                if last {
                    break;
                }
            }
            events
        });
        let from = self.handles[0].clone();
        let asking = self.runtimes[0].spawn(async move {
            let (start, mut trips) = (Instant::now(), Vec::new());
            while start.elapsed() < time {
                let sent = Instant::now();
                from.request(to, Bytes::from(vec![1; bytes])).await.expect("an answer");
                trips.push(sent.elapsed());
            }
            from.request(to, Bytes::new()).await.expect("an answer");
            trips
        });
        let trips = self.runtimes[0].block_on(asking).expect("it ends");
        self.events[1] = Some(self.runtimes[1].block_on(answering).expect("it ends"));
        trips
    }
}

/// User and system time of this process so far, from Linux' `/proc`; zero on other systems.
fn processor_time() -> Duration {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Duration::ZERO };
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
