package dev.wirelab.peer;

import com.google.protobuf.MessageLite;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.BlockingClientCall;
import java.util.function.Supplier;

/** A thread that waits for each answer. */
final class SyncCaller<Q extends MessageLite, A> extends Caller<Q, A> {
    /** Sends a message and waits for its answer. */
    interface Ask<Q, A> {
        A ask(Q message) throws StatusException, InterruptedException;
    }

    private final Ask<Q, A> ask;
    private final Thread thread;

    SyncCaller(Common common, int index, Dialogue<Q, A> dialogue, Ask<Q, A> ask) {
        super(common, index, dialogue);
        this.ask = ask;
        thread = new Thread(this::loop, "caller-" + index);
        thread.setDaemon(true);
    }

    @Override
    void start() {
        thread.start();
    }

    @Override
    void cancel() {
        thread.interrupt(); // which the blocking stubs answer by cancelling the call
    }

    private void loop() {
        for (Q message = next(); message != null; message = next()) {
            try {
                answered(ask.ask(message));
            } catch (StatusException | StatusRuntimeException e) {
                failed(e);
            } catch (InterruptedException e) {
                failed(Status.CANCELLED.withDescription("the drain time is over").asException());
            }
        }
    }

    /** Asks over a stream that stays open. After a failure the next message opens a new one. */
    static final class Stream<Q, A> implements Ask<Q, A> {
        private final Supplier<BlockingClientCall<Q, A>> open;
        private BlockingClientCall<Q, A> stream;

        Stream(Supplier<BlockingClientCall<Q, A>> open) {
            this.open = open;
        }

        @Override
        public A ask(Q message) throws StatusException, InterruptedException {
            BlockingClientCall<Q, A> over = stream == null ? open.get() : stream;
            stream = null;
            try {
                over.write(message);
                A answer = over.read();
                if (answer == null) {
                    throw Status.UNAVAILABLE.withDescription("chat: the server ended the stream").asException();
                }
                stream = over;
                return answer;
            } finally {
                if (stream == null) {
                    over.cancel("a message failed", null);
                }
            }
        }
    }
}
