//! The daemon: a writer thread with the socket, and the admin interface.

use crate::{
    Config, Core, DropReason, EpochMarks, Group, GroupEpoch, Handled, Metrics, Outbox, StartError, admin, back_end::Sender,
};
use corniche_aom_wire::MAX_PACKET_BYTES;
use prometheus_client::registry::Registry;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{RecvFlags, recv},
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{self, Write},
    net::{SocketAddr, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Maximum number of requests that are stamped before their packets are sent.
pub const BATCH: usize = 64;
const MAX_GROUPS: usize = 64;
/// The system caps the size.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// A running sequencer.
#[derive(Debug)]
pub struct Sequencer {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    metrics: Metrics,
    stop: StopHandle,
    writer: JoinHandle<io::Result<()>>,
    admin_thread: Option<JoinHandle<()>>,
}

/// Stops a sequencer; cheap to clone.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<UnixStream>);

impl StopHandle {
    /// Stops the sequencer. Its epochs remain used.
    pub fn stop(&self) {
        // A full pipe or a closed one means that the writer stops already.
        let _ = (&*self.0).write(&[1]);
    }
}

impl Sequencer {
    /// Starts a sequencer of 1 to 64 groups, which are on standby (Q5). `data` is its directory, created if missing.
    ///
    /// Only this process may ever use the groups' secret keys, and only with this directory. `config.groups` has no effect.
    pub fn start(config: &Config, groups: Vec<Group>, data: &Path) -> Result<Self, StartError> {
        config.check()?;
        if !(1..=MAX_GROUPS).contains(&groups.len()) {
            return Err(StartError::Config(format!("groups: expected 1 to {MAX_GROUPS}, got {}", groups.len())));
        }
        let marks = EpochMarks::open(data)?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, groups.iter().map(|group| group.group));
        let socket = receiving_socket(config.listen).map_err(StartError::io("listen on", config.listen))?;
        let address = socket.local_addr().map_err(StartError::io("read the address of", config.listen))?;
        let stamping = Stamping::open(config, &groups, &socket, address.port())?;
        let mut core = Core::new(config.timing(), config.sign_every);
        for group in groups {
            let used = marks.used(group.chain_id, group.group);
            core.add(group, used)?;
        }
        let (stop, stopped) = UnixStream::pair().map_err(StartError::io("open", "a pair of sockets"))?;
        // A stop never blocks.
        stop.set_nonblocking(true).map_err(StartError::io("configure", "a pair of sockets"))?;
        let (admin_stop, admin_stopped) = watch::channel(());
        let admin = config.admin.map(admin::bind).transpose()?;
        let admin_address = admin.as_ref().map(|(_, address)| *address);

        let writer = Writer { core, marks, socket, stamping, stopped, metrics: metrics.clone() };
        let run = move || {
            // The admin interface stays open until this thread ends, also by a panic.
            let _admin_stop = admin_stop;
            writer.run()
        };
        let writer = std::thread::Builder::new().name("sequencer".into()).spawn(run);
        let writer = writer.map_err(StartError::io("start", "the writer thread"))?;
        let admin_thread = admin.map(|(listener, _)| {
            let state = admin::State { metrics: metrics.clone(), registry };
            std::thread::Builder::new().name("admin".into()).spawn(move || admin::serve(listener, state, admin_stopped))
        });
        let admin_thread = admin_thread.transpose().map_err(StartError::io("start", "the admin thread"))?;
        Ok(Self { address, admin: admin_address, metrics, stop: StopHandle(Arc::new(stop)), writer, admin_thread })
    }

    /// Returns the UDP address for requests.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the admin interface.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns a handle that stops the sequencer.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Waits until the sequencer stops. Fails if the writer could not wait for datagrams, or panicked.
    pub fn wait(self) -> io::Result<()> {
        let result = self.writer.join();
        if let Some(admin) = self.admin_thread {
            // Its end has no result; a panic there must not hide the writer's.
            let _ = admin.join();
        }
        result.unwrap_or_else(|_| Err(io::Error::other("the writer thread panicked")))
    }
}

fn receiving_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Part that gives numbers and sends packets.
enum Stamping {
    /// The core of this thread.
    Here(Sender),
    /// A program in the kernel.
    #[cfg(feature = "xdp")]
    Kernel(Box<crate::xdp::Kernel>),
}

impl Stamping {
    #[cfg_attr(not(feature = "xdp"), expect(unused_variables, reason = "for the kernel's program"))]
    fn open(config: &Config, groups: &[Group], socket: &UdpSocket, port: u16) -> Result<Self, StartError> {
        #[cfg(feature = "xdp")]
        if let Some(xdp) = &config.xdp {
            return crate::xdp::Kernel::open(config, xdp, groups, socket, port).map(|kernel| Self::Kernel(kernel.into()));
        }
        let destinations = groups.iter().map(|group| (group.group, group.destinations.clone())).collect();
        Sender::open(config.back_end, destinations, config.listen.ip(), &config.multicast).map(Self::Here)
    }
}

/// The single owner of counters and chains.
struct Writer {
    core: Core,
    /// Locks the data directory.
    marks: EpochMarks,
    socket: UdpSocket,
    stamping: Stamping,
    stopped: UnixStream,
    metrics: Metrics,
}

impl Writer {
    fn run(mut self) -> io::Result<()> {
        let start = Instant::now();
        let mut outbox = Outbox::default();
        // One byte more than the largest packet: longer datagrams are cut, but remain too long.
        let mut datagram = vec![0; MAX_PACKET_BYTES + 1];
        while self.wait(self.deadline().map(|deadline| deadline.saturating_sub(start.elapsed())))? {
            let now = start.elapsed();
            for _ in 0..BATCH {
                match recv(&self.socket, &mut datagram[..], RecvFlags::DONTWAIT) {
                    Ok((length, _)) => self.handle(now, &datagram[..length], &mut outbox),
                    Err(Errno::AGAIN) => break,
                    Err(_) => {
                        self.metrics.count_receive_error();
                        break;
                    }
                }
            }
            let metrics = &self.metrics;
            match &mut self.stamping {
                Stamping::Here(sender) => {
                    self.core.tick(now, &mut outbox, |group, stamped| metrics.count_stamped(group, stamped, true));
                    sender.send(&outbox, |group, sent| metrics.count_sent(group, sent));
                    outbox.clear();
                }
                #[cfg(feature = "xdp")]
                Stamping::Kernel(kernel) => kernel.tick(now, metrics),
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Duration> {
        match &self.stamping {
            Stamping::Here(_) => self.core.deadline(),
            #[cfg(feature = "xdp")]
            Stamping::Kernel(kernel) => kernel.deadline(),
        }
    }

    fn handle(&mut self, now: Duration, datagram: &[u8], outbox: &mut Outbox) {
        self.metrics.count_received();
        let handled = match &self.stamping {
            Stamping::Here(_) => self.core.handle(now, datagram, outbox),
            #[cfg(feature = "xdp")]
            Stamping::Kernel(_) => self.core.handle_start(now, datagram),
        };
        match handled {
            Ok(Handled::Request(group, stamped)) => self.metrics.count_stamped(group, stamped, false),
            Ok(Handled::Repeat(group)) => self.heartbeat(now, group, outbox),
            Ok(Handled::Start(epoch)) => self.begin(now, epoch, outbox),
            Err(reason) => self.metrics.count_dropped(reason),
        }
    }

    /// Begins an epoch. The heartbeat shows it to the receivers, which have sent no request yet.
    fn begin(&mut self, now: Duration, epoch: GroupEpoch, outbox: &mut Outbox) {
        let GroupEpoch { chain_id, group, epoch: number } = epoch;
        // Q5: durable before the first stamp. This blocks all groups for the time of two syncs.
        if let Err(error) = self.marks.record(epoch) {
            tracing::error!(chain_id, group, epoch = number, %error, "an epoch cannot begin");
            return self.metrics.count_dropped(DropReason::Record);
        }
        self.core.begin(epoch);
        #[cfg(feature = "xdp")]
        if let Stamping::Kernel(kernel) = &mut self.stamping
            && let Err(error) = kernel.begin(now, group, number, &self.core.tag_keys(group, number).unwrap_or_default())
        {
            // The receivers suspect the sequencer, and agree on the next epoch.
            tracing::error!(chain_id, group, epoch = number, %error, "begin of an epoch in the XDP program failed");
            return self.metrics.count_dropped(DropReason::Record);
        }
        self.metrics.count_begun(group, number);
        self.heartbeat(now, group, outbox);
        tracing::info!(chain_id, group, epoch = number, "an epoch begins");
    }

    fn heartbeat(&mut self, now: Duration, group: u32, outbox: &mut Outbox) {
        match &mut self.stamping {
            Stamping::Here(_) => match self.core.heartbeat(now, group, outbox) {
                Some(stamped) => self.metrics.count_stamped(group, stamped, true),
                None => self.metrics.count_dropped(DropReason::Exhausted),
            },
            #[cfg(feature = "xdp")]
            Stamping::Kernel(kernel) => kernel.heartbeat(group),
        }
    }

    /// Waits for a datagram, at most for `timeout`. Returns false if the sequencer shall stop.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let timeout = timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        let mut sources = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::IN)];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(sources[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }
}
