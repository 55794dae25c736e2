//! The stacks h1, h2 and h3: docs/wire-http.md with bodies of protobuf, by hyper, and by h3
//! over quinn.
//!
//! `answer.rs` answers requests for all servers, whichever version of HTTP carried them;
//! `reply.rs` reads answers for all clients.

mod answer;
mod client;
mod quic;
mod quic_client;
mod quic_server;
mod reply;
mod server;

pub use client::{measure_h1, measure_h2};
pub use quic_client::measure_h3;
pub use quic_server::{Identity, serve_h3};
pub use server::{serve_h1, serve_h2};
