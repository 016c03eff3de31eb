//! The admin interface.

use crate::common::{World, epoch_start, stop};
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

/// Returns true if the metrics have a line.
fn has(metrics: &str, line: &str) -> bool {
    metrics.lines().any(|found| found == line)
}

#[test]
fn health_and_metrics_show_groups() {
    let mut world = World::unicast(Suite::Ed25519, 2);
    world.config.admin = Some("127.0.0.1:0".parse().unwrap());
    (world.sequencers, world.epoch) = (2, 4);
    let sequencer = world.start().unwrap();
    let admin = sequencer.admin().unwrap();

    let health = get(admin, "/health");
    assert!(health.starts_with("HTTP/1.1 200 "), "a sequencer that is on standby is healthy: {health}");
    let group = r#"{"begun":0,"epoch":null,"group":7,"seq":0,"status":"standby"}"#;
    let refused = r#"{"certificate":0,"not_mine":0,"rate":0,"record":0,"used":0}"#;
    assert!(health.ends_with(&format!(r#"{{"groups":[{group}],"refused":{refused},"status":"ok"}}"#)), "{health}");
    assert!(has(&get(admin, "/metrics"), "corniche_sequencer_serving{group=\"7\"} 0"));

    world.request(&sequencer, b"too early");
    world.send(&sequencer, &epoch_start(5));
    world.begin(&sequencer);
    world.send(&sequencer, &epoch_start(2));
    world.request(&sequencer, b"request");
    world.send(&sequencer, &encode_request(1234, b"").unwrap());
    world.send(&sequencer, b"noise");
    world.request(&sequencer, b"last");
    // The third packet reaches the second receiver last, and the writer then counts what it has sent.
    while world.receive(1).0.seq < 3 {}

    let health = get(admin, "/health");
    let group = r#"{"begun":1,"epoch":4,"group":7,"seq":3,"status":"serving"}"#;
    let refused = r#"{"certificate":0,"not_mine":1,"rate":0,"record":0,"used":1}"#;
    assert!(health.ends_with(&format!(r#"{{"groups":[{group}],"refused":{refused},"status":"ok"}}"#)), "{health}");
    let metrics = get(admin, "/metrics");
    for line in [
        "corniche_sequencer_packets_received_total 8",
        "corniche_sequencer_packets_dropped_total{reason=\"group\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"short\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"standby\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"not_mine\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"used\"} 1",
        "corniche_sequencer_packets_dropped_total{reason=\"digest\"} 0",
        "corniche_sequencer_requests_stamped_total{group=\"7\"} 2",
        "corniche_sequencer_packets_signed_total{group=\"7\"} 1",
        "corniche_sequencer_heartbeats_total{group=\"7\"} 1",
        "corniche_sequencer_send_errors_total{group=\"7\"} 0",
        "corniche_sequencer_epochs_begun_total{group=\"7\"} 1",
        "corniche_sequencer_seq{group=\"7\"} 3",
        "corniche_sequencer_epoch{group=\"7\"} 4",
        "corniche_sequencer_serving{group=\"7\"} 1",
    ] {
        assert!(has(&metrics, line), "expected {line:?} in\n{metrics}");
    }
    assert!(get(admin, "/").starts_with("HTTP/1.1 404 "));
    stop(sequencer);
    assert!(TcpStream::connect(admin).is_err(), "the admin interface ends with the sequencer");
}
