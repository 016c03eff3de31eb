//! The admin interface.

use crate::common::{World, stop};
use corniche_aom_wire::{Suite, encode_request};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: sequencer\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn health_and_metrics_show_groups() {
    let mut world = World::unicast(Suite::Ed25519, 2);
    world.config.admin = Some("127.0.0.1:0".parse().unwrap());
    let sequencer = world.start().unwrap();
    let admin = sequencer.admin().unwrap();
    for _ in 0..2 {
        world.request(&sequencer, b"request");
    }
    world.send(&sequencer, &encode_request(1234, b"").unwrap());
    world.send(&sequencer, b"noise");
    world.request(&sequencer, b"last");
    // The third packet reaches the second receiver last, and the writer then counts what it has sent.
    while world.receive(1).0.seq < 3 {}

    let health = get(admin, "/health");
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert!(health.ends_with(r#"{"groups":[{"active":true,"epoch":1,"group":7,"seq":3}],"status":"ok"}"#), "{health}");
    let metrics = get(admin, "/metrics");
    for line in [
        "corniche_sequencer_packets_received_total 5",
        "corniche_sequencer_packets_dropped_total{reason=\"group\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"short\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"digest\"} 0",
        "corniche_sequencer_requests_stamped_total{group=\"7\"} 3",
        "corniche_sequencer_packets_signed_total{group=\"7\"} 1",
        "corniche_sequencer_heartbeats_total{group=\"7\"} 0",
        "corniche_sequencer_send_errors_total{group=\"7\"} 0",
        "corniche_sequencer_seq{group=\"7\"} 3",
        "corniche_sequencer_epoch{group=\"7\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "expected {line:?} in\n{metrics}");
    }
    assert!(get(admin, "/").starts_with("HTTP/1.1 404 "));
    stop(sequencer);
    assert!(TcpStream::connect(admin).is_err(), "the admin interface ends with the sequencer");
}
