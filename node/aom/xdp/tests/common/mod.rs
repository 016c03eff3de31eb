//! Groups and frames of the vectors.
#![allow(dead_code)] // each test uses a part

use corniche_aom_vectors::{self as vectors, Vector};
use corniche_aom_xdp::{Group, UdpPorts};

pub const PORT: u16 = 0xA04D;
/// Those of the vectors: frames keep the port.
pub const PORTS: UdpPorts = UdpPorts { requests: PORT, packets: PORT };
/// Bytes before the aom header: Ethernet, IPv4, UDP.
pub const BEFORE: usize = 42;

pub fn group(group: &vectors::Group) -> Group {
    Group {
        next: group.first_seq,
        epoch: group.epoch,
        active: group.active,
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
    let mut frame = vec![1, 0, 0x5E, 1, 0, 7, 2, 0, 0, 0, 0, 2, 8, 0];
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    frame.extend([0x45, 0]);
    frame.extend(length(28 + datagram.len()));
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 239, 1, 0, 7]);
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
