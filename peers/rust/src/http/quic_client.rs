//! The client of h3: h3 over quinn.

use std::{
    future::poll_fn,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use h3::error::StreamError;
use hyper::Uri;
use quinn::{ClientConfig, ConnectionError, Endpoint};

use super::{quic, reply};
use crate::{
    dial,
    links::{self, Connector, Shared},
    load::{Connections, Failure, Message, Plan, tasks},
    messages::MAX_MESSAGE,
};

pub fn measure_h3(plan: Arc<Plan>) -> Result<(), String> {
    let runtime = crate::runtime()?;
    let _guard = runtime.enter(); // quinn looks for it
    let address = dial::parse(&plan.address)?;
    probe(address).map_err(|e| format!("connect to {address}: {e}"))?;
    let local: SocketAddr =
        if address.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let mut endpoint = Endpoint::client(local).map_err(|e| format!("open a socket: {e}"))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(quic::client(&plan.client)?)));
    let uri = format!("https://{}/echo", plan.address).parse().map_err(|e| format!("{}: {e}", plan.address))?;
    let connections = Connections::new(&plan);
    let connector = Arc::new(H3 { endpoint, address, uri, connections: connections.clone() });
    let links = runtime.block_on(links::open(&connector, &plan))?;
    tasks::run(&runtime, &plan, &connections, Shared::wires(&connector, links, &plan))
}

/// Fails at once where nobody listens, which QUIC would wait for: the kernel tells a socket
/// that has sent to there. A server drops a datagram that is none of QUIC's.
fn probe(address: SocketAddr) -> std::io::Result<()> {
    const ENOUGH: Duration = Duration::from_millis(20);
    let local: SocketAddr =
        if address.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(local)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(ENOUGH))?;
    socket.send(&[0])?;
    match socket.recv(&mut [0; 1]) {
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => Err(e),
        _ => Ok(()),
    }
}

/// One endpoint, whose connections all go to one server.
struct H3 {
    endpoint: Endpoint,
    address: SocketAddr,
    uri: Uri,
    connections: Arc<Connections>,
}

/// The connection lasts as long as a clone of it.
#[derive(Clone)]
struct Link {
    sender: h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
    quic: quinn::Connection,
}

impl Connector for H3 {
    type Link = Link;

    async fn open(&self) -> Result<Link, Failure> {
        let shaking = async {
            let host = self.address.ip().to_string();
            let connecting = self.endpoint.connect(self.address, &host).map_err(|e| of_dialing(&e.to_string()))?;
            connecting.await.map_err(|e| of_connection(&e))
        };
        let shaken = tokio::time::timeout(dial::CONNECT, shaking).await;
        let quic = shaken.unwrap_or_else(|_| Err(of_dialing("the handshake took too long"))).inspect_err(|_| {
            self.connections.failed();
        })?;
        let open = self.connections.opened();
        let made = h3::client::new(h3_quinn::Connection::new(quic.clone())).await;
        let (mut driver, sender) = made.map_err(|e| Failure::closed(e.to_string()))?;
        let driven = quic.clone();
        tokio::spawn(async move {
            let _ = poll_fn(|cx| driver.poll_close(cx)).await; // its calls tell
            driven.close(quinn::VarInt::from_u32(0x100), b""); // H3_NO_ERROR (RFC 9114, section 8.1)
            drop(open);
        });
        Ok(Link { sender, quic })
    }

    async fn call(&self, link: &mut Link, message: &Message) -> Result<Message, Failure> {
        let (request, body) = reply::request(&self.uri, message);
        exchange(link, request, body).await.map_err(|e| of_stream(&e, &link.quic))?
    }

    fn lasts(link: &Link) -> bool {
        link.quic.close_reason().is_none()
    }
}

async fn exchange(
    link: &mut Link,
    request: hyper::Request<()>,
    body: Bytes,
) -> Result<Result<Message, Failure>, StreamError> {
    let mut stream = link.sender.send_request(request).await?;
    stream.send_data(body).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    let mut whole = BytesMut::new();
    while let Some(mut part) = stream.recv_data().await? {
        if whole.len() + part.remaining() > MAX_MESSAGE {
            let what = format!("the answer has more than {MAX_MESSAGE} bytes");
            return Ok(Err(Failure::new("application", "ResourceExhausted", what)));
        }
        while part.has_remaining() {
            let chunk = part.chunk();
            whole.extend_from_slice(chunk);
            let read = chunk.len();
            part.advance(read);
        }
    }
    Ok(reply::message(response.status(), response.headers(), whole.freeze()))
}

fn of_dialing(what: &str) -> Failure {
    Failure::new("handshake-timeout", "Unavailable", what)
}

fn of_connection(error: &ConnectionError) -> Failure {
    let class = match error {
        ConnectionError::TimedOut => "silent".into(),
        ConnectionError::Reset => "reset".into(),
        // TLS alerts are error codes from 0x100 on (RFC 9001, section 4.8).
        ConnectionError::TransportError(e) if e.to_string().contains("certificate") => format!("certificate: {e}"),
        ConnectionError::ConnectionClosed(e) if u64::from(e.error_code) >= 0x100 => format!("tls-alert: {e}"),
        _ => "closed".to_string(),
    };
    Failure::new(class, "Unavailable", error.to_string())
}

fn of_stream(error: &StreamError, quic: &quinn::Connection) -> Failure {
    if let Some(closed) = quic.close_reason() {
        return of_connection(&closed);
    }
    match error {
        StreamError::RemoteTerminate { code, .. } => {
            Failure::new(format!("stream-reset: {code}"), "Unavailable", error.to_string())
        }
        other => Failure::closed(other.to_string()),
    }
}
