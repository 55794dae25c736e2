package dev.wirelab.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.grpc.Status;
import java.io.IOException;
import java.net.ConnectException;
import org.junit.jupiter.api.Test;

class FailuresTest {
    @Test
    void kindsAreNumberedFromOne() {
        Failures failures = new Failures();
        assertEquals(1, failures.wrongAnswer("first"));
        assertEquals(2, failures.add(Status.DEADLINE_EXCEEDED.asException()));
        assertEquals(1, failures.wrongAnswer("second"));
        assertEquals("first", failures.result().get(0).get("example"));
        assertEquals("DeadlineExceeded", failures.result().get(1).get("code"));
        assertEquals("deadline", failures.result().get(1).get("class"));
    }

    @Test
    void codesAreSpeltAsGoDoes() {
        assertEquals("Canceled", Failures.code(Status.Code.CANCELLED));
        assertEquals("Unavailable", Failures.code(Status.Code.UNAVAILABLE));
        assertEquals("ResourceExhausted", Failures.code(Status.Code.RESOURCE_EXHAUSTED));
    }

    @Test
    void classesTellWhatTheCallMet() {
        assertEquals("refused", Failures.klass(
                Status.UNAVAILABLE.withCause(new IOException(new ConnectException("Connection refused")))));
        assertEquals("reset", Failures.klass(Status.UNAVAILABLE.withCause(new IOException("Connection reset by peer"))));
        assertEquals("stream-reset: INTERNAL_ERROR", Failures.klass(Status.INTERNAL.withDescription(
                "RST_STREAM closed stream. HTTP/2 error code: INTERNAL_ERROR")));
        assertEquals("application", Failures.klass(Status.UNIMPLEMENTED.withDescription("no such method")));
    }
}
