package dev.wirelab.peer;

import com.google.protobuf.MessageLite;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** One caller, with one call in flight. What remains is how it calls. */
abstract class Caller<Q extends MessageLite, A> {
    private final Window window;
    private final Failures failures;
    private final Dialogue<Q, A> dialogue;
    private final CallLog log;
    private final AtomicLong done = new AtomicLong(); // read by others
    private final CountDownLatch ended = new CountDownLatch(1);
    private long left; // calls to measure
    private boolean finished;
    private long sent;

    /** What all callers of a client have in common. */
    record Common(Window window, Failures failures) {}

    Caller(Common common, int index, Dialogue<Q, A> dialogue) {
        window = common.window();
        failures = common.failures();
        this.dialogue = dialogue;
        log = new CallLog(index);
        left = window.calls(index);
    }

    /** Begins to call, and returns. */
    abstract void start();

    /** Cancels the call in flight, from any thread. */
    abstract void cancel();

    /** Calls made so far, from any thread. */
    long done() {
        return done.get();
    }

    /** The calls, of a caller that has ended. */
    CallLog log() {
        return log;
    }

    boolean ended(long withinNs) throws InterruptedException {
        return ended.await(withinNs, TimeUnit.NANOSECONDS);
    }

    /** Returns what to send now, and takes the time; null: no more. */
    Q next() {
        if (window.over()) {
            ended.countDown();
            return null;
        }
        Q message = dialogue.next();
        sent = Clock.now();
        if (window.timed()) {
            if (!finished && sent >= window.end()) {
                finish(); // and goes on, so that the others' last calls are under the same load
            }
        } else if (sent >= window.begin() && left-- == 0) {
            finish();
            ended.countDown();
            return null;
        }
        return message;
    }

    void answered(A answer) {
        long now = Clock.now();
        String fault = dialogue.fault(answer);
        add(now, fault == null ? 0 : failures.wrongAnswer(fault));
    }

    void failed(Throwable why) {
        add(Clock.now(), failures.add(why));
    }

    private void add(long now, int failure) {
        log.add(sent, now, failure);
        done.lazySet(done.getPlain() + 1);
    }

    private void finish() {
        finished = true;
        window.finished();
    }
}
