//! Groups and frames of the vectors.
#![allow(dead_code)] // each test uses a part

use corniche_aom_vectors::{self as vectors, Vector};
use corniche_aom_xdp::{Group, Outcome, RequestRules, UdpPorts};
use std::net::Ipv4Addr;

pub const PORT: u16 = 0xA04D;
/// Those of the vectors: frames keep the port.
pub const PORTS: UdpPorts = UdpPorts { requests: PORT, packets: PORT };
/// Destination of [`frame`] and of the vectors.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(239, 1, 0, 7);
/// Rules of the vectors, whose longest payload has 8,800 bytes.
pub const RULES: RequestRules = RequestRules { address: ADDRESS, max_payload_bytes: 8800 };
/// Bytes before the aom header: Ethernet, IPv4, UDP.
pub const BEFORE: usize = 42;

pub fn group(group: &vectors::Group) -> Group {
    Group {
        next: group.first_seq,
        epoch: group.epoch,
        active: group.active,
        rules: RULES,
        keys: group.tag_keys.iter().map(|key| key[..].try_into().unwrap()).collect(),
    }
}

/// The datagram that must be in a frame afterwards, or the reason of a drop.
pub type Expected = Result<Vec<u8>, String>;

/// Frames and their results, step by step.
pub fn steps(vector: &Vector) -> Vec<(Vec<u8>, Expected)> {
    let step = |step: &vectors::Step| {
        let expected = match (&step.out[..], &step.drop) {
            ([out], None) => Ok(out.to_vec()),
            ([], Some(reason)) => Err(reason.clone()),
            _ => panic!("{}: one packet or a drop", vector.id),
        };
        (frame(&step.datagram), expected)
    };
    vector.steps.iter().map(step).collect()
}

/// A datagram in UDP, IPv4 and Ethernet, with a UDP checksum that must be removed.
pub fn frame(datagram: &[u8]) -> Vec<u8> {
    frame_to(ADDRESS, datagram)
}

fn frame_to(address: Ipv4Addr, datagram: &[u8]) -> Vec<u8> {
    let mut frame = vec![1, 0, 0x5E, 1, 0, 7, 2, 0, 0, 0, 0, 2, 8, 0];
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    frame.extend([0x45, 0]);
    frame.extend(length(28 + datagram.len()));
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2]);
    frame.extend(address.octets());
    frame.extend(50_000_u16.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend(length(8 + datagram.len()));
    frame.extend([0x12, 0x34]);
    frame.extend(datagram);
    frame
}

/// The frame that must leave for a frame and its stamped datagram.
pub fn stamped(frame: &[u8], datagram: &[u8]) -> Vec<u8> {
    [&frame[..BEFORE - 2], &[0, 0], datagram].concat()
}

/// Group 7 accepts 64 bytes to [`ADDRESS`], from number 1.
pub fn strict_group() -> Group {
    let rules = RequestRules { address: ADDRESS, max_payload_bytes: 64 };
    Group { next: 1, epoch: 3, active: true, rules, keys: vec![[1; 16]; 4] }
}

/// Frames to [`strict_group`] with their outcomes. Exactly two get a number.
pub fn frames_for_strict_group() -> Vec<(Vec<u8>, Outcome)> {
    let request = |payload_bytes: usize| {
        let mut datagram = vec![0; 160 + payload_bytes];
        datagram[..8].copy_from_slice(&[0xA0, 0x4D, 1, 0, 0, 0, 0, 7]);
        datagram
    };
    vec![
        (frame_to([10, 0, 0, 1].into(), &request(64)), Outcome::Address),
        (frame_to([239, 1, 0, 8].into(), &request(64)), Outcome::Address),
        (frame_to([7, 0, 1, 239].into(), &request(64)), Outcome::Address),
        (frame(&request(65)), Outcome::Long),
        (frame(&request(64)), Outcome::Stamped),
        // Bytes after the IP packet are no payload.
        ([frame(&request(64)), vec![0; 6]].concat(), Outcome::Stamped),
    ]
}
