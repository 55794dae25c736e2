//! A TCP connection of a client on tokio, counted.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::AsRawFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
};

use crate::load::{Connections, Failure, connections::Open};

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
pub struct Counted {
    stream: TcpStream,
    _open: Open,
}

impl Counted {
    pub async fn dial(address: SocketAddr, connections: Arc<Connections>) -> Result<Counted, Failure> {
        let (stream, open) = tcp(address, &connections).await?;
        Ok(Counted { stream, _open: open })
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Counted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

pub fn parse(address: &str) -> Result<SocketAddr, String> {
    address.parse().map_err(|e| format!("address {address}: {e}"))
}
