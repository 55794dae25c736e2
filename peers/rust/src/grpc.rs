//! The stack grpc: tonic as people use it.

mod client;
mod server;

pub use client::measure;
pub use server::serve;

/// What tonic-build generates.
mod generated {
    pub mod echo {
        include!(concat!(env!("OUT_DIR"), "/wirelab.echo.v1.EchoService.rs"));
    }
    pub mod ping {
        include!(concat!(env!("OUT_DIR"), "/wirelab.ping.v1.PingService.rs"));
    }
    pub mod chat {
        include!(concat!(env!("OUT_DIR"), "/wirelab.chat.v1.ChatService.rs"));
    }
}
