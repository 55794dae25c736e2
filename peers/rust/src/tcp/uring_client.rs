//! A client's thread by io_uring: one system call sends a request and waits for answers, for as
//! many calls as there are.

use std::{io, net::Shutdown, os::fd::AsRawFd};

use super::{client::Crew, ring::Ring};
use crate::load::Failure;

/// Tokens are a slot and what is done over it.
const RECEIVED: u64 = 0;
const SENT: u64 = 1;
const CONNECTED: u64 = 2;
const KINDS: u64 = 4;

/// What is under way over a slot. Until it has come back, its memory is not touched.
#[derive(Default, Clone)]
struct Underway {
    operations: u8,
    failure: Option<Failure>,
    received: Option<usize>,
    connecting: bool,
}

/// Makes a crew's calls.
pub fn run(crew: &mut Crew) -> io::Result<()> {
    let mut ring = Ring::new()?;
    let mut underway = vec![Underway::default(); crew.slots.len()];
    for stream in crew.slots.iter().filter_map(|s| s.stream.as_ref()) {
        stream.set_nonblocking(false)?; // the ring waits for what cannot be done at once
    }
    let mut cancelled = false;
    while !crew.is_done() {
        if crew.go_on() {
            for slot in crew.free_slots() {
                next(crew, slot, &mut ring, &mut underway[slot])?;
            }
        }
        let completions = ring.wait(crew.patience())?;
        for completion in 0..completions {
            let (token, result) = ring.completion(completion);
            let slot = (token / KINDS) as usize;
            let under = &mut underway[slot];
            under.operations -= 1;
            note(crew, slot, under, token % KINDS, result);
            if under.operations == 0 {
                go_on(crew, slot, &mut ring, under)?;
            }
        }
        if crew.plan.window.is_cancelled() && !cancelled {
            cancelled = true;
            for (place, under) in crew.slots.iter().zip(&mut underway).filter(|(p, _)| p.caller.is_some()) {
                under.failure = Some(Failure::cancelled());
                if let Some(stream) = &place.stream {
                    let _ = stream.shutdown(Shutdown::Both); // its operations end then
                }
            }
        }
    }
    Ok(())
}

fn note(crew: &mut Crew, slot: usize, under: &mut Underway, what: u64, result: io::Result<usize>) {
    match (what, result) {
        (RECEIVED, Ok(count)) => under.received = Some(count),
        (SENT, Ok(count)) => crew.slots[slot].exchange.sent += count,
        (CONNECTED, Ok(_)) => {}
        // It was to follow a send that fell short.
        (RECEIVED, Err(e)) if e.raw_os_error() == Some(libc::ECANCELED) => {}
        (_, Err(e)) => _ = under.failure.get_or_insert(Failure::of(&e)),
        _ => unreachable!("tokens are of three kinds"),
    }
}

/// Acts on what has come back.
fn go_on(crew: &mut Crew, slot: usize, ring: &mut Ring, under: &mut Underway) -> io::Result<()> {
    if under.failure.is_none() && std::mem::take(&mut under.connecting) {
        under.failure = crew.connected(slot).err();
        if let Some(stream) = &crew.slots[slot].stream {
            stream.set_nonblocking(false)?;
        }
    }
    let ended = match (under.failure.take(), under.received.take()) {
        (Some(failure), _) => {
            under.connecting = false;
            crew.failed(slot, failure);
            true
        }
        (None, Some(count)) => crew.received(slot, count),
        (None, None) => false,
    };
    if ended { next(crew, slot, ring, under) } else { ask(crew, slot, ring, under) }
}

/// Begins calls over a free slot, until one is under way or none waits.
fn next(crew: &mut Crew, slot: usize, ring: &mut Ring, under: &mut Underway) -> io::Result<()> {
    while crew.take(slot) {
        if crew.slots[slot].stream.is_some() {
            return ask(crew, slot, ring, under);
        }
        match crew.dial(slot) {
            Ok(()) => {
                under.operations += 1;
                under.connecting = true;
                let stream = crew.slots[slot].stream.as_ref().expect("it was dialed");
                return ring.watch_connecting(slot as u64 * KINDS + CONNECTED, stream.as_raw_fd());
            }
            Err(failure) => crew.failed(slot, failure),
        }
    }
    Ok(())
}

/// Sends what is left of the request, and then reads.
fn ask(crew: &mut Crew, slot: usize, ring: &mut Ring, under: &mut Underway) -> io::Result<()> {
    let request: *const [u8] = crew.request(slot);
    let place = &mut crew.slots[slot];
    let fd = place.stream.as_ref().expect("what is asked is open").as_raw_fd();
    let room: *mut [u8] = place.exchange.room();
    let token = slot as u64 * KINDS;
    // SAFETY: a caller's request and a slot's room are touched only when no operation is under
    // way over the slot, and neither callers nor slots move.
    unsafe {
        if !request.is_empty() {
            under.operations += 1;
            ring.send_before_next(token + SENT, fd, request)?;
        }
        under.operations += 1;
        ring.receive(token + RECEIVED, fd, room)
    }
}
