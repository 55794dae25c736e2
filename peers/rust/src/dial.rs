//! A TCP connection of a client on tokio, counted.

use std::{io, net::SocketAddr, os::fd::AsRawFd, sync::Arc, time::Duration};

use tokio::net::{TcpSocket, TcpStream};

use crate::{
    load::{Connections, Failure, connections::Open},
    stream::{Accompanied, Companion},
};

/// How long a connection may take to be there.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Opens a connection. It is counted as open as long as the second part lives.
pub async fn tcp(address: SocketAddr, connections: &Arc<Connections>) -> Result<(TcpStream, Open), Failure> {
    let dialing = tokio::time::timeout(CONNECT, connect(address, connections));
    let dialed = dialing.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match dialed {
        Ok(stream) => Ok((stream, connections.opened())),
        Err(e) => {
            connections.failed();
            Err(Failure::of(&e))
        }
    }
}

async fn connect(address: SocketAddr, connections: &Connections) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    if let Some(source) = connections.source() {
        take_port_late(&socket)?;
        socket.bind((source, 0).into())?;
    }
    socket.connect(address).await
}

/// Lets the kernel choose the port when a bound socket connects: it then takes one again for
/// another destination.
pub fn take_port_late(socket: &impl AsRawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option is an int, which is there.
    let set = unsafe {
        let (option, value) = (libc::IP_BIND_ADDRESS_NO_PORT, (&raw const on).cast());
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, option, value, size_of_val(&on) as libc::socklen_t)
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A counted connection, for a library that dials by itself.
pub async fn counted(address: SocketAddr, connections: Arc<Connections>) -> Result<Accompanied<Open>, Failure> {
    let (stream, companion) = tcp(address, &connections).await?;
    Ok(Accompanied { stream, companion })
}

impl Companion for Open {}

pub fn parse(address: &str) -> Result<SocketAddr, String> {
    address.parse().map_err(|e| format!("address {address}: {e}"))
}
