//! The server: ntex-server accepts clients and spreads them over its threads.

use std::{convert::Infallible, io, net::TcpListener};

use ntex_grpc::{
    BytePages, GrpcStatus, HeaderValue, Message, Service, ServiceCtx, ServiceFactory,
    server::{GrpcServer, ServerError, ServerRequest, ServerResponse},
};
use ntex_rt::System;
use ntex_service::cfg::SharedCfg;

use super::Payload;
use crate::messages::{Status, UNIMPLEMENTED, timestamp};

pub fn serve(listener: TcpListener) -> io::Result<()> {
    System::new("ntex", ntex_net::DefaultRuntime).block_on(async {
        ntex_server::net::build()
            .workers(crate::threads())
            .disable_signals()
            .listen("grpc", listener, async |_| GrpcServer::new(Methods))?
            .config("grpc", super::config())
            .run()
            .await
    })
}

/// The methods of all services, which the library finds by their names alone.
#[derive(Clone)]
struct Methods;

impl ServiceFactory<ServerRequest, SharedCfg> for Methods {
    type Response = ServerResponse;
    type Error = ServerError;
    type Service = Methods;
    type InitError = Infallible;

    async fn create(&self, _: SharedCfg) -> Result<Methods, Infallible> {
        Ok(Methods)
    }
}

impl Service<ServerRequest> for Methods {
    type Response = ServerResponse;
    type Error = ServerError;

    async fn call(&self, mut request: ServerRequest, _: ServiceCtx<'_, Self>) -> Result<ServerResponse, ServerError> {
        let mut answer = BytePages::default();
        match &request.name[..] {
            "Echo" => echo(Payload::read(&mut request.payload)?)?.write(&mut answer),
            "Ping" => {}
            other => return Err(refusal(Status::new(UNIMPLEMENTED, format!("this server has no method {other}")))),
        }
        Ok(ServerResponse::new(answer))
    }
}

fn echo(mut request: Payload) -> Result<Payload, ServerError> {
    if request.answer_bytes.is_some() {
        return Err(refusal(Status::other_size()));
    }
    request.timestamp = timestamp();
    Ok(request)
}

fn refusal(said: Status) -> ServerError {
    let code = u8::try_from(said.code).ok().and_then(|code| code.try_into().ok()).unwrap_or(GrpcStatus::Unknown);
    let message = HeaderValue::from_str(&said.message).unwrap_or_else(|_| HeaderValue::from_static("no text"));
    ServerError::new(code, message, None)
}
