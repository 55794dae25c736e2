//! A Payload where it lies, without a copy: its fields found, and its timestamp replaced.

use std::ops::Range;

use crate::messages;

/// The length as a varint of the timestamps of 1970 to 2262.
const TIMESTAMP_BYTES: usize = 9;
const ID: u64 = 1 << 3; // a varint
const DATA: u64 = 2 << 3 | 2; // bytes
const TIMESTAMP: u64 = 3 << 3; // a varint

/// Where the fields of a message are that has each at most once, and no others.
#[derive(Default, Debug, PartialEq)]
pub struct Fields {
    pub id: u64,
    pub data: Range<usize>,
    timestamp: Option<Range<usize>>,
}

/// Finds the fields. Messages that it returns nothing for may still be right: a whole decoder
/// tells.
pub fn fields(message: &[u8]) -> Option<Fields> {
    let mut found = Fields::default();
    let (mut at, mut seen) = (0, 0);
    while at < message.len() {
        let key = varint(message, &mut at)?;
        if key > TIMESTAMP || seen & (1 << key) != 0 {
            return None;
        }
        seen |= 1 << key;
        match key {
            ID => found.id = varint(message, &mut at)?,
            DATA => {
                let length = usize::try_from(varint(message, &mut at)?).ok()?;
                let end = at.checked_add(length).filter(|&end| end <= message.len())?;
                found.data = at..end;
                at = end;
            }
            TIMESTAMP => {
                let begin = at;
                varint(message, &mut at)?;
                found.timestamp = Some(begin..at);
            }
            _ => return None,
        }
    }
    Some(found)
}

/// Makes the answer to a request of the request, if that needs no other length.
pub fn answer_in_place(request: &mut [u8]) -> bool {
    let Some(Fields { timestamp: Some(place), .. }) = fields(request) else { return false };
    let now = messages::timestamp() as u64;
    if place.len() != TIMESTAMP_BYTES || varint_bytes(now) != TIMESTAMP_BYTES {
        return false;
    }
    put_varint(&mut request[place], now);
    true
}

fn varint(from: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for (i, byte) in from.get(*at..)?.iter().take(10).enumerate() {
        if i == 9 && *byte > 1 {
            return None; // beyond 64 bits
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            *at += i + 1;
            return Some(value);
        }
    }
    None
}

fn varint_bytes(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Writes a varint into a place of just its length.
fn put_varint(place: &mut [u8], mut value: u64) {
    let last = place.len() - 1;
    for byte in &mut place[..last] {
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    place[last] = value as u8;
}

/// A caller's requests as plain frames, around data that stays where it is.
pub struct Frame {
    /// The head lies right before the data, wherever that makes it begin.
    bytes: Vec<u8>,
    begin: usize,
    data: Range<usize>,
}

/// Enough for a length, an id and the length of the data; and for a timestamp.
const HEAD_ROOM: usize = 32;
const TAIL_ROOM: usize = 1 + TIMESTAMP_BYTES;

impl Frame {
    pub fn new(data: usize) -> Frame {
        Frame { bytes: vec![0; HEAD_ROOM + data + TAIL_ROOM], begin: 0, data: HEAD_ROOM..HEAD_ROOM + data }
    }

    pub fn data(&self) -> &[u8] {
        &self.bytes[self.data.clone()]
    }

    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.data.clone()]
    }

    /// Writes what is around the data.
    pub fn write(&mut self, id: u64, timestamp: i64) {
        let data = self.data.len();
        let mut begin = HEAD_ROOM;
        if data > 0 {
            begin = self.put_before(begin, data as u64);
            begin = self.put_before(begin, DATA);
        }
        begin = self.put_before(begin, id);
        begin = self.put_before(begin, ID);
        self.bytes[self.data.end] = TIMESTAMP as u8;
        put_varint(&mut self.bytes[self.data.end + 1..], timestamp as u64);
        let length = self.bytes.len() - begin;
        self.begin = begin - 4;
        self.bytes[self.begin..begin].copy_from_slice(&(length as u32).to_be_bytes());
    }

    fn put_before(&mut self, end: usize, value: u64) -> usize {
        let begin = end - varint_bytes(value);
        put_varint(&mut self.bytes[begin..end], value);
        begin
    }

    pub fn frame(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::*;
    use crate::messages::Payload;

    #[test]
    fn a_frame_is_what_prost_would_write() {
        for (id, data) in [(1, &b"hi"[..]), (300, &[7; 200]), (u64::MAX, b"")] {
            let timestamp = messages::timestamp();
            let mut frame = Frame::new(data.len());
            frame.data_mut().copy_from_slice(data);
            frame.write(id, timestamp);
            let payload = Payload { id, data: Bytes::copy_from_slice(data), timestamp, answer_bytes: None };
            let mut want = (payload.encoded_len() as u32).to_be_bytes().to_vec();
            payload.encode(&mut want).unwrap();
            assert_eq!(frame.frame(), want);
        }
    }

    #[test]
    fn an_answer_in_place_has_a_new_timestamp_alone() {
        let request = Payload { id: 300, data: Bytes::from_static(b"hello"), timestamp: 1 << 60, answer_bytes: None };
        let mut bytes = request.encode_to_vec();
        assert!(answer_in_place(&mut bytes));
        let mut answer = Payload::decode(&bytes[..]).unwrap();
        assert_ne!(answer.timestamp, request.timestamp);
        answer.timestamp = request.timestamp;
        assert_eq!(answer, request);
    }

    #[test]
    fn others_are_left_to_the_decoder() {
        let sized = Payload { answer_bytes: Some(7), timestamp: 1 << 60, ..Payload::default() };
        let undated = Payload { id: 7, ..Payload::default() };
        for mut message in [
            sized.encode_to_vec(),
            undated.encode_to_vec(),
            vec![8, 1, 8, 2],                       // an id twice
            vec![0x12, 0x7f, 1],                    // data beyond the end
            vec![0x12, 0xff, 0xff, 0xff, 0xff, 15], // the same, of 4 GB
            vec![8, 0xff],                          // a varint cut short
            vec![0xff; 11],                         // a varint too long
            vec![0],                                // no field
        ] {
            assert!(!answer_in_place(&mut message), "{message:?}");
        }
    }
}
