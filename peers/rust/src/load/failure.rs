//! Why a call failed, in wirelab's words.

use std::{error::Error, io};

/// A failed call: what it met, the gRPC code, and what was said.
#[derive(Debug, Clone)]
pub struct Failure {
    pub class: String,
    pub code: &'static str,
    pub example: String,
}

impl Failure {
    pub fn new(class: impl Into<String>, code: &'static str, example: impl Into<String>) -> Failure {
        Failure { class: class.into(), code, example: example.into() }
    }

    pub fn wrong_answer(example: impl Into<String>) -> Failure {
        Failure::new("wrong-answer", "WrongAnswer", example)
    }

    pub fn closed(example: impl Into<String>) -> Failure {
        Failure::new("closed", "Unavailable", example)
    }

    /// A call that was in flight when no more could be waited for.
    pub fn cancelled() -> Failure {
        Failure::new("cancelled", "Canceled", "no answer while calls in flight were waited for")
    }

    /// What the server's application said.
    pub fn application(code: i32, message: impl Into<String>) -> Failure {
        Failure::new("application", code_name(code), message)
    }

    /// Of an error of a connection, whose cause may lie deep in it.
    pub fn of(error: &(dyn Error + 'static)) -> Failure {
        let mut said = error.to_string();
        let mut cause = Some(error);
        let mut class = "";
        while let Some(one) = cause {
            if let Some(io) = one.downcast_ref::<io::Error>() {
                class = of_kernel(io);
            }
            if let Some(stream) = one.downcast_ref::<h2::Error>()
                && let Some(reason) = of_h2(stream)
            {
                return Failure::new(reason, "Unavailable", said);
            }
            let deeper = one.source();
            if let Some(deeper) = deeper {
                said = format!("{said}: {deeper}");
            }
            cause = deeper;
        }
        Failure::new(if class.is_empty() { "closed" } else { class }, "Unavailable", said)
    }

    pub fn is_like(&self, other: &Failure) -> bool {
        self.class == other.class && self.code == other.code
    }
}

fn of_kernel(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => return "port-exhaustion",
        Some(libc::EMFILE | libc::ENFILE) => return "descriptor-limit",
        Some(libc::ETIMEDOUT) => return "silent",
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => "reset",
        io::ErrorKind::TimedOut => "connect-timeout",
        _ => "",
    }
}

/// The class of what a peer ended by a frame of HTTP/2.
fn of_h2(error: &h2::Error) -> Option<String> {
    let reason = error.reason()?;
    Some(match reason {
        _ if error.is_go_away() => "goaway".into(),
        h2::Reason::REFUSED_STREAM => "stream-refused".into(),
        h2::Reason::FLOW_CONTROL_ERROR => "flow-control".into(),
        _ if error.is_reset() => format!("stream-reset: {reason:?}"),
        _ => return None,
    })
}

/// A gRPC code as Go spells it.
pub fn code_name(code: i32) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    usize::try_from(code).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("Unknown")
}
