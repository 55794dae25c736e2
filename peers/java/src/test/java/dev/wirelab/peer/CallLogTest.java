package dev.wirelab.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CallLogTest {
    @Test
    void writesEveryCallAsTheContractSays(@TempDir Path folder) throws IOException {
        int calls = 20_000; // more than one part has
        CallLog log = new CallLog(7);
        for (int i = 0; i < calls; i++) {
            log.add(100 + i, 200 + i, i % 3);
        }
        Path path = folder.resolve("calls");
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            log.write(file);
        }
        ByteBuffer read = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(calls * CallLog.CALL_BYTES, read.remaining());
        assertEquals(calls, log.calls());
        for (int i = 0; i < calls; i++) {
            assertEquals(100 + i, read.getLong(), "due");
            assertEquals(100 + i, read.getLong(), "sent");
            assertEquals(200 + i, read.getLong(), "ended");
            assertEquals(7, read.getInt(), "caller");
            assertEquals(i % 3, read.getInt(), "failure");
        }
        assertEquals(200 + calls - 1, log.lastEnded());
    }
}
