//! The stack grpc: tonic as people use it.

use std::{io, net::TcpListener};

use tonic::{
    Code, Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::echo::{self, MAX_MESSAGE, Payload};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/wirelab.echo.v1.EchoService.rs"));
}
use generated::echo_service_server::{EchoService, EchoServiceServer};

struct Echo;

#[tonic::async_trait]
impl EchoService for Echo {
    async fn echo(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let answered = echo::answer(request.into_inner());
        answered.map(Response::new).map_err(|s| Status::new(Code::from_i32(s.code), s.message))
    }
}

pub fn serve(listener: TcpListener) -> io::Result<()> {
    crate::http::runtime()?.block_on(async {
        let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?).with_nodelay(Some(true));
        let service =
            EchoServiceServer::new(Echo).max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
        let served = Server::builder().add_service(service).serve_with_incoming(incoming).await;
        served.map_err(io::Error::other)
    })
}
