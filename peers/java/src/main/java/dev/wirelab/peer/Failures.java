package dev.wirelab.peer;

import io.grpc.Status;
import java.net.ConnectException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The kinds of failures that calls met. Callers share it: failing calls are rare, or the trial is void. */
final class Failures {
    private record Kind(String klass, String code) {}

    private final List<Kind> kinds = new ArrayList<>();
    private final List<Map<String, String>> result = new ArrayList<>();

    /** Returns the number of the failure's kind, from 1. */
    int add(Throwable failure) {
        Status status = Status.fromThrowable(failure);
        return add(klass(status), code(status.getCode()), words(status));
    }

    /** As add, of an answer that is not the right one. */
    int wrongAnswer(String what) {
        return add("wrong-answer", "WrongAnswer", what);
    }

    /** As the result of a client has them. */
    synchronized List<Map<String, String>> result() {
        return List.copyOf(result);
    }

    private synchronized int add(String klass, String code, String example) {
        Kind kind = new Kind(klass, code);
        int known = kinds.indexOf(kind);
        if (known >= 0) {
            return known + 1;
        }
        kinds.add(kind);
        result.add(Map.of("class", klass, "code", code, "example", example));
        return kinds.size();
    }

    private static String words(Status status) {
        Throwable cause = status.getCause();
        return code(status.getCode()) + ": " + status.getDescription() + (cause == null ? "" : ": " + cause.getMessage());
    }

    /** What the call met: the kernel, HTTP/2, its caller or the handler. */
    static String klass(Status status) {
        for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
            String message = String.valueOf(cause.getMessage());
            if (cause instanceof ConnectException && message.contains("refused")) {
                return "refused";
            }
            if (message.contains("Connection reset")) {
                return "reset";
            }
        }
        String words = String.valueOf(status.getDescription());
        if (words.contains("GOAWAY")) {
            return "goaway";
        }
        if (words.contains("REFUSED_STREAM")) {
            return "stream-refused";
        }
        if (words.contains("RST_STREAM") && words.contains("error code: ")) {
            return "stream-reset: " + words.replaceAll("(?s).*error code: (\\w+).*", "$1");
        }
        if (words.contains("Network closed") || words.contains("Channel closed")) {
            return "closed";
        }
        if (words.contains("Keepalive failed")) {
            return "silent";
        }
        return switch (status.getCode()) {
            case CANCELLED -> "cancelled";
            case DEADLINE_EXCEEDED -> "deadline";
            default -> "application";
        };
    }

    /** A code as Go spells it: DEADLINE_EXCEEDED is DeadlineExceeded. */
    static String code(Status.Code code) {
        if (code == Status.Code.CANCELLED) {
            return "Canceled";
        }
        if (code == Status.Code.OK) {
            return "OK";
        }
        StringBuilder spelt = new StringBuilder();
        for (String word : code.name().split("_")) {
            spelt.append(word.charAt(0)).append(word.substring(1).toLowerCase(Locale.ROOT));
        }
        return spelt.toString();
    }
}
