//! A server's thread by io_uring: one system call sends an answer and waits for what comes next,
//! for as many connections as are ready.

use std::{
    io,
    net::{Shutdown, TcpStream},
    os::fd::AsRawFd,
    time::Instant,
};

use super::{PATIENCE, SWEEP, Thread, conversation::Conversation, ring::Ring};

/// A connection, which lives until none of its operations is under way.
struct Connection {
    stream: TcpStream,
    talk: Conversation,
    receiving: bool,
    sending: bool,
    broken: bool,
    last: Instant, // when something came or went
}

/// Tokens are a descriptor and what is done with it.
const SENT: u64 = 1;
const WOKEN: u64 = u64::MAX;

/// Serves a thread's connections, which lie at the places of their descriptors.
pub fn run(thread: &Thread) -> io::Result<()> {
    let mut ring = Ring::new()?;
    ring.watch(WOKEN, thread.wake.descriptor())?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut swept = Instant::now();
    loop {
        let completions = ring.wait(SWEEP)?;
        let now = Instant::now();
        for completion in 0..completions {
            let (token, result) = ring.completion(completion);
            if token == WOKEN {
                thread.wake.reset();
                for stream in thread.take() {
                    place(&mut ring, &mut connections, stream, now)?;
                }
                ring.watch(WOKEN, thread.wake.descriptor())?;
                continue;
            }
            let place = &mut connections[(token >> 1) as usize];
            let connection = place.as_mut().expect("a connection lives as long as its operations");
            connection.last = now;
            connection.completed(token & SENT, result);
            if !connection.go_on(&mut ring)? {
                *place = None; // which closes it
            }
        }
        if now.duration_since(swept) >= SWEEP {
            swept = now;
            for connection in connections.iter().flatten() {
                if connection.talk.is_in_the_middle() && now.duration_since(connection.last) > PATIENCE {
                    let _ = connection.stream.shutdown(Shutdown::Both); // its operations end then
                }
            }
        }
    }
}

fn place(
    ring: &mut Ring,
    connections: &mut Vec<Option<Connection>>,
    stream: TcpStream,
    now: Instant,
) -> io::Result<()> {
    // The ring waits for what cannot be done at once only where the socket would.
    stream.set_nonblocking(false)?;
    let place = stream.as_raw_fd() as usize;
    connections.resize_with(connections.len().max(place + 1), || None);
    let talk = Conversation::default();
    let connection = Connection { stream, talk, receiving: false, sending: false, broken: false, last: now };
    connections[place].insert(connection).go_on(ring).map(|_| ())
}

impl Connection {
    fn completed(&mut self, what: u64, result: io::Result<usize>) {
        match what {
            SENT => {
                self.sending = false;
                match result {
                    Ok(count) => self.talk.sent(count),
                    Err(_) => self.broken = true,
                }
            }
            _ => {
                self.receiving = false;
                match result {
                    Ok(count) => self.talk.received(count),
                    // It was to follow a send that fell short.
                    Err(e) if e.raw_os_error() == Some(libc::ECANCELED) => {}
                    Err(_) => self.broken = true,
                }
            }
        }
    }

    /// Begins what is to be done next, and returns whether the connection goes on. While
    /// something is under way, its memory is not touched.
    fn go_on(&mut self, ring: &mut Ring) -> io::Result<bool> {
        if self.sending || self.receiving {
            return Ok(true);
        }
        if self.broken {
            return Ok(false);
        }
        let fd = self.stream.as_raw_fd();
        let token = (fd as u64) << 1;
        if self.talk.answer() {
            let (first, then) = self.talk.outgoing();
            let only = first.is_empty() || then.is_empty();
            let bytes: *const [u8] = if first.is_empty() { then } else { first };
            let room = if only { self.talk.room_behind().map(std::ptr::from_mut) } else { None };
            self.sending = true;
            self.receiving = room.is_some();
            // SAFETY: both lie in the conversation's memory, which nothing touches while
            // something is under way; the room is written to only when the bytes have gone.
            unsafe {
                match room {
                    Some(room) => {
                        ring.send_before_next(token | SENT, fd, bytes)?;
                        ring.receive(token, fd, room)?;
                    }
                    None => ring.send(token | SENT, fd, bytes)?,
                }
            }
            return Ok(true);
        }
        if self.talk.is_over() {
            return Ok(false);
        }
        self.receiving = true;
        // SAFETY: nothing touches the conversation's memory while something is under way.
        unsafe { ring.receive(token, fd, self.talk.room())? };
        Ok(true)
    }
}
