//! A client's call over bare TCP, without its socket: the request that goes and the answer that
//! comes.

use bytes::Bytes;
use prost::Message;

use super::payload::{self, Frame};
use crate::{
    load::{Caller, Failure, Next, Plan, filling::Random, now},
    messages::{self, MAX_MESSAGE, Payload, Status},
};

const FAILED: u32 = 1 << 31; // in an answer's length

/// A caller with its requests, whose memory is used again.
pub struct Asking {
    pub caller: Caller,
    random: Random,
    frame: Frame,
    number: u64,
    is_next: bool,    // the request was not sent yet
    pub sent_at: i64, // the last call
}

impl Asking {
    pub fn new(plan: &Plan, caller: Caller) -> Asking {
        let mut random = Random::new(plan.client.seed, caller.index);
        let mut frame = Frame::new(plan.workload.request_bytes);
        random.fill(frame.data_mut());
        Asking { caller, random, frame, number: 0, is_next: false, sent_at: 0 }
    }

    /// Makes the next request, and returns when it goes.
    pub fn next(&mut self) -> Next {
        if !std::mem::replace(&mut self.is_next, true) {
            self.number += 1;
            self.random.freshen(self.frame.data_mut());
            self.frame.write(self.number, messages::timestamp());
        }
        let next = self.caller.begin();
        if let Next::Call(sent) = next {
            (self.is_next, self.sent_at) = (false, sent);
        }
        next
    }

    pub fn request(&self) -> &[u8] {
        self.frame.frame()
    }

    /// Notes how the call went; the answer is a message, or the connection's failure.
    pub fn end(&mut self, answer: Result<&[u8], Failure>) {
        let decoded = answer.and_then(decode);
        let ended = now();
        let verdict = decoded.and_then(|(id, data)| {
            if id == self.number && *data == *self.frame.data() {
                return Ok(());
            }
            let (number, asked, came) = (self.number, self.frame.data().len(), data.len());
            let what = format!("asked with id {number} and {asked} bytes, answered with id {id} and {came} bytes");
            Err(Failure::wrong_answer(what))
        });
        self.caller.end(self.sent_at, ended, verdict);
    }
}

/// The id and the data of an answer: in its place, or where a whole decoder put them.
fn decode(message: &[u8]) -> Result<(u64, std::borrow::Cow<'_, [u8]>), Failure> {
    if let Some(fields) = payload::fields(message) {
        return Ok((fields.id, message[fields.data].into()));
    }
    let payload =
        Payload::decode(message).map_err(|e| Failure::wrong_answer(format!("the answer is no Payload: {e}")))?;
    Ok((payload.id, Vec::from(payload.data).into()))
}

/// How far the call of a connection is.
#[derive(Default)]
pub struct Exchange {
    pub sent: usize, // of the request
    input: Vec<u8>,
    come: usize,
}

impl Exchange {
    /// Prepares for a call. An answer will be about as long as its request.
    pub fn begin(&mut self, request: &[u8]) {
        (self.sent, self.come) = (0, 0);
        if self.input.len() < request.len() + 16 {
            self.input.resize(request.len() + 16, 0);
        }
    }

    /// Room to read into, which grows with what has come.
    pub fn room(&mut self) -> &mut [u8] {
        if self.come == self.input.len() {
            self.input.resize((2 * self.come).min(4 + MAX_MESSAGE), 0);
        }
        &mut self.input[self.come..]
    }

    /// Takes the number of bytes that were read into the room, and returns the answer once it is
    /// there as a whole.
    pub fn received(&mut self, count: usize) -> Option<Result<&[u8], Failure>> {
        if count == 0 {
            return Some(Err(Failure::closed("the server closed the connection in the middle of a call")));
        }
        self.come += count;
        let head = u32::from_be_bytes(*self.input[..self.come].first_chunk::<4>()?);
        let length = (head & !FAILED) as usize;
        if length > MAX_MESSAGE {
            let what = format!("an answer of {length} bytes is announced, {MAX_MESSAGE} are allowed");
            return Some(Err(Failure::new("application", "ResourceExhausted", what)));
        }
        if self.come < 4 + length {
            return None;
        }
        if self.come > 4 + length {
            return Some(Err(Failure::wrong_answer("more came than an answer")));
        }
        let message = &self.input[4..4 + length];
        Some(if head & FAILED == 0 { Ok(message) } else { Err(failed(message)) })
    }
}

fn failed(status: &[u8]) -> Failure {
    match Status::decode(Bytes::copy_from_slice(status)) {
        Ok(status) => Failure::application(status.code, status.message),
        Err(e) => Failure::wrong_answer(format!("the answer is no status: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(bytes: &[u8]) -> Option<Result<Vec<u8>, String>> {
        let mut exchange = Exchange::default();
        exchange.begin(&[0; 8]);
        let mut answer = None;
        for byte in bytes {
            exchange.room()[0] = *byte;
            answer = exchange.received(1).map(|r| r.map(<[u8]>::to_vec).map_err(|f| f.code.to_string()));
        }
        answer
    }

    #[test]
    fn answers_come_byte_by_byte() {
        assert_eq!(receive(b"\0\0\0\x02h"), None);
        assert_eq!(receive(b"\0\0\0\x02hi"), Some(Ok(b"hi".to_vec())));
        let long = [&[0, 0, 1, 0][..], &[7; 256]].concat();
        assert_eq!(receive(&long), Some(Ok(vec![7; 256])));
    }

    #[test]
    fn failures_and_nonsense() {
        assert_eq!(receive(b"\x80\0\0\x02\x08\x08"), Some(Err("ResourceExhausted".into())));
        assert_eq!(receive(b"\x7f\xff\xff\xff"), Some(Err("ResourceExhausted".into())));
        assert_eq!(receive(b"\x80\0\0\x01\xff"), Some(Err("WrongAnswer".into())));
    }
}
