//! What this worker's ends use that is not their library's default.

use serde_json::{Value, json};

use crate::{
    accept::{PATIENCE, PING, PONG},
    catalog::NTEX,
    ntex::CALLS,
};

/// The settings of an end of a variant, for its ready event.
pub fn of(carrier: &str, side: &str) -> Value {
    let patience = format!("{PATIENCE:?}");
    let no_delay = ("TCP_NODELAY", "on".into(), "off", "a call is not to wait for the last one's acknowledgement");
    let silent = "a peer that stops in the middle, or does not read, is not to stay";
    let user_timeout = ("TCP_USER_TIMEOUT", patience.clone(), "none", silent);
    let alive = [
        ("http2 keep_alive_interval", format!("{PING:?}"), "none", silent),
        ("http2 keep_alive_timeout", format!("{PONG:?}"), "20s", silent),
        ("wait for the preface", patience.clone(), "none", silent),
    ];
    let limit = "every stack carries as much";
    let messages = [
        ("max_decoding_message_size", "16777216".into(), "4194304", limit),
        ("max_encoding_message_size", "16777216".into(), "none", limit),
    ];
    let mut all: Vec<(&str, String, &str, &str)> = Vec::new();
    if ["tcp", "h1", "h2"].contains(&carrier) {
        all.push(no_delay);
    }
    if carrier == "grpc" {
        all.extend(messages);
    }
    if carrier == NTEX {
        let callers = "callers that share a connection are not to wait for each other";
        all.push(("capacity_timeout", patience.clone(), "3s", silent));
        all.push(("max_concurrent_streams", CALLS.to_string(), "256", callers));
    }
    if side == "server" {
        match carrier {
            NTEX => {} // its own timeouts end clients that stop
            "tcp" => all.push(("wait in the middle of a frame", patience, "none", silent)),
            "h1" => {
                all.push(user_timeout);
                all.push(("wait in the middle of a request", patience, "none", silent));
            }
            "h2" => {
                all.push(user_timeout);
                all.push(("wait for a request's body", patience, "none", silent));
                all.extend(alive);
            }
            "h3" => {
                all.push(("wait for a request, and for its answer to be taken", patience, "none", silent));
                all.push(("max_field_section_size", "65536".into(), "none", "bounds a header"));
            }
            _ => {
                all.push(user_timeout);
                all.push(("timeout", patience, "none", silent));
                all.extend(alive);
            }
        }
    }
    all.into_iter()
        .map(|(name, value, default, why)| json!({"side": side, "name": name, "value": value, "default": default, "why": why}))
        .collect()
}
