//! The clients of h1 and h2: hyper.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response, Uri,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::reply;
use crate::{
    dial,
    links::{self, Connector, Exclusive, Shared},
    load::{Connections, Failure, Message, Plan, tasks},
    messages::MAX_MESSAGE,
};

pub fn measure_h1(plan: Arc<Plan>) -> Result<(), String> {
    let runtime = crate::runtime()?;
    let (connector, connections) = prepare(&plan, |target| H1 { target, path: Uri::from_static("/echo") })?;
    let links = runtime.block_on(links::open(&connector, &plan))?;
    tasks::run(&runtime, &plan, &connections, Exclusive::wires(&connector, links, &plan))
}

pub fn measure_h2(plan: Arc<Plan>) -> Result<(), String> {
    let runtime = crate::runtime()?;
    let uri: Uri = format!("http://{}/echo", plan.address).parse().map_err(|e| format!("{}: {e}", plan.address))?;
    let (connector, connections) = prepare(&plan, |target| H2 { target, uri })?;
    let links = runtime.block_on(links::open(&connector, &plan))?;
    tasks::run(&runtime, &plan, &connections, Shared::wires(&connector, links, &plan))
}

/// Where connections go.
struct Target {
    address: SocketAddr,
    host: hyper::header::HeaderValue,
    connections: Arc<Connections>,
}

fn prepare<C>(plan: &Arc<Plan>, make: impl FnOnce(Target) -> C) -> Result<(Arc<C>, Arc<Connections>), String> {
    let connections = Connections::new(plan);
    let host = plan.address.parse().map_err(|e| format!("address {}: {e}", plan.address))?;
    let target = Target { address: dial::parse(&plan.address)?, host, connections: connections.clone() };
    Ok((Arc::new(make(target)), connections))
}

/// HTTP/1.1: a connection carries a call at a time.
struct H1 {
    target: Target,
    path: Uri,
}

impl Connector for H1 {
    type Link = http1::SendRequest<Full<Bytes>>;

    async fn open(&self) -> Result<Self::Link, Failure> {
        let (stream, open) = dial::tcp(self.target.address, &self.target.connections).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| Failure::of(&e))?;
        tokio::spawn(async move {
            let _ = connection.await; // its calls tell
            drop(open);
        });
        Ok(sender)
    }

    async fn call(&self, link: &mut Self::Link, message: &Message) -> Result<Message, Failure> {
        let (mut request, body) = reply::request(&self.path, message);
        request.headers_mut().insert(hyper::header::HOST, self.target.host.clone());
        link.ready().await.map_err(|e| Failure::of(&e))?;
        answer(link.send_request(with(request, body))).await
    }

    fn lasts(link: &Self::Link) -> bool {
        !link.is_closed()
    }
}

/// HTTP/2 with prior knowledge: a connection carries many.
struct H2 {
    target: Target,
    uri: Uri,
}

impl Connector for H2 {
    type Link = http2::SendRequest<Full<Bytes>>;

    async fn open(&self) -> Result<Self::Link, Failure> {
        let (stream, open) = dial::tcp(self.target.address, &self.target.connections).await?;
        let shaking = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = shaking.await.map_err(|e| Failure::of(&e))?;
        tokio::spawn(async move {
            let _ = connection.await; // its calls tell
            drop(open);
        });
        Ok(sender)
    }

    async fn call(&self, link: &mut Self::Link, message: &Message) -> Result<Message, Failure> {
        let (request, body) = reply::request(&self.uri, message);
        link.ready().await.map_err(|e| Failure::of(&e))?;
        answer(link.send_request(with(request, body))).await
    }

    fn lasts(link: &Self::Link) -> bool {
        !link.is_closed()
    }
}

fn with(request: Request<()>, body: Bytes) -> Request<Full<Bytes>> {
    request.map(|()| Full::new(body))
}

async fn answer(sent: impl Future<Output = hyper::Result<Response<Incoming>>>) -> Result<Message, Failure> {
    let (head, body) = sent.await.map_err(|e| Failure::of(&e))?.into_parts();
    let body = Limited::new(body, MAX_MESSAGE).collect().await.map_err(|e| Failure::of(&*e))?;
    reply::message(head.status, &head.headers, body.to_bytes())
}
