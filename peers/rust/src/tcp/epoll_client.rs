//! A client's thread by epoll: a write and a read a call, and a wait for as many as are ready.

use std::{
    io::{self, Read, Write},
    os::fd::AsRawFd,
    thread,
};

use super::{
    client::Crew,
    poll::{Event, Poll},
};
use crate::load::Failure;

/// Makes a crew's calls.
pub fn run(crew: &mut Crew) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut waits_for = vec![Event::READ; crew.slots.len()];
    for (slot, place) in crew.slots.iter().enumerate() {
        if let Some(stream) = &place.stream {
            poll.add(stream.as_raw_fd(), slot, Event::READ)?;
        }
    }
    while !crew.is_done() {
        if crew.go_on() {
            for slot in crew.free_slots() {
                next(crew, slot, &poll, &mut waits_for[slot])?;
            }
        }
        let mut patience = crew.patience();
        if crew.rests() {
            thread::sleep(std::mem::take(&mut patience)); // epoll's milliseconds are too coarse
        }
        let events = poll.wait(Some(patience))?;
        for event in 0..events {
            let slot = poll.event(event);
            go_on(crew, slot, &poll, &mut waits_for[slot])?;
        }
        if crew.plan.window.is_cancelled() {
            crew.cancel();
        }
    }
    Ok(())
}

/// Begins calls over a free slot, until one is under way or none waits.
fn next(crew: &mut Crew, slot: usize, poll: &Poll, waits_for: &mut Event) -> io::Result<()> {
    while crew.take(slot) {
        if crew.slots[slot].stream.is_none() {
            if let Err(failure) = crew.dial(slot) {
                crew.failed(slot, failure);
                continue;
            }
            *waits_for = Event::WRITE;
            let stream = crew.slots[slot].stream.as_ref().expect("it was dialed");
            return poll.add(stream.as_raw_fd(), slot, Event::WRITE);
        }
        match send(crew, slot) {
            Ok(wants) => return wait_for(crew, slot, poll, waits_for, wants),
            Err(failure) => crew.failed(slot, failure),
        }
    }
    Ok(())
}

fn go_on(crew: &mut Crew, slot: usize, poll: &Poll, waits_for: &mut Event) -> io::Result<()> {
    if crew.slots[slot].caller.is_none() {
        // Nothing was asked: the server has ended the connection.
        crew.slots[slot].stream = None;
        return Ok(());
    }
    let went = if *waits_for == Event::WRITE {
        crew.connected(slot).and_then(|()| send(crew, slot)).map(|wants| (false, wants))
    } else {
        receive(crew, slot).map(|ended| (ended, Event::READ))
    };
    match went {
        Ok((false, wants)) => wait_for(crew, slot, poll, waits_for, wants),
        Ok((true, _)) => next(crew, slot, poll, waits_for),
        Err(failure) => {
            crew.failed(slot, failure);
            next(crew, slot, poll, waits_for)
        }
    }
}

/// Changes what is waited for, where it is something else.
fn wait_for(crew: &Crew, slot: usize, poll: &Poll, waits_for: &mut Event, wants: Event) -> io::Result<()> {
    if *waits_for == wants {
        return Ok(());
    }
    *waits_for = wants;
    let stream = crew.slots[slot].stream.as_ref().expect("what is waited for is open");
    poll.change(stream.as_raw_fd(), slot, wants)
}

/// Sends of the request what can be sent, and returns what to wait for.
fn send(crew: &mut Crew, slot: usize) -> Result<Event, Failure> {
    loop {
        let request = crew.request(slot);
        if request.is_empty() {
            return Ok(Event::READ);
        }
        let mut stream = crew.slots[slot].stream.as_ref().expect("what is sent to is open");
        match stream.write(request) {
            Ok(count) => crew.slots[slot].exchange.sent += count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Event::WRITE),
            Err(e) => return Err(Failure::of(&e)),
        }
    }
}

/// Reads what there is, and returns whether it was the end of the answer.
fn receive(crew: &mut Crew, slot: usize) -> Result<bool, Failure> {
    let place = &mut crew.slots[slot];
    let mut stream = place.stream.as_ref().expect("what is read from is open");
    match stream.read(place.exchange.room()) {
        Ok(count) => Ok(crew.received(slot, count)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(Failure::of(&e)),
    }
}
