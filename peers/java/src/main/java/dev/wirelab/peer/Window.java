package dev.wirelab.peer;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The measured window, as callers see it. They share nothing else while it is open.
 *
 * <p>A caller takes the time of a call first, and looks at the window then: whoever opens it a
 * moment ahead of time can be sure that a caller that did not see it yet is before it.
 */
final class Window {
    static final long NOT_YET = Long.MAX_VALUE;

    private final Spec.Load load;
    private final CountDownLatch unfinished;
    private volatile long begin = NOT_YET;
    private volatile long end = NOT_YET; // of a load with a time
    private volatile boolean over;

    Window(Spec.Load load, int callers) {
        this.load = load;
        unfinished = new CountDownLatch(callers);
    }

    void open(long at) {
        if (timed()) {
            end = at + load.durationNs();
        }
        begin = at;
    }

    boolean timed() {
        return load.requestsPerClient() <= 0;
    }

    /** How many calls a caller measures, where the load has no time. */
    long calls(int caller) {
        return load.requestsPerClient() + (caller < load.extraRequests() ? 1 : 0);
    }

    long begin() {
        return begin;
    }

    long end() {
        return end;
    }

    /** Tells callers to begin no further call. */
    void close() {
        over = true;
    }

    boolean over() {
        return over;
    }

    /** A caller has no call in the window any more. */
    void finished() {
        unfinished.countDown();
    }

    boolean allFinished(long withinNs) throws InterruptedException {
        return unfinished.await(withinNs, TimeUnit.NANOSECONDS);
    }
}
