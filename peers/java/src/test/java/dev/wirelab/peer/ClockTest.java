package dev.wirelab.peer;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ClockTest {
    private static final long STEP_NS = 10_000_000; // of /proc/uptime

    /**
     * The clock is the one that other processes read. /proc/uptime is CLOCK_BOOTTIME, which is
     * ahead of it by the time that the machine was suspended; machines that measure are not.
     */
    @Test
    void isTheMachinesMonotonicClock() throws IOException {
        long before = Clock.now();
        String uptime = Files.readString(Path.of("/proc/uptime")).split(" ")[0];
        long after = Clock.now();
        long read = Math.round(Double.parseDouble(uptime) * 1e9);
        assertTrue(
                before - STEP_NS <= read && read <= after + STEP_NS,
                "/proc/uptime says " + uptime + " s, between " + before + " and " + after + " ns");
    }
}
