//! The server: a service a workload.

use std::{io, net::TcpListener, pin::Pin};

use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};

use super::generated::{
    chat::chat_service_server::{ChatService, ChatServiceServer},
    echo::echo_service_server::{EchoService, EchoServiceServer},
    ping::ping_service_server::{PingService, PingServiceServer},
};
use crate::{
    accept,
    messages::{self, ChatMessage, MAX_MESSAGE, Payload, Ping},
};

struct Service;

#[tonic::async_trait]
impl EchoService for Service {
    async fn echo(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        messages::answer(request.into_inner()).map(Response::new).map_err(status)
    }
}

#[tonic::async_trait]
impl PingService for Service {
    async fn ping(&self, _: Request<Ping>) -> Result<Response<Ping>, Status> {
        Ok(Response::new(Ping {}))
    }
}

#[tonic::async_trait]
impl ChatService for Service {
    type ChatStream = Pin<Box<dyn Stream<Item = Result<ChatMessage, Status>> + Send>>;

    /// Answers each message with itself.
    async fn chat(&self, request: Request<Streaming<ChatMessage>>) -> Result<Response<Self::ChatStream>, Status> {
        let answers = request.into_inner().map(|message| match message {
            Ok(message) if message.answer_bytes.is_some() => Err(status(messages::Status::other_size())),
            other => other,
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn status(said: messages::Status) -> Status {
    Status::new(Code::from_i32(said.code), said.message)
}

/// A service with wirelab's limit on messages in place of tonic's, of 4 MiB.
macro_rules! limited {
    ($service:ident) => {
        $service::new(Service).max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE)
    };
}

pub fn serve(listener: TcpListener, workload: &str) -> io::Result<()> {
    crate::runtime().map_err(io::Error::other)?.block_on(async {
        let incoming = ReceiverStream::new(accept::clients_of_http2(listener)?).map(Ok::<_, io::Error>);
        let mut server = Server::builder()
            .timeout(accept::PATIENCE) // a request that stops in the middle
            .http2_keepalive_interval(Some(accept::PING)) // a client that is gone, or does not read
            .http2_keepalive_timeout(Some(accept::PONG));
        let router = match workload {
            "ping" => server.add_service(PingServiceServer::new(Service)),
            "chat" => server.add_service(limited!(ChatServiceServer)),
            _ => server.add_service(limited!(EchoServiceServer)),
        };
        let served = router.serve_with_incoming(incoming).await;
        served.map_err(io::Error::other)
    })
}
