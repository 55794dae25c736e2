package dev.wirelab.peer;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The life of a client: connect, warm up, measure, write down. */
final class Client {
    private static final long PROGRESS_NS = TimeUnit.MILLISECONDS.toNanos(250);
    // The JVM compiles what is called often, and that takes some seconds.
    private static final long WARM_UP_NS = TimeUnit.SECONDS.toNanos(5);
    // The window opens so much ahead of time, so that callers know it when it begins.
    private static final long NOTICE_NS = TimeUnit.MILLISECONDS.toNanos(5);
    // How long calls that began after the window may take before they are cancelled, and
    // how long cancelled ones may.
    private static final long END_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long CANCEL_NS = TimeUnit.SECONDS.toNanos(5);

    private final Spec spec;
    private final Spec.Load load;
    private final Window window;
    private final Failures failures = new Failures();
    private final List<Caller<?, ?>> callers = new ArrayList<>();
    private long doneBefore; // the window

    Client(Spec spec) {
        this.spec = spec;
        load = spec.clients().load();
        window = new Window(load, spec.clients().count());
    }

    void measure() throws IOException, InterruptedException, Refusal {
        Connections connections = Connections.open(spec);
        Callers make = new Callers(spec, new Caller.Common(window, failures));
        for (int i = 0; i < spec.clients().count(); i++) {
            callers.add(make.make(i, connections.of(i)));
        }
        Events.ready(spec.address(), Connections.settings());
        warmUp();
        waitForWindow();
        long begin = window.begin();
        window.close();
        endCallers();
        long end = window.timed() ? window.end() : lastEnded();
        Map<String, Object> opened = connections.result(begin, end);
        long calls = write();
        Events.measured(Map.of(
                "begin_ns", begin,
                "end_ns", end,
                "calls_written", calls,
                "failures", failures.result(),
                "connections", opened));
    }

    /** Starts the callers, and opens the window. */
    private void warmUp() throws InterruptedException {
        if (load.warmUpAtMostNs() <= 0) {
            window.open(Clock.now());
            callers.forEach(Caller::start);
            return;
        }
        callers.forEach(Caller::start);
        long until = Clock.now() + Math.min(Math.max(WARM_UP_NS, load.warmUpAtLeastNs()), load.warmUpAtMostNs());
        for (long left = until - Clock.now(); left > 0; left = until - Clock.now()) {
            TimeUnit.NANOSECONDS.sleep(Math.min(left, PROGRESS_NS));
            Events.progress(true, done(), 0);
        }
        doneBefore = done();
        window.open(Clock.now() + NOTICE_NS);
    }

    /** Waits for the calls in the window, and cancels those that outlast the drain time. */
    private void waitForWindow() throws InterruptedException {
        long lastDone = 0;
        long lastEnded = window.begin();
        while (!window.allFinished(PROGRESS_NS)) {
            long now = Clock.now();
            long done = done();
            if (done > lastDone) {
                lastDone = done;
                lastEnded = Math.max(now, lastEnded);
            }
            Events.progress(false, done, fraction(now, done));
            if (load.drainNs() > 0 && now - (window.timed() ? window.end() : lastEnded) > load.drainNs()) {
                return;
            }
        }
    }

    private double fraction(long now, long done) {
        double part = window.timed()
                ? (double) (now - window.begin()) / load.durationNs()
                : (double) (done - doneBefore) / (load.requestsPerClient() * callers.size() + load.extraRequests());
        return Math.min(1, Math.max(0, part));
    }

    /** Ends the callers; with calls in the window still in flight those have failed. */
    private void endCallers() throws InterruptedException, Refusal {
        long patience = Clock.now() + (window.allFinished(0) ? END_NS : 0);
        long limit = patience + CANCEL_NS;
        for (Caller<?, ?> caller : callers) {
            while (!caller.ended(Math.min(PROGRESS_NS, Math.max(1, patience - Clock.now())))) {
                long now = Clock.now();
                if (now > limit) {
                    throw new Refusal("a call was cancelled, and did not end within " + CANCEL_NS / 1_000_000_000 + " s");
                }
                if (now >= patience) {
                    callers.forEach(Caller::cancel);
                    TimeUnit.MILLISECONDS.sleep(1);
                }
            }
        }
    }

    private long done() {
        return callers.stream().mapToLong(Caller::done).sum();
    }

    private long lastEnded() {
        return callers.stream().mapToLong(c -> c.log().lastEnded()).max().orElse(0);
    }

    /** Writes the calls file, and returns how many calls it has. */
    private long write() throws IOException {
        Path path = Path.of(spec.clients().callsFile());
        long calls = 0;
        try (FileChannel file = FileChannel.open(
                path, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            for (Caller<?, ?> caller : callers) {
                caller.log().write(file);
                calls += caller.log().calls();
            }
        }
        return calls;
    }
}
