//! The program's core in this process: the C code that the kernel runs, compiled for tests.

// The core is C.
#![allow(unsafe_code)]

use crate::{GROUP_BYTES, Group, Outcome, UdpPorts};
use std::ffi::c_int;

#[repr(C, align(8))]
#[derive(Clone)]
struct Entry {
    id: u32,
    _padding: u32,
    group: [u8; GROUP_BYTES],
}

unsafe extern "C" {
    fn aom_native_frame(table: *mut Entry, count: usize, frame: *mut u8, length: usize, port: u16, packet_port: u16) -> c_int;
}

/// Groups of one sequencer.
#[derive(Clone)]
pub struct Sequencer {
    ports: UdpPorts,
    table: Vec<Entry>,
}

impl Sequencer {
    /// A sequencer without groups.
    pub fn new(ports: UdpPorts) -> Self {
        Self { ports, table: Vec::new() }
    }

    /// Adds a group, or replaces it.
    pub fn insert(&mut self, id: u32, group: &Group) {
        self.table.retain(|entry| entry.id != id);
        self.table.push(Entry { id, _padding: 0, group: group.to_bytes() });
    }

    /// Handles an Ethernet frame in place.
    pub fn handle(&mut self, frame: &mut [u8]) -> Outcome {
        let UdpPorts { requests, packets } = self.ports;
        let (table, count) = (self.table.as_mut_ptr(), self.table.len());
        // SAFETY: both pointers are valid for the lengths beside them, and Entry has the layout of struct aom_entry.
        let outcome = unsafe { aom_native_frame(table, count, frame.as_mut_ptr(), frame.len(), requests, packets) };
        Outcome::ALL[outcome as usize]
    }
}
