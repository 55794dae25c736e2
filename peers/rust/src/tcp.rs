//! The stack tcp: connections in docs/wire-tcp.md's framings, on epoll, a thread a CPU.

mod connection;
mod poll;

use std::{
    io,
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, RawFd},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use connection::Connection;
use poll::{Event, Poll, Wake};

/// How long a peer may take over a body that it has begun, or over reading its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A thread's own connections come to it here.
struct Thread {
    wake: Wake,
    accepted: Mutex<Vec<TcpStream>>,
}

pub fn serve(listener: TcpListener) -> io::Result<()> {
    let mut threads = Vec::new();
    for _ in 0..crate::threads() {
        let own = Arc::new(Thread { wake: Wake::new()?, accepted: Mutex::default() });
        threads.push(own.clone());
        thread::spawn(move || run(&own).expect("epoll works"));
    }
    let accepting = Poll::new()?;
    accepting.add(listener.as_raw_fd(), Event::READ)?;
    for next in (0..threads.len()).cycle() {
        let stream = accept(&listener, &accepting)?;
        let thread = &threads[next];
        thread.accepted.lock().expect("no thread panics").push(stream);
        thread.wake.wake();
    }
    Ok(())
}

fn accept(listener: &TcpListener, accepting: &Poll) -> io::Result<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true); // without it calls are only slower
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => accepting.wait(None, |_, _| ())?,
            // Descriptors have run out, or the client has gone: others go on.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Serves a thread's connections, which lie at the places of their descriptors.
fn run(thread: &Thread) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(thread.wake.descriptor(), Event::READ)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut swept = Instant::now();
    let mut ready: Vec<(RawFd, Event)> = Vec::new();
    loop {
        poll.wait(Some(Duration::from_secs(1)), |fd, event| ready.push((fd, event)))?;
        for (fd, event) in ready.drain(..) {
            if fd == thread.wake.descriptor() {
                thread.wake.reset();
                for stream in thread.accepted.lock().expect("no thread panics").drain(..) {
                    let place = stream.as_raw_fd() as usize;
                    poll.add(stream.as_raw_fd(), Event::READ)?;
                    connections.resize_with(connections.len().max(place + 1), || None);
                    connections[place] = Some(Connection::new(stream));
                }
                continue;
            }
            let place = &mut connections[fd as usize];
            let Some(connection) = place else { continue };
            match connection.go_on(event) {
                Ok(wants) if wants == connection.waits_for => {}
                Ok(wants) => {
                    connection.waits_for = wants;
                    poll.change(fd, wants)?;
                }
                Err(_) => *place = None, // which closes it
            }
        }
        if swept.elapsed() > Duration::from_secs(1) {
            swept = Instant::now();
            for place in &mut connections {
                if place.as_ref().is_some_and(|c| c.has_stopped(PATIENCE)) {
                    *place = None;
                }
            }
        }
    }
}
