//! The stacks h1 and h2: hyper, with bodies of protobuf.

use std::{convert::Infallible, io, net::TcpListener, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::{net::TcpStream, runtime::Runtime};

use crate::echo::{self, INVALID_ARGUMENT, MAX_MESSAGE, RESOURCE_EXHAUSTED, Status, UNIMPLEMENTED};

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const STATUS: HeaderValue = HeaderValue::from_static("application/x-protobuf; messageType=\"google.rpc.Status\"");

pub fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(crate::threads()).enable_all().build()
}

pub fn serve_h1(listener: TcpListener) -> io::Result<()> {
    accept(listener, |stream| async {
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
        let _ = server.serve_connection(TokioIo::new(stream), service_fn(call)).await; // the client's fault
    })
}

pub fn serve_h2(listener: TcpListener) -> io::Result<()> {
    accept(listener, |stream| async {
        let server = http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(TokioIo::new(stream), service_fn(call)).await; // the client's fault
    })
}

fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true); // without it calls are only slower
                    tokio::spawn(serve(stream));
                }
                // Descriptors have run out, or the client has gone: others go on.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
}

async fn call(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(match answer(request).await {
        Ok(message) => {
            let mut response = Response::new(Full::new(message));
            response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
            response
        }
        Err((http, status)) => {
            let mut response = Response::new(Full::new(Bytes::from(status.encode_to_vec())));
            *response.status_mut() = http;
            response.headers_mut().insert(CONTENT_TYPE, STATUS);
            if http == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            }
            response
        }
    })
}

async fn answer(request: Request<Incoming>) -> Result<Bytes, (StatusCode, Status)> {
    let path = request.uri().path();
    if path != "/echo" && path != echo::OPERATION {
        let message = format!("this server has no operation {path}");
        return Err((StatusCode::NOT_FOUND, Status::new(UNIMPLEMENTED, message)));
    }
    if request.method() != Method::POST {
        let message = format!("{} is not how an operation is called: use POST", request.method());
        return Err((StatusCode::METHOD_NOT_ALLOWED, Status::new(UNIMPLEMENTED, message)));
    }
    let kind = request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
    if kind != b"application/x-protobuf" && kind != b"application/protobuf" {
        let message = "want application/x-protobuf: the Rust peer has no other codec";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, Status::new(UNIMPLEMENTED, message)));
    }
    let body = Limited::new(request.into_body(), MAX_MESSAGE).collect().await.map_err(|e| {
        let message = format!("read the request, of {MAX_MESSAGE} bytes at most: {e}");
        (StatusCode::PAYLOAD_TOO_LARGE, Status::new(RESOURCE_EXHAUSTED, message))
    })?;
    match echo::answer_bytes(body.to_bytes()) {
        Ok(answer) => Ok(Bytes::from(answer.encode_to_vec())),
        Err(status) if status.code == INVALID_ARGUMENT => Err((StatusCode::BAD_REQUEST, status)),
        Err(status) => Err((StatusCode::NOT_IMPLEMENTED, status)),
    }
}
