//! What a server answers to a request, whatever carried it.

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
    http::request::Parts,
};
use prost::Message;

use crate::messages::{self, INVALID_ARGUMENT, MAX_MESSAGE, RESOURCE_EXHAUSTED, Status, UNIMPLEMENTED};

pub const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const STATUS: HeaderValue = HeaderValue::from_static("application/x-protobuf; messageType=\"google.rpc.Status\"");

pub type Refusal = (StatusCode, Status);

/// Refuses what a request's head shows to be none for this server.
pub fn check(head: &Parts) -> Result<(), Refusal> {
    let path = head.uri.path();
    if path != "/echo" && path != messages::ECHO {
        let message = format!("this server has no operation {path}");
        return Err((StatusCode::NOT_FOUND, Status::new(UNIMPLEMENTED, message)));
    }
    if head.method != Method::POST {
        let message = format!("{} is not how an operation is called: use POST", head.method);
        return Err((StatusCode::METHOD_NOT_ALLOWED, Status::new(UNIMPLEMENTED, message)));
    }
    if !is_protobuf(&head.headers) {
        let message = "want application/x-protobuf: the Rust peer has no other codec";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, Status::new(UNIMPLEMENTED, message)));
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|length| length > MAX_MESSAGE as u64) {
        return Err(too_large());
    }
    Ok(())
}

pub fn too_large() -> Refusal {
    let message = format!("a request has {MAX_MESSAGE} bytes at most");
    (StatusCode::PAYLOAD_TOO_LARGE, Status::new(RESOURCE_EXHAUSTED, message))
}

/// Whether a body is a message in protobuf.
pub fn is_protobuf(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
    kind == b"application/x-protobuf" || kind == b"application/protobuf"
}

/// Answers a request of that body.
pub fn answer(body: Bytes) -> Result<Bytes, Refusal> {
    match messages::answer_bytes(body) {
        Ok(answer) => Ok(Bytes::from(answer.encode_to_vec())),
        Err(status) if status.code == INVALID_ARGUMENT => Err((StatusCode::BAD_REQUEST, status)),
        Err(status) => Err((StatusCode::NOT_IMPLEMENTED, status)),
    }
}

/// The response and its body.
pub fn response(answered: Result<Bytes, Refusal>) -> (Response<()>, Bytes) {
    let mut response = Response::new(());
    let body = match answered {
        Ok(message) => {
            response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
            message
        }
        Err((http, status)) => {
            *response.status_mut() = http;
            response.headers_mut().insert(CONTENT_TYPE, STATUS);
            if http == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            }
            Bytes::from(status.encode_to_vec())
        }
    };
    (response, body)
}
