//! Unix sockets, as both sides use them.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt::socket_peercred},
};
use std::{io, os::unix::net::UnixStream, path::Path};

/// Connects without waiting. A signer that hangs would otherwise block the caller as soon as its queue of connections is full.
pub fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Returns whether the peer has closed the connection.
pub fn has_hung_up(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Returns the user of the process that connected, or that listened.
pub fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(socket_peercred(stream)?.uid.as_raw())
}
