//! One connection: what has come, what is to go, and the call between.

use std::{
    io::{self, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use super::poll::{Event, read_into};
use crate::echo::{self, INTERNAL, MAX_MESSAGE, Payload, RESOURCE_EXHAUSTED, Status, UNIMPLEMENTED};

const PREAMBLE: &[u8] = b"WLB1";
const FAILED: u32 = 1 << 31; // in a plain answer's length
const HEAD: u8 = b'H';
const MESSAGE: u8 = b'M';
const END: u8 = b'E';
/// The longest body of a head and of an end.
const MAX_HEAD: usize = 1 << 20;
/// How much is read at once, at least.
const AT_ONCE: usize = 16 << 10;
/// With so much to be sent, no more is read.
const ENOUGH: usize = 1 << 20;

pub struct Connection {
    stream: TcpStream,
    pub waits_for: Event,
    input: BytesMut,
    output: Vec<u8>,
    sent: usize, // of output
    call: Option<Call>,
    closing: bool, // when the output has gone
    ended: bool,   // the client has said everything
    last: Instant, // when something came or went
}

/// A call in the framing of calls.
#[derive(Default)]
struct Call {
    began: bool, // its head has come
    message: Option<Bytes>,
    answered: bool, // what still comes is dropped
}

impl Connection {
    pub fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            waits_for: Event::READ,
            input: BytesMut::new(),
            output: Vec::new(),
            sent: 0,
            call: None,
            closing: false,
            ended: false,
            last: Instant::now(),
        }
    }

    /// Does what can be done at an event, and returns what to wait for next. An error ends
    /// the connection.
    pub fn go_on(&mut self, event: Event) -> io::Result<Event> {
        self.last = Instant::now();
        if event != Event::WRITE && !self.closing {
            self.read()?;
        }
        loop {
            while !self.closing && self.output.len() < ENOUGH && self.next_frame() {}
            if !self.write()? {
                return Ok(Event::WRITE);
            }
            if self.closing || self.ended {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if !self.next_frame() {
                return Ok(Event::READ);
            }
        }
    }

    /// Whether the peer stopped in the middle.
    pub fn has_stopped(&self, patience: Duration) -> bool {
        (!self.input.is_empty() || !self.output.is_empty()) && self.last.elapsed() > patience
    }

    fn read(&mut self) -> io::Result<()> {
        // Room comes with what has come: an announced length costs its sender as much.
        let room = AT_ONCE.max(self.input.len());
        match read_into(&self.stream, &mut self.input, room) {
            Ok(0) => self.ended = true,
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
            _ => {}
        }
        Ok(())
    }

    /// Sends, and returns whether all has gone.
    fn write(&mut self) -> io::Result<bool> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Takes what comes next, if it is there as a whole.
    fn next_frame(&mut self) -> bool {
        match self.call.take() {
            None => self.next_call(),
            Some(call) => self.next_of_call(call),
        }
    }

    fn next_call(&mut self) -> bool {
        let Some(first) = self.input.first_chunk::<4>() else { return false };
        if first == PREAMBLE {
            self.input.advance(PREAMBLE.len());
            self.call = Some(Call::default());
            return true;
        }
        let length = u32::from_be_bytes(*first) as usize;
        if length > MAX_MESSAGE {
            self.fail_plain(&too_long(length, MAX_MESSAGE));
            self.closing = true;
            return true;
        }
        if self.input.len() < 4 + length {
            return false;
        }
        self.input.advance(4);
        match echo::answer_bytes(self.input.split_to(length).freeze()) {
            Ok(answer) => {
                self.output.extend((answer.encoded_len() as u32).to_be_bytes());
                self.put(&answer);
            }
            Err(status) => self.fail_plain(&status),
        }
        true
    }

    fn next_of_call(&mut self, mut call: Call) -> bool {
        let Some(&[kind, a, b, c, d]) = self.input.first_chunk::<5>() else {
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
        if self.input.len() < 5 + length {
            self.call = Some(call);
            return false;
        }
        self.input.advance(5);
        let body = self.input.split_to(length).freeze();
        match (kind, call.began) {
            (HEAD, false) => match operation(body) {
                Ok(name) if name == echo::OPERATION.as_bytes() => {}
                Ok(name) => {
                    let name = String::from_utf8_lossy(&name);
                    self.end(&call, Some(Status::new(UNIMPLEMENTED, format!("this server has no operation {name}"))));
                    call.answered = true;
                }
                Err(wrong) => return self.breach(&call, wrong),
            },
            (MESSAGE, true) if call.answered => {}
            (MESSAGE, true) if call.message.is_none() => call.message = Some(body),
            (MESSAGE, true) => return self.breach(&call, "a second message of a unary call"),
            (END, true) if !body.is_empty() => return self.breach(&call, "an end with a body"),
            (END, true) => {
                match call.message.take() {
                    _ if call.answered => {}
                    None => self.end(&call, Some(Status::new(INTERNAL, "a unary call without a message"))),
                    Some(message) => self.answer(&call, message),
                }
                return true; // self.call is None: the call has ended
            }
            _ => return self.breach(&call, "a frame that does not come here"),
        }
        call.began = true;
        self.call = Some(call);
        true
    }

    fn answer(&mut self, call: &Call, message: Bytes) {
        match echo::answer_bytes(message) {
            Ok(answer) => {
                self.output.push(MESSAGE);
                self.output.extend((answer.encoded_len() as u32).to_be_bytes());
                self.put(&answer);
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

    fn put(&mut self, answer: &Payload) {
        answer.encode(&mut self.output).expect("a Vec grows");
    }
}

fn too_long(length: usize, most: usize) -> Status {
    Status::new(RESOURCE_EXHAUSTED, format!("a frame of {length} bytes is announced, {most} are allowed"))
}

/// The operation that a call's head names.
fn operation(mut head: Bytes) -> Result<Bytes, &'static str> {
    if head.remaining() < 12 {
        return Err("a head that is cut short");
    }
    if head.get_u64() >> 63 != 0 {
        return Err("a timeout with its top bit");
    }
    let length = head.get_u32() as usize;
    if head.remaining() < length {
        return Err("a head that is cut short");
    }
    Ok(head.split_to(length))
}
