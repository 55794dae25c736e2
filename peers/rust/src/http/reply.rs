//! A client's request, and what it makes of the answer, whatever carried them.

use bytes::Bytes;
use hyper::{
    HeaderMap, Request, StatusCode, Uri,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use prost::Message as _;

use super::answer::{PROTOBUF, is_protobuf};
use crate::{
    load::{Failure, Message},
    messages::{Payload, Status, timestamp},
};

/// The head and the body of a request.
pub fn request(uri: &Uri, message: &Message) -> (Request<()>, Bytes) {
    let payload =
        Payload { id: message.number, data: message.data.clone(), timestamp: timestamp(), answer_bytes: None };
    let body = Bytes::from(payload.encode_to_vec());
    let mut request = Request::post(uri.clone()).body(()).expect("a request without a body is one");
    request.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
    request.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    (request, body)
}

/// The message of an answer.
pub fn message(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Result<Message, Failure> {
    if status != StatusCode::OK {
        return Err(match Status::decode(body) {
            Ok(said) if is_protobuf(headers) => Failure::application(said.code, said.message),
            _ => Failure::application(code_of(status), format!("the server answered {status}")),
        });
    }
    if !is_protobuf(headers) {
        return Err(Failure::new("application", "Unknown", "the answer is no protobuf"));
    }
    let payload = Payload::decode(body).map_err(|e| Failure::wrong_answer(format!("the answer is no Payload: {e}")))?;
    Ok(Message { number: payload.id, data: payload.data })
}

/// The gRPC code of an answer that tells none.
fn code_of(status: StatusCode) -> i32 {
    match status.as_u16() {
        400 | 422 => 3,
        401 => 16,
        403 => 7,
        404 | 405 | 415 | 501 => 12,
        408 | 504 => 4,
        409 => 10,
        412 => 9,
        413 | 429 | 431 => 8,
        499 => 1,
        500 => 13,
        502 | 503 => 14,
        _ => 2,
    }
}
