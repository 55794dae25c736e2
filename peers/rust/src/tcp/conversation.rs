//! One connection of a server, without its socket: what has come, what is to go, and the call
//! between. Answers are made in the memory that their requests came into, where they can be.

use std::ops::Range;

use bytes::{Buf, Bytes};
use prost::Message;

use super::payload;
use crate::messages::{self, INTERNAL, MAX_MESSAGE, RESOURCE_EXHAUSTED, Status, UNIMPLEMENTED};

const PREAMBLE: &[u8] = b"WLB1";
const FAILED: u32 = 1 << 31; // in a plain answer's length
const HEAD: u8 = b'H';
const MESSAGE: u8 = b'M';
const END: u8 = b'E';
/// The longest body of a head and of an end.
const MAX_HEAD: usize = 1 << 20;
/// How much is read at once, at least.
const AT_ONCE: usize = 16 << 10;
/// With so much to be sent, no more is answered. A buffer longer than this is not kept.
const ENOUGH: usize = 1 << 20;

#[derive(Default)]
pub struct Conversation {
    /// What has come is `come`; of it, `taken` is behind us. The rest is room.
    input: Vec<u8>,
    taken: usize,
    come: usize,
    /// Answers that lie in the input, before `taken`. They go first.
    in_place: Range<usize>,
    output: Vec<u8>,
    sent: usize, // of output
    call: Option<Call>,
    closing: bool, // when all has gone
    ended: bool,   // the client has said everything
}

/// A call in the framing of calls.
#[derive(Default)]
struct Call {
    began: bool, // its head has come
    message: Option<Bytes>,
    answered: bool, // what still comes is dropped
}

impl Conversation {
    /// Room to read into. It grows with what has come: an announced length costs its sender
    /// as much. Only where nothing is to be sent.
    pub fn room(&mut self) -> &mut [u8] {
        if self.taken == self.come {
            (self.taken, self.come) = (0, 0);
            if self.input.len() > ENOUGH {
                self.input = Vec::new();
            }
        } else if self.come == self.input.len() && self.taken > 0 {
            self.input.copy_within(self.taken..self.come, 0);
            (self.taken, self.come) = (0, self.come - self.taken);
        }
        if self.come == self.input.len() {
            self.input.resize((2 * self.come).clamp(AT_ONCE, 5 + MAX_MESSAGE), 0);
        }
        &mut self.input[self.come..]
    }

    /// The room that there is once all has been sent, for whoever sends and then reads in one
    /// go; none, if it must be asked for then.
    pub fn room_behind(&mut self) -> Option<&mut [u8]> {
        if self.taken != self.come || self.closing || self.input.len() > ENOUGH {
            return None;
        }
        Some(&mut self.input)
    }

    /// Takes the number of bytes that were read into the room; 0: there will be no more.
    pub fn received(&mut self, count: usize) {
        if self.to_send() == 0 && self.taken == self.come {
            (self.taken, self.come) = (0, 0);
        }
        self.come += count;
        self.ended |= count == 0;
    }

    /// Answers what has come, as far as it is there, and returns whether something is to be
    /// sent. What is not to be sent ends the connection, if that is over.
    pub fn answer(&mut self) -> bool {
        while !self.closing && self.to_send() < ENOUGH && self.next_frame() {}
        self.to_send() > 0
    }

    pub fn is_over(&self) -> bool {
        (self.closing || self.ended) && self.to_send() == 0
    }

    /// Whether the peer is in the middle of something, and should go on.
    pub fn is_in_the_middle(&self) -> bool {
        self.taken < self.come || self.to_send() > 0
    }

    /// What is to be sent: the one, then the other.
    pub fn outgoing(&self) -> (&[u8], &[u8]) {
        (&self.input[self.in_place.clone()], &self.output[self.sent..])
    }

    fn to_send(&self) -> usize {
        self.in_place.len() + self.output.len() - self.sent
    }

    pub fn sent(&mut self, count: usize) {
        let first = count.min(self.in_place.len());
        self.in_place.start += first;
        self.sent += count - first;
        if self.to_send() == 0 {
            self.in_place = 0..0;
            self.output.clear();
            self.sent = 0;
            if self.output.capacity() > ENOUGH {
                self.output = Vec::new();
            }
        }
    }

    /// Takes what comes next, if it is there as a whole.
    fn next_frame(&mut self) -> bool {
        match self.call.take() {
            None => self.next_call(),
            Some(call) => self.next_of_call(call),
        }
    }

    fn next_call(&mut self) -> bool {
        let Some(first) = self.input[self.taken..self.come].first_chunk::<4>() else { return false };
        if first == PREAMBLE {
            self.taken += PREAMBLE.len();
            self.call = Some(Call::default());
            return true;
        }
        let length = u32::from_be_bytes(*first) as usize;
        if length > MAX_MESSAGE {
            self.fail_plain(&too_long(length, MAX_MESSAGE));
            self.closing = true;
            return true;
        }
        let frame = self.taken..self.taken + 4 + length;
        if self.come < frame.end {
            return false;
        }
        self.taken = frame.end;
        self.answer_plain(frame);
        true
    }

    fn answer_plain(&mut self, frame: Range<usize>) {
        let message = frame.start + 4..frame.end;
        let follows = self.in_place.is_empty() || self.in_place.end == frame.start;
        if payload::answer_in_place(&mut self.input[message.clone()]) {
            if follows && self.output.is_empty() {
                let begin = if self.in_place.is_empty() { frame.start } else { self.in_place.start };
                self.in_place = begin..frame.end;
            } else {
                self.output.extend_from_slice(&self.input[frame]);
            }
            return;
        }
        match messages::answer_bytes(Bytes::copy_from_slice(&self.input[message])) {
            Ok(answer) => {
                self.output.extend((answer.encoded_len() as u32).to_be_bytes());
                answer.encode(&mut self.output).expect("a Vec grows");
            }
            Err(status) => self.fail_plain(&status),
        }
    }

    fn next_of_call(&mut self, mut call: Call) -> bool {
        let Some(&[kind, a, b, c, d]) = self.input[self.taken..self.come].first_chunk::<5>() else {
            self.call = Some(call);
            return false;
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let most = if kind == MESSAGE { MAX_MESSAGE } else { MAX_HEAD };
        if length > most {
            self.end(&call, Some(too_long(length, most)));
            self.closing = true;
            return true;
        }
        let body = self.taken + 5..self.taken + 5 + length;
        if self.come < body.end {
            self.call = Some(call);
            return false;
        }
        self.taken = body.end;
        let body = &self.input[body];
        match (kind, call.began) {
            (HEAD, false) => match operation(body) {
                Ok(name) if name == messages::ECHO.as_bytes() => {}
                Ok(name) => {
                    let name = String::from_utf8_lossy(name);
                    let status = Status::new(UNIMPLEMENTED, format!("this server has no operation {name}"));
                    self.end(&call, Some(status));
                    call.answered = true;
                }
                Err(wrong) => return self.breach(&call, wrong),
            },
            (MESSAGE, true) if call.answered => {}
            (MESSAGE, true) if call.message.is_none() => call.message = Some(Bytes::copy_from_slice(body)),
            (MESSAGE, true) => return self.breach(&call, "a second message of a unary call"),
            (END, true) if !body.is_empty() => return self.breach(&call, "an end with a body"),
            (END, true) => {
                match call.message.take() {
                    _ if call.answered => {}
                    None => self.end(&call, Some(Status::new(INTERNAL, "a unary call without a message"))),
                    Some(message) => self.answer_call(&call, message),
                }
                return true; // self.call is None: the call has ended
            }
            _ => return self.breach(&call, "a frame that does not come here"),
        }
        call.began = true;
        self.call = Some(call);
        true
    }

    fn answer_call(&mut self, call: &Call, message: Bytes) {
        match messages::answer_bytes(message) {
            Ok(answer) => {
                self.output.push(MESSAGE);
                self.output.extend((answer.encoded_len() as u32).to_be_bytes());
                answer.encode(&mut self.output).expect("a Vec grows");
                self.end(call, None);
            }
            Err(status) => self.end(call, Some(status)),
        }
    }

    /// Says that the peer does not keep to the page, and closes.
    fn breach(&mut self, call: &Call, what: &str) -> bool {
        self.end(call, Some(Status::new(INTERNAL, what)));
        self.closing = true;
        true
    }

    /// Ends a call in the framing of calls, unless it has been ended.
    fn end(&mut self, call: &Call, status: Option<Status>) {
        if call.answered {
            return;
        }
        let status = status.map_or(Vec::new(), |s| s.encode_to_vec());
        self.output.push(END);
        self.output.extend((4 + status.len() as u32).to_be_bytes());
        self.output.extend((status.len() as u32).to_be_bytes());
        self.output.extend(status);
    }

    fn fail_plain(&mut self, status: &Status) {
        self.output.extend((FAILED | status.encoded_len() as u32).to_be_bytes());
        self.output.extend(status.encode_to_vec());
    }
}

fn too_long(length: usize, most: usize) -> Status {
    Status::new(RESOURCE_EXHAUSTED, format!("a frame of {length} bytes is announced, {most} are allowed"))
}

/// The operation that a call's head names.
fn operation(mut head: &[u8]) -> Result<&[u8], &'static str> {
    if head.len() < 12 {
        return Err("a head that is cut short");
    }
    if head.get_u64() >> 63 != 0 {
        return Err("a timeout with its top bit");
    }
    let length = head.get_u32() as usize;
    head.get(..length).ok_or("a head that is cut short")
}

#[cfg(test)]
mod tests;
