//! Hostile clients among others: none costs more than it sends.

use super::*;
use crate::messages::Payload;

/// What a server says to bytes that come in pieces of a length, and whether it is over then.
fn said(bytes: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let mut talk = Conversation::default();
    let mut out = Vec::new();
    for part in bytes.chunks(piece) {
        let mut part = part;
        while !part.is_empty() && !talk.is_over() {
            let room = talk.room();
            let count = room.len().min(part.len());
            room[..count].copy_from_slice(&part[..count]);
            part = &part[count..];
            talk.received(count);
            while talk.answer() {
                let (first, then) = talk.outgoing();
                let next = if first.is_empty() { then[0] } else { first[0] };
                out.push(next);
                talk.sent(1);
            }
        }
    }
    (out, talk.is_over())
}

fn plain(payload: &Payload) -> Vec<u8> {
    [&(payload.encoded_len() as u32).to_be_bytes()[..], &payload.encode_to_vec()].concat()
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32).to_be_bytes(), body].concat()
}

fn head() -> Vec<u8> {
    let name = messages::ECHO.as_bytes();
    framed(HEAD, &[&[0; 8][..], &(name.len() as u32).to_be_bytes(), name].concat())
}

/// The answers in a stream of plain frames, without their timestamps.
fn answers(mut bytes: &[u8]) -> Vec<Payload> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let length = bytes.get_u32() as usize;
        all.push(Payload { timestamp: 0, ..Payload::decode(&bytes[..length]).unwrap() });
        bytes.advance(length);
    }
    all
}

#[test]
fn answers_requests_in_their_order_however_they_come() {
    let mut requests = Vec::new();
    let mut want = Vec::new();
    for id in 0..40 {
        let data = Bytes::from(vec![id as u8; 1000 * id as usize]);
        let asked = Payload { id, data, timestamp: 0, answer_bytes: None };
        want.push(asked.clone());
        // Some can be answered in place, others cannot: they have no timestamp.
        let timestamp = if id % 3 == 0 { 0 } else { 1 << 60 };
        requests.extend(plain(&Payload { timestamp, ..asked }));
    }
    for piece in [7, 1000, 65536, requests.len()] {
        let (out, over) = said(&requests, piece);
        assert!(answers(&out) == want && !over, "in pieces of {piece}");
    }
}

#[test]
fn answers_a_call_and_then_a_plain_one() {
    let asked = Payload { id: 7, data: Bytes::from_static(b"hi"), timestamp: 1 << 60, answer_bytes: None };
    let call = [PREAMBLE, &head(), &framed(MESSAGE, &asked.encode_to_vec()), &framed(END, b"")].concat();
    let (out, over) = said(&[call, plain(&asked)].concat(), 3);
    let length = asked.encoded_len();
    assert_eq!(out[0], MESSAGE);
    assert_eq!(out[5 + length..5 + length + 9], framed(END, &[0; 4]));
    assert_eq!(answers(&out[5 + length + 9..]), [Payload { timestamp: 0, ..asked }]);
    assert!(!over);
}

#[test]
fn refuses_what_does_not_keep_to_the_page_and_closes() {
    let after_head = |rest: &[u8]| [PREAMBLE, &head(), rest].concat();
    for (bytes, code) in [
        (b"\x02\0\0\0".to_vec(), RESOURCE_EXHAUSTED),
        (b"\x7f\xff\xff\xff".to_vec(), RESOURCE_EXHAUSTED),
        ([PREAMBLE, b"H\xff\xff\xff\xff"].concat(), RESOURCE_EXHAUSTED),
        ([PREAMBLE, b"M\0\0\0\0"].concat(), INTERNAL),
        ([PREAMBLE, b"X\0\0\0\0"].concat(), INTERNAL),
        ([PREAMBLE, b"H\0\0\0\x02hi"].concat(), INTERNAL),
        ([PREAMBLE, b"H\0\0\0\x0c\0\0\0\0\0\0\0\0\xff\xff\xff\xff"].concat(), INTERNAL),
        (after_head(b"M\x01\0\0\x01"), RESOURCE_EXHAUSTED),
        (after_head(b"E\0\0\0\x01x"), INTERNAL),
        (after_head(b"M\0\0\0\0M\0\0\0\0"), INTERNAL),
        (after_head(&head()), INTERNAL),
    ] {
        let (out, over) = said(&bytes, 1);
        let status = if out[0] == END { &out[9..] } else { &out[4..] };
        assert_eq!(Status::decode(status).unwrap().code, code, "{bytes:?}");
        assert!(over, "{bytes:?}");
    }
}

#[test]
fn an_announced_length_gets_no_memory() {
    let mut talk = Conversation::default();
    let announced = (MAX_MESSAGE as u32).to_be_bytes();
    talk.room()[..4].copy_from_slice(&announced);
    talk.received(4);
    assert!(!talk.answer() && talk.is_in_the_middle());
    assert_eq!(talk.input.len(), AT_ONCE);
    talk.room();
    assert_eq!(talk.input.len(), AT_ONCE);
}

#[test]
fn goes_on_after_a_message_that_is_none() {
    let asked = Payload { id: 1, ..Payload::default() };
    let (out, over) = said(&[&b"\0\0\0\x01\xff"[..], &plain(&asked)].concat(), 1);
    assert_eq!(out[0], 0x80);
    assert!(!over && out.len() > 8);
}

#[test]
fn the_end_closes_once_all_is_sent() {
    let mut talk = Conversation::default();
    talk.room()[..4].copy_from_slice(&[0; 4]);
    talk.received(4);
    talk.received(0);
    assert!(talk.answer() && !talk.is_over());
    let (first, then) = talk.outgoing();
    let length = first.len() + then.len();
    talk.sent(length);
    assert!(!talk.answer() && talk.is_over());
}
