//! The servers of h1 and h2: hyper.

use std::{
    convert::Infallible,
    io,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

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
    stream::{Accompanied, Companion},
};

pub fn serve_h1(listener: TcpListener) -> io::Result<()> {
    crate::runtime().map_err(io::Error::other)?.block_on(accept::clients(listener, |stream| {
        tokio::spawn(async {
            let middle = Arc::new(Middle::default());
            let io = TokioIo::new(Accompanied { stream, companion: middle.clone() });
            let answering = service_fn(async |request| {
                let response = call(request).await;
                middle.is_over();
                response
            });
            tokio::select! {
                _ = http1::Builder::new().serve_connection(io, answering) => {} // the client's fault
                () = middle.stays() => {}
            }
        });
    }))
}

/// Whether a client is in the middle of a request. hyper has a timeout for headers, which
/// closes idle connections, too; these may stay.
#[derive(Default)]
struct Middle {
    reads: AtomicU64,
    settled: AtomicU64, // how many of them are behind the last request
}

impl Companion for Arc<Middle> {
    fn has_read(&self) {
        // Only the connection's own task writes.
        self.reads.store(self.reads.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Middle {
    fn is_over(&self) {
        self.settled.store(self.reads.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Waits until the client has stopped in the middle for half of the patience at least.
    async fn stays(&self) {
        loop {
            let before = self.reads.load(Ordering::Relaxed);
            tokio::time::sleep(PATIENCE / 2).await;
            if self.reads.load(Ordering::Relaxed) == before && self.settled.load(Ordering::Relaxed) != before {
                return;
            }
        }
    }
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
