//! The server of h3: h3 over quinn.

use std::{io, net::UdpSocket, sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use h3::server::{RequestResolver, RequestStream};
use hyper::StatusCode;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};

use super::{answer, quic};
use crate::messages::{INVALID_ARGUMENT, MAX_MESSAGE, Status};

pub use quic::Identity;

/// How long a client may take over a request, or over reading its answer. QUIC itself ends a
/// connection that has been silent for 30 s.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest header (docs/wire-http.md).
const MAX_HEADER: u64 = 64 << 10;

type Stream = h3_quinn::BidiStream<Bytes>;

pub fn serve_h3(socket: UdpSocket, identity: Identity) -> io::Result<()> {
    let config = ServerConfig::with_crypto(Arc::new(identity.server().map_err(io::Error::other)?));
    let runtime = crate::runtime().map_err(io::Error::other)?;
    runtime.block_on(async {
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(connection(incoming));
        }
        Err(io::Error::other("the endpoint has closed"))
    })
}

async fn connection(incoming: Incoming) {
    let Ok(quic) = incoming.await else { return };
    let mut builder = h3::server::builder();
    builder.max_field_section_size(MAX_HEADER);
    let Ok(mut connection) = builder.build(h3_quinn::Connection::new(quic)).await else { return };
    while let Ok(Some(request)) = connection.accept().await {
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, call(request)).await; // the client's fault
        });
    }
}

async fn call(request: RequestResolver<h3_quinn::Connection, Bytes>) -> Result<(), h3::error::StreamError> {
    let (request, mut stream) = request.resolve_request().await?;
    let (head, ()) = request.into_parts();
    let answered = match answer::check(&head) {
        Ok(()) => match body(&mut stream).await {
            Ok(body) => answer::answer(body),
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    let (response, body) = answer::response(answered);
    stream.send_response(response).await?;
    stream.send_data(body).await?;
    stream.finish().await
}

async fn body(stream: &mut RequestStream<Stream, Bytes>) -> Result<Bytes, answer::Refusal> {
    let mut whole = BytesMut::new();
    loop {
        match stream.recv_data().await {
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(part)) if whole.len() + part.remaining() > MAX_MESSAGE => return Err(answer::too_large()),
            Ok(Some(mut part)) => {
                while part.has_remaining() {
                    let chunk = part.chunk();
                    whole.extend_from_slice(chunk);
                    let read = chunk.len();
                    part.advance(read);
                }
            }
            Err(e) => {
                let status = Status::new(INVALID_ARGUMENT, format!("read the request: {e}"));
                return Err((StatusCode::BAD_REQUEST, status));
            }
        }
    }
}
