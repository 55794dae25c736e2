//! The messages of the workloads (peers/proto), and what servers answer.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use prost::Message;

/// The longest message that any stack takes.
pub const MAX_MESSAGE: usize = 16 << 20;
/// The longest data of a message, which has other fields, too.
pub const MAX_DATA: usize = MAX_MESSAGE - 64;

pub const ECHO: &str = "/wirelab.echo.v1.EchoService/Echo";

/// wirelab.echo.v1.Payload
#[derive(Clone, PartialEq, Message)]
pub struct Payload {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    #[prost(int64, tag = "3")]
    pub timestamp: i64,
    #[prost(uint32, optional, tag = "4")]
    pub answer_bytes: Option<u32>,
}

/// wirelab.chat.v1.Message
#[derive(Clone, PartialEq, Message)]
pub struct ChatMessage {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    #[prost(uint32, optional, tag = "3")]
    pub answer_bytes: Option<u32>,
}

/// wirelab.ping.v1.PingRequest and PingResponse
#[derive(Clone, PartialEq, Message)]
pub struct Ping {}

/// google.rpc.Status, without details
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

pub const INVALID_ARGUMENT: i32 = 3;
pub const DEADLINE_EXCEEDED: i32 = 4;
pub const RESOURCE_EXHAUSTED: i32 = 8;
pub const UNIMPLEMENTED: i32 = 12;
pub const INTERNAL: i32 = 13;

impl Status {
    pub fn new(code: i32, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// What a request with answer_bytes gets.
    pub fn other_size() -> Status {
        Status::new(UNIMPLEMENTED, "this server answers with what came, not with another size")
    }
}

/// The clock that messages carry, in nanoseconds.
pub fn timestamp() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64
}

/// The answer to a request: what came, with a new timestamp.
pub fn answer(mut request: Payload) -> Result<Payload, Status> {
    if request.answer_bytes.is_some() {
        return Err(Status::other_size());
    }
    request.timestamp = timestamp();
    Ok(request)
}

/// The same for a message as it is on the wire.
pub fn answer_bytes(request: Bytes) -> Result<Payload, Status> {
    match Payload::decode(request) {
        Ok(request) => answer(request),
        Err(e) => Err(Status::new(INVALID_ARGUMENT, format!("the request is no Payload: {e}"))),
    }
}
