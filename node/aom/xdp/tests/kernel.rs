//! The program in the kernel: the vectors by BPF_PROG_TEST_RUN, and a star of network namespaces with real sockets.
//!
//! Needs root. Where the kernel refuses, the tests say that they were skipped; with CORNICHE_FORBID_SKIPS=1 they fail.

mod common;
#[path = "common/namespace.rs"]
mod namespace;

use common::{ADDRESS, PORT, PORTS, RULES, frames_for_strict_group, group, stamped, steps, strict_group};
use corniche_aom_vectors::{Verdict, for_producer, load, skip};
use corniche_aom_xdp::{
    Outcome, UdpPorts, frame,
    loader::{LoaderError, Sequencer, XdpMode},
};
use namespace::Namespace;
use siphasher::sip::SipHasher24;
use std::{
    hash::Hasher,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    time::Duration,
};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

/// Loads the program, or reports why the test is skipped.
fn load_or_skip(test: &str) -> Option<Sequencer> {
    match Sequencer::load(PORTS, false) {
        Ok(sequencer) => Some(sequencer),
        // The verifier's refusal is a failure, and no reason to skip.
        Err(error) if may_load() => panic!("{error:?}"),
        Err(error) => {
            skip(test, &format!("the kernel does not load the program ({error})"));
            None
        }
    }
}

fn may_load() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        // CAP_BPF is bit 39.
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> 39 & 1 == 1)
    })
}

#[test]
fn kernel_equals_the_vectors() {
    for vector in for_producer("xdp") {
        let Some(mut sequencer) = load_or_skip("kernel_equals_the_vectors") else { return };
        for config in &vector.groups {
            sequencer.insert(config.group, &group(config)).unwrap();
        }
        for (sent, expected) in steps(&vector) {
            let before = sequencer.outcomes().unwrap();
            let (action, out, _) = sequencer.test_run(&sent).unwrap();
            let after = sequencer.outcomes().unwrap();
            let counted: Vec<_> =
                Outcome::ALL.into_iter().filter(|&outcome| after[outcome as usize] > before[outcome as usize]).collect();
            match expected {
                Ok(datagram) => {
                    assert_eq!(action, XDP_REDIRECT, "{}", vector.id);
                    assert_eq!(hex::encode(out), hex::encode(stamped(&sent, &datagram)), "{}", vector.id);
                    assert_eq!(counted, [Outcome::Stamped], "{}", vector.id);
                }
                Err(reason) => {
                    assert_eq!((action, &out), (XDP_DROP, &sent), "{}", vector.id);
                    assert_eq!(format!("{counted:?}").to_lowercase(), format!("[{reason}]"), "{}", vector.id);
                }
            }
        }
    }
}

#[test]
fn kernel_equals_the_frames() {
    for vector in load().frames {
        let Some(mut sequencer) = load_or_skip("kernel_equals_the_frames") else { return };
        sequencer.insert(vector.groups[0].group, &group(&vector.groups[0])).unwrap();
        let (action, out, _) = match sequencer.test_run(&vector.frame) {
            Ok(result) => result,
            // The kernel's test run wants an Ethernet header and more. native.rs runs this frame.
            Err(_) if vector.frame.len() <= 14 => continue,
            Err(error) => panic!("{}: {error}", vector.id),
        };
        let expected = match vector.verdict {
            Verdict::Stamp => XDP_REDIRECT,
            Verdict::Drop => XDP_DROP,
            Verdict::Pass => XDP_PASS,
        };
        assert_eq!(action, expected, "{}", vector.id);
        assert_eq!(hex::encode(out), hex::encode(&*vector.out.unwrap_or(vector.frame)), "{}", vector.id);
    }
}

/// Only the stamped frames use numbers, in the kernel's map too.
#[test]
fn other_addresses_and_long_payloads_get_no_number() {
    let Some(mut sequencer) = load_or_skip("other_addresses_and_long_payloads_get_no_number") else { return };
    sequencer.insert(7, &strict_group()).unwrap();
    let mut outcomes = [0; Outcome::ALL.len()];
    for (sent, expected) in frames_for_strict_group() {
        let action = if expected == Outcome::Stamped { XDP_REDIRECT } else { XDP_DROP };
        assert_eq!(sequencer.test_run(&sent).unwrap().0, action, "{expected:?}");
        outcomes[expected as usize] += 1;
        assert_eq!(sequencer.outcomes().unwrap(), outcomes);
        assert_eq!(sequencer.next(7).unwrap(), Some(1 + outcomes[Outcome::Stamped as usize]));
    }
}

#[test]
fn epochs_are_not_reused() {
    let Some(mut sequencer) = load_or_skip("epochs_are_not_reused") else { return };
    let keys = [[1; 16]; 4];
    sequencer.begin_epoch(7, 3, RULES, &keys).unwrap();
    for epoch in [0, 2, 3] {
        assert!(matches!(sequencer.begin_epoch(7, epoch, RULES, &keys), Err(LoaderError::EpochReused { current: 3, .. })));
    }
    sequencer.end_epoch(7).unwrap();
    assert!(matches!(sequencer.begin_epoch(7, 3, RULES, &keys), Err(LoaderError::EpochReused { .. })));
    sequencer.begin_epoch(7, 4, RULES, &keys).unwrap();
    for receivers in [0, 5] {
        let result = sequencer.begin_epoch(8, 1, RULES, &vec![[1; 16]; receivers]);
        assert!(matches!(result, Err(LoaderError::Receivers { group: 8, .. })));
    }
}

#[test]
fn star_in_generic_mode() {
    star("star_in_generic_mode", XdpMode::Skb);
}

#[test]
fn star_in_native_mode() {
    star("star_in_native_mode", XdpMode::Driver);
}

const RECEIVERS: usize = 4;
const GROUP: u32 = 7;
const EPOCH: u32 = 3;
/// Requests, in bursts that fit every socket's buffer.
const BURSTS: u64 = 25;
const BURST: u64 = 20;
const STAR: UdpPorts = UdpPorts { requests: PORT, packets: PORT + 1 };

/// A client, the sequencer and four receivers, each in its own network namespace, with the sequencer in the middle.
/// Every receiver gets every request, in order, with its own valid tag. The sequencer's host takes one number for itself.
fn star(test: &str, mode: XdpMode) {
    let Some(sequencer) = load_or_skip(test) else { return };
    drop(sequencer);
    let center = match Namespace::new() {
        Ok(center) => center,
        Err(error) => return skip(test, &format!("no network namespace ({error})")),
    };
    let ends: Vec<_> = (0..=RECEIVERS).map(|_| Namespace::new().unwrap()).collect();
    for (i, end) in ends.iter().enumerate() {
        let thread = end.thread_id;
        center.run(move || {
            namespace::ip(&format!("link add s{i} type veth peer name end netns {thread}"));
            namespace::ip(&format!("link set s{i} up"));
        });
        end.run(move || {
            namespace::ip(&format!("addr add 10.77.0.{}/24 dev end", i + 1));
            namespace::ip("link set end up");
            namespace::ip("route add 224.0.0.0/4 dev end");
        });
    }
    let keys: Vec<[u8; 16]> = (0..RECEIVERS as u8).map(|i| [i + 1; 16]).collect();
    let keys_of_center = keys.clone();
    let mut sequencer = center.run(move || {
        let mut sequencer = Sequencer::load(STAR, false).unwrap();
        sequencer.begin_epoch(GROUP, EPOCH, RULES, &keys_of_center).unwrap();
        for i in 0..=RECEIVERS {
            sequencer.set_port(i as u32, namespace::interface_index(&format!("s{i}"))).unwrap();
        }
        sequencer.attach("s0", mode).unwrap();
        sequencer
    });
    // Native mode also needs a program on the path back: frames leave through veth only to peers that have one.
    let _programs: Vec<_> = ends[1..]
        .iter()
        .map(|end| {
            end.run(move || {
                let mut program = Sequencer::load(STAR, false).unwrap();
                program.attach_receiver("end", mode).unwrap();
                program
            })
        })
        .collect();

    let client = ends[0].run(|| UdpSocket::bind("10.77.0.1:0").unwrap());
    let sockets: Vec<_> = ends[1..].iter().enumerate().map(|(i, end)| end.run(move || listen(i))).collect();
    for burst in 0..BURSTS {
        let numbers = burst * BURST + 1..(burst + 1) * BURST + 1;
        for number in numbers.clone() {
            client.send_to(&request(number), (ADDRESS, PORT)).unwrap();
        }
        for number in numbers {
            for (receiver, socket) in sockets.iter().enumerate() {
                check(socket, receiver, number, &keys[receiver]);
            }
        }
    }
    let outcomes = sequencer.outcomes().unwrap();
    assert_eq!(outcomes[Outcome::Stamped as usize], BURSTS * BURST);
    let number = BURSTS * BURST + 1;
    assert_eq!(sequencer.next(GROUP).unwrap(), Some(number));
    let own = frame(Ipv4Addr::UNSPECIFIED, SocketAddrV4::new(ADDRESS, PORT), &request(number));
    let (action, stamped, _) = sequencer.test_run(&own).unwrap();
    assert_eq!((action, &stamped[58..66]), (XDP_REDIRECT, &number.to_be_bytes()[..]));
    let next = number + 1;
    client.send_to(&request(next), (ADDRESS, PORT)).unwrap();
    sockets.iter().enumerate().for_each(|(receiver, socket)| check(socket, receiver, next, &keys[receiver]));
    sequencer.end_epoch(GROUP).unwrap();
}

fn listen(receiver: usize) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, STAR.packets)).unwrap();
    socket.join_multicast_v4(&ADDRESS, &Ipv4Addr::new(10, 77, 0, receiver as u8 + 2)).unwrap();
    // Only a lost packet waits that long, and then the test fails.
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// A request whose digest field and payload name it.
fn request(number: u64) -> Vec<u8> {
    let mut datagram = vec![0; 160 + 64];
    datagram[..4].copy_from_slice(&[0xA0, 0x4D, 1, 0]);
    datagram[4..8].copy_from_slice(&GROUP.to_be_bytes());
    datagram[24..32].copy_from_slice(&number.to_be_bytes());
    datagram[160..168].copy_from_slice(&number.to_be_bytes());
    datagram
}

fn check(socket: &UdpSocket, receiver: usize, number: u64, key: &[u8; 16]) {
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("receiver {receiver}, packet {number}: {error}"));
    let datagram = &buffer[..length];
    let mut expected = request(number);
    expected[3] = 1;
    expected[8..12].copy_from_slice(&EPOCH.to_be_bytes());
    expected[13] = RECEIVERS as u8;
    expected[14] = 1;
    expected[16..24].copy_from_slice(&number.to_be_bytes());
    assert_eq!(datagram[..56], expected[..56], "receiver {receiver}");
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(&datagram[..56]);
    assert_eq!(datagram[56 + 8 * receiver..][..8], hasher.finish().to_le_bytes(), "receiver {receiver}, packet {number}");
    assert_eq!(datagram[88..], expected[88..], "receiver {receiver}");
}
