//! Loads the program into the kernel and controls it through its maps. Needs root (CAP_BPF and CAP_NET_ADMIN).

use crate::{GROUP_BYTES, Group, MAX_RECEIVERS, Outcome, RequestRules, UdpPorts};
pub use aya::programs::XdpMode;
use aya::{
    Ebpf, EbpfError, EbpfLoader,
    maps::{DevMap, HashMap, MapData, MapError, PerCpuArray, xdp::XdpMapError},
    programs::{ProgramError, TestRun as _, TestRunOptions, Xdp},
};
use std::{net::Ipv4Addr, time::Duration};

/// An operation on the kernel's program that failed.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    #[error("load of the XDP program: {0}")]
    Load(#[from] EbpfError),
    #[error("XDP program: {0}")]
    Program(#[from] ProgramError),
    #[error("map of the XDP program: {0}")]
    Map(#[from] MapError),
    #[error("port of the XDP program: {0}")]
    Port(#[from] XdpMapError),
    #[error("new epoch of group {group}: expected 1 to {MAX_RECEIVERS} receivers, got {receivers}; use the sequencer daemon")]
    Receivers { group: u32, receivers: usize },
    #[error(
        "new epoch of group {group}: expected more than {current}, got {epoch}; ask the configuration service for a new one"
    )]
    EpochReused { group: u32, current: u32, epoch: u32 },
}

/// The sequencer in the kernel. Detaches when dropped.
pub struct Sequencer {
    ebpf: Ebpf,
}

const SEQUENCER: &str = "aom_sequencer";
const RECEIVER: &str = "aom_receiver";

impl Sequencer {
    /// Loads the program. It knows no groups and no interfaces yet. `to_host`: stamped frames go on to this host's stack, and
    /// not to the ports of [`Self::set_port`].
    pub fn load(ports: UdpPorts, to_host: bool) -> Result<Self, LoaderError> {
        let object = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/aom.bpf.o"));
        let mut loader = EbpfLoader::new();
        let to_host = u8::from(to_host);
        loader.override_global("udp_port", &ports.requests, true).override_global("packet_port", &ports.packets, true);
        let mut ebpf = loader.override_global("to_host", &to_host, true).load(object)?;
        for name in [SEQUENCER, RECEIVER] {
            program(&mut ebpf, name)?.load()?;
        }
        Ok(Self { ebpf })
    }

    /// Stamps frames that arrive at an interface of this thread's network namespace.
    pub fn attach(&mut self, interface: &str, mode: XdpMode) -> Result<(), LoaderError> {
        program(&mut self.ebpf, SEQUENCER)?.attach(interface, mode)?;
        Ok(())
    }

    /// Attaches a program that leaves all frames to the kernel. In native mode veth delivers to such interfaces only.
    pub fn attach_receiver(&mut self, interface: &str, mode: XdpMode) -> Result<(), LoaderError> {
        program(&mut self.ebpf, RECEIVER)?.attach(interface, mode)?;
        Ok(())
    }

    /// Sends stamped frames to an interface too. `index` is below 128; the interface belongs to this thread's namespace.
    pub fn set_port(&mut self, index: u32, interface_index: u32) -> Result<(), LoaderError> {
        let map = self.ebpf.map_mut("ports").ok_or(MapError::InvalidName { name: "ports".into() })?;
        DevMap::try_from(map)?.set(index, interface_index, None, 0)?;
        Ok(())
    }

    /// Begins an epoch of a group at number 1, with the tag keys of its receivers in order. Packets on their way keep
    /// the old epoch.
    ///
    /// # Errors
    /// If there are no receivers or more than [`MAX_RECEIVERS`], or if the epoch is not greater than the current one.
    pub fn begin_epoch(&mut self, group: u32, epoch: u32, rules: RequestRules, keys: &[[u8; 16]]) -> Result<(), LoaderError> {
        if keys.is_empty() || keys.len() > MAX_RECEIVERS {
            return Err(LoaderError::Receivers { group, receivers: keys.len() });
        }
        if let Some(current) = self.epoch(group)?
            && current >= epoch
        {
            return Err(LoaderError::EpochReused { group, current, epoch });
        }
        self.insert(group, &Group { next: 1, epoch, active: true, rules, keys: keys.to_vec() })
    }

    /// Stops a group. It stays known, so that its epoch is not used again.
    pub fn end_epoch(&mut self, group: u32) -> Result<(), LoaderError> {
        let Some(epoch) = self.epoch(group)? else { return Ok(()) };
        let rules = RequestRules { address: Ipv4Addr::UNSPECIFIED, max_payload_bytes: 0 };
        self.insert(group, &Group { next: 1, epoch, active: false, rules, keys: Vec::new() })
    }

    /// Writes a group as it is. For tests that begin inside an epoch; a real sequencer uses [`Self::begin_epoch`].
    pub fn insert(&mut self, id: u32, group: &Group) -> Result<(), LoaderError> {
        self.groups()?.insert(id, group.to_bytes(), 0)?;
        Ok(())
    }

    /// Frames by outcome since the load, in the order of [`Outcome::ALL`].
    pub fn outcomes(&self) -> Result<[u64; Outcome::ALL.len()], LoaderError> {
        let map = self.ebpf.map("outcomes").ok_or(MapError::InvalidName { name: "outcomes".into() })?;
        let counters: PerCpuArray<_, u64> = PerCpuArray::try_from(map)?;
        let mut sums = [0; Outcome::ALL.len()];
        for (sum, index) in sums.iter_mut().zip(0..) {
            *sum = counters.get(&index, 0)?.iter().sum();
        }
        Ok(sums)
    }

    /// Runs the program on one frame in the kernel without an interface (BPF_PROG_TEST_RUN). Returns the XDP action, the
    /// frame afterwards, and the time that it took. A stamped frame used a number, and goes nowhere.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<(u32, Vec<u8>, Duration), LoaderError> {
        let mut out = vec![0; frame.len() + 256];
        let options = TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::default() };
        let result = program(&mut self.ebpf, SEQUENCER)?.test_run(options)?;
        out.truncate(result.data_size_out as usize);
        Ok((result.return_value, out, result.duration))
    }

    /// Number that the next packet of a group gets; `None` if the group is not known or has used all its numbers.
    pub fn next(&mut self, group: u32) -> Result<Option<u64>, LoaderError> {
        let next = self.group(group)?.map(|bytes| u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])));
        Ok(next.filter(|next| *next != 0))
    }

    fn groups(&mut self) -> Result<HashMap<&mut MapData, u32, [u8; GROUP_BYTES]>, LoaderError> {
        let map = self.ebpf.map_mut("groups").ok_or(MapError::InvalidName { name: "groups".into() })?;
        Ok(HashMap::try_from(map)?)
    }

    fn epoch(&mut self, group: u32) -> Result<Option<u32>, LoaderError> {
        Ok(self.group(group)?.map(|bytes| u32::from_ne_bytes(std::array::from_fn(|i| bytes[8 + i]))))
    }

    fn group(&mut self, group: u32) -> Result<Option<[u8; GROUP_BYTES]>, LoaderError> {
        match self.groups()?.get(&group, 0) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp, ProgramError> {
    let missing = || ProgramError::IOError(std::io::Error::other(format!("the object has no program {name}")));
    ebpf.program_mut(name).ok_or_else(missing)?.try_into()
}
