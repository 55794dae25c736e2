//! The stack grpc with library=ntex: ntex-grpc, whose threads share nothing. It has no streams.

mod client;
mod server;

pub use client::measure;
pub use server::serve;

use ntex_grpc::{BytePages, Bytes, DecodeError, Message, NativeType, encoding, types::DefaultValue};
use ntex_h2::ServiceConfig;
use ntex_service::cfg::SharedCfg;
use ntex_util::time::Seconds;

use crate::accept::PATIENCE;

/// The number of calls at once on a connection: as many callers as a spec may have.
pub const CALLS: u32 = 1 << 16;

/// Settings that are not the library's defaults, which settings.rs tells.
fn config() -> SharedCfg {
    let patience = Seconds(PATIENCE.as_secs() as u16);
    let http2 = ServiceConfig::new().set_max_concurrent_streams(CALLS).set_capacity_timeout(patience);
    SharedCfg::new("grpc").add(http2).into()
}

/// wirelab.echo.v1.Payload, as ntex-grpc's generator writes it.
#[derive(Clone, PartialEq, Debug, Default)]
struct Payload {
    id: u64,
    data: Bytes,
    timestamp: i64,
    answer_bytes: Option<u32>,
}

impl Message for Payload {
    fn read(src: &mut Bytes) -> Result<Self, DecodeError> {
        let mut message = Payload::default();
        while !src.is_empty() {
            let (tag, kind) = encoding::decode_key(src)?;
            match tag {
                1 => message.id.deserialize(tag, kind, src)?,
                2 => message.data.deserialize(tag, kind, src)?,
                3 => message.timestamp.deserialize(tag, kind, src)?,
                4 => message.answer_bytes.deserialize(tag, kind, src)?,
                _ => encoding::skip_field(kind, tag, src)?,
            }
        }
        Ok(message)
    }

    fn write(&self, dst: &mut BytePages) {
        self.id.serialize(1, DefaultValue::Default, dst);
        self.data.serialize(2, DefaultValue::Default, dst);
        self.timestamp.serialize(3, DefaultValue::Default, dst);
        self.answer_bytes.serialize(4, DefaultValue::Default, dst);
    }

    fn encoded_len(&self) -> usize {
        self.id.serialized_len(1, DefaultValue::Default)
            + self.data.serialized_len(2, DefaultValue::Default)
            + self.timestamp.serialized_len(3, DefaultValue::Default)
            + self.answer_bytes.serialized_len(4, DefaultValue::Default)
    }
}
