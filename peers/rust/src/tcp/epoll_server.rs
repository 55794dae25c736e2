//! A server's thread by epoll: a read and a write a request, where the request is there as a
//! whole and the client takes its answer.

use std::{
    io::{self, IoSlice, Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use super::{
    PATIENCE, SWEEP, Thread,
    conversation::Conversation,
    poll::{Event, Poll},
};

/// The token of what wakes the thread; those of connections are their descriptors.
const WOKEN: usize = usize::MAX;

struct Connection {
    stream: TcpStream,
    talk: Conversation,
    waits_for: Event,
    last: Instant, // when something came or went
}

/// Serves a thread's connections, which lie at the places of their descriptors.
pub fn run(thread: &Thread) -> io::Result<()> {
    let mut poll = Poll::new()?;
    poll.add(thread.wake.descriptor(), WOKEN, Event::READ)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut swept = Instant::now();
    loop {
        let events = poll.wait(Some(SWEEP))?;
        let now = Instant::now();
        for event in 0..events {
            let at = poll.event(event);
            if at == WOKEN {
                thread.wake.reset();
                for stream in thread.take() {
                    poll.add(stream.as_raw_fd(), stream.as_raw_fd() as usize, Event::READ)?;
                    place(&mut connections, stream, now);
                }
                continue;
            }
            go_on(&poll, &mut connections[at], now)?;
        }
        if now.duration_since(swept) >= SWEEP {
            swept = now;
            for place in &mut connections {
                if place.as_ref().is_some_and(|c| c.has_stopped(now, PATIENCE)) {
                    *place = None;
                }
            }
        }
    }
}

fn place(connections: &mut Vec<Option<Connection>>, stream: TcpStream, now: Instant) {
    let place = stream.as_raw_fd() as usize;
    connections.resize_with(connections.len().max(place + 1), || None);
    let talk = Conversation::default();
    connections[place] = Some(Connection { stream, talk, waits_for: Event::READ, last: now });
}

fn go_on(poll: &Poll, place: &mut Option<Connection>, now: Instant) -> io::Result<()> {
    let Some(connection) = place else { return Ok(()) };
    connection.last = now;
    match connection.go_on() {
        Ok(wants) if wants == connection.waits_for => {}
        Ok(wants) => {
            connection.waits_for = wants;
            let fd = connection.stream.as_raw_fd();
            poll.change(fd, fd as usize, wants)?;
        }
        Err(_) => *place = None, // which closes it
    }
    Ok(())
}

impl Connection {
    /// Does what can be done, and returns what to wait for next. An error ends the connection.
    fn go_on(&mut self) -> io::Result<Event> {
        if self.waits_for == Event::READ {
            match self.stream.read(self.talk.room()) {
                Ok(count) => self.talk.received(count),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Event::READ),
                Err(e) => return Err(e),
            }
        }
        while self.talk.answer() {
            if !self.write()? {
                return Ok(Event::WRITE);
            }
        }
        if self.talk.is_over() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(Event::READ)
    }

    /// Sends, and returns whether all has gone.
    fn write(&mut self) -> io::Result<bool> {
        loop {
            let written = match self.talk.outgoing() {
                ([], []) => return Ok(true),
                (one, []) | ([], one) => self.stream.write(one),
                (first, then) => self.stream.write_vectored(&[IoSlice::new(first), IoSlice::new(then)]),
            };
            match written {
                Ok(count) => self.talk.sent(count),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether the peer stopped in the middle.
    fn has_stopped(&self, now: Instant, patience: Duration) -> bool {
        self.talk.is_in_the_middle() && now.duration_since(self.last) > patience
    }
}
