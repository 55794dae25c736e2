//! The servers of h1 and h2: hyper.

use std::{convert::Infallible, io, net::TcpListener};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::answer;
use crate::{
    accept::{self, PATIENCE},
    messages::{DEADLINE_EXCEEDED, INVALID_ARGUMENT, MAX_MESSAGE, Status},
};

pub fn serve_h1(listener: TcpListener) -> io::Result<()> {
    crate::runtime().map_err(io::Error::other)?.block_on(accept::clients(listener, |stream| {
        tokio::spawn(async {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            let _ = server.serve_connection(TokioIo::new(stream), service_fn(call)).await; // the client's fault
        });
    }))
}

pub fn serve_h2(listener: TcpListener) -> io::Result<()> {
    crate::runtime().map_err(io::Error::other)?.block_on(async {
        let mut clients = accept::clients_of_http2(listener)?;
        while let Some(stream) = clients.recv().await {
            tokio::spawn(async {
                let mut server = http2::Builder::new(TokioExecutor::new());
                server.timer(TokioTimer::new()).keep_alive_interval(accept::PING).keep_alive_timeout(accept::PONG);
                let _ = server.serve_connection(TokioIo::new(stream), service_fn(call)).await; // the client's fault
            });
        }
        Err(io::Error::other("nobody accepts clients any more"))
    })
}

async fn call(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (response, body) = answer::response(answered(request).await);
    Ok(response.map(|()| Full::new(body)))
}

async fn answered(request: Request<Incoming>) -> Result<Bytes, answer::Refusal> {
    let (head, body) = request.into_parts();
    answer::check(&head)?;
    let reading = Limited::new(body, MAX_MESSAGE).collect();
    match tokio::time::timeout(PATIENCE, reading).await {
        Ok(Ok(body)) => answer::answer(body.to_bytes()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(answer::too_large()),
        Ok(Err(e)) => Err((StatusCode::BAD_REQUEST, Status::new(INVALID_ARGUMENT, format!("read the request: {e}")))),
        Err(_) => {
            let status = Status::new(DEADLINE_EXCEEDED, format!("the request did not come within {PATIENCE:?}"));
            Err((StatusCode::GATEWAY_TIMEOUT, status))
        }
    }
}
