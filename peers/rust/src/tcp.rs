//! The stack tcp: connections in docs/wire-tcp.md's framings, a thread a CPU, by epoll or
//! io_uring and no library else.
//!
//! 1. `conversation.rs` is a server's connection without its socket; `exchange.rs` a client's.
//!    `client.rs` gives callers their connections.
//! 2. `payload.rs` reads and writes messages in the buffers that they come and go in.
//! 3. `epoll_server.rs`, `uring_server.rs`, `epoll_client.rs` and `uring_client.rs` move the
//!    bytes, through `poll.rs` and `ring.rs`.

mod client;
mod conversation;
mod epoll_client;
mod epoll_server;
mod exchange;
mod payload;
mod poll;
mod ring;
mod uring_client;
mod uring_server;

pub use client::measure;

use std::{
    io,
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::contract::Variant;
use poll::{Event, Poll, Wake};

/// How long a peer may take over a body that it has begun, or over reading its answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time between two looks for peers that have stopped.
const SWEEP: Duration = Duration::from_secs(1);

/// A thread's own connections come to it here.
struct Thread {
    wake: Wake,
    accepted: Mutex<Vec<TcpStream>>,
}

impl Thread {
    /// Connections that came since the thread was woken.
    fn take(&self) -> Vec<TcpStream> {
        std::mem::take(&mut self.accepted.lock().expect("no thread panics"))
    }
}

/// Whether the variant moves its bytes by io_uring, which the kernel must permit.
fn uses_uring(variant: &Variant) -> Result<bool, String> {
    let uring = variant.has("io", "uring");
    if uring {
        ring::check()?;
    }
    Ok(uring)
}

/// Prepares a server: what it returns serves a listener.
pub fn server(variant: &Variant) -> Result<impl FnOnce(TcpListener) -> io::Result<()> + use<>, String> {
    let run = if uses_uring(variant)? { uring_server::run } else { epoll_server::run };
    Ok(move |listener| serve(listener, run))
}

fn serve(listener: TcpListener, run: fn(&Thread) -> io::Result<()>) -> io::Result<()> {
    let mut threads = Vec::new();
    for _ in 0..crate::threads() {
        let own = Arc::new(Thread { wake: Wake::new()?, accepted: Mutex::default() });
        threads.push(own.clone());
        thread::spawn(move || {
            if let Err(e) = run(&own) {
                crate::stop(&format!("a thread of the server stopped by itself: {e}"));
            }
        });
    }
    let mut accepting = Poll::new()?;
    accepting.add(listener.as_raw_fd(), 0, Event::READ)?;
    for next in (0..threads.len()).cycle() {
        let stream = accept(&listener, &mut accepting)?;
        let thread = &threads[next];
        thread.accepted.lock().expect("no thread panics").push(stream);
        thread.wake.wake();
    }
    Ok(())
}

fn accept(listener: &TcpListener, accepting: &mut Poll) -> io::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true); // without it calls are only slower
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                accepting.wait(None)?;
            }
            // Descriptors have run out, or the client has gone: others go on.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}
