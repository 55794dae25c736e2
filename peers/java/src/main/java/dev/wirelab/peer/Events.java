package dev.wirelab.peer;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/** What this process says, a line each, on standard output. */
final class Events {
    private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();

    private Events() {}

    /** A setting that is not its library's default. */
    record Setting(String side, String name, String value, String defaultValue, String why) {
        Map<String, String> fields() {
            return Map.of("side", side, "name", name, "value", value, "default", defaultValue, "why", why);
        }
    }

    private static volatile boolean measured;

    static void capabilities() {
        List<String> workloads =
                Stream.of(Spec.Workload.values()).map(w -> w.name().toLowerCase(Locale.ROOT)).toList();
        emit("capabilities", Map.of(
                "contract", Spec.CONTRACT,
                "roles", List.of("server", "client"),
                "stacks", Map.of(Spec.STACK, List.of(Spec.API_OPTION)),
                "workloads", workloads,
                "loads", List.of("closed"),
                "connections", Spec.CONNECTIONS));
    }

    static void ready(String address, List<Setting> settings) {
        emit("ready", Map.of(
                "contract", Spec.CONTRACT,
                "address", address,
                "pid", ProcessHandle.current().pid(),
                "runtime", Versions.runtime(),
                "settings", settings.stream().map(Setting::fields).toList()));
    }

    static void progress(boolean warming, long done, double fraction) {
        emit("progress", Map.of("warming", warming, "done", done, "fraction", fraction));
    }

    /** The end of a server. What it cost is seen from outside. */
    static void served() {
        emit("result", Map.of("server", Map.of()));
    }

    static void measured(Map<String, Object> client) {
        measured = true;
        emit("result", Map.of("client", client));
    }

    static void error(String message) {
        emit("error", Map.of("message", message));
    }

    /** Whether a client has told its result, or is about to. */
    static boolean hasMeasured() {
        return measured;
    }

    private static synchronized void emit(String name, Object part) {
        System.out.println(GSON.toJson(Map.of("event", name, name, part)));
        System.out.flush();
    }
}
