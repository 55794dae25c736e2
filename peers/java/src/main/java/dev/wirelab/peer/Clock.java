package dev.wirelab.peer;

/** The clock that all processes of the machine share. */
final class Clock {
    private Clock() {}

    /**
     * Nanoseconds of CLOCK_MONOTONIC. HotSpot reads just this clock on Linux, though Java
     * promises no origin; ClockTest holds it against /proc/uptime.
     */
    static long now() {
        return System.nanoTime();
    }

    /** What messages carry as their timestamp: nanoseconds of the Unix epoch, in milliseconds' steps. */
    static long timestamp() {
        return System.currentTimeMillis() * 1_000_000;
    }
}
