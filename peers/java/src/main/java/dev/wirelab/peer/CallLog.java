package dev.wirelab.peer;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * The calls of one caller, as the calls file has them. They lie outside the heap, where no
 * collector copies them.
 */
final class CallLog {
    static final int CALL_BYTES = 32;
    private static final int FIRST_BYTES = 1024 * CALL_BYTES;
    private static final int MOST_BYTES = 8 * FIRST_BYTES; // in one go: clearing it takes time

    private final int caller;
    private final List<ByteBuffer> full = new ArrayList<>();
    private ByteBuffer last = room(FIRST_BYTES);
    private long lastEnded;
    private long calls;

    CallLog(int caller) {
        this.caller = caller;
    }

    /** Adds a call; {@code failure} is 0, or what {@link Failures#add} gave. */
    void add(long sent, long ended, int failure) {
        if (!last.hasRemaining()) {
            full.add(last);
            last = room(Math.min(2 * last.capacity(), MOST_BYTES));
        }
        // In a closed loop a call is due when it is sent.
        last.putLong(sent).putLong(sent).putLong(ended).putInt(caller).putInt(failure);
        lastEnded = ended;
        calls++;
    }

    long calls() {
        return calls;
    }

    /** When the last call ended. */
    long lastEnded() {
        return lastEnded;
    }

    void write(FileChannel file) throws IOException {
        full.add(last);
        for (ByteBuffer part : full) {
            part.flip();
            while (part.hasRemaining()) {
                file.write(part);
            }
        }
    }

    private static ByteBuffer room(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
