package dev.wirelab.peer;

import com.google.protobuf.MessageLite;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.util.function.Function;

/** A caller that goes on in the library's callbacks, on the threads of its executor. */
abstract class AsyncCaller<Q extends MessageLite, A> extends Caller<Q, A> {
    private volatile ClientCallStreamObserver<Q> inFlight;

    private AsyncCaller(Common common, int index, Dialogue<Q, A> dialogue) {
        super(common, index, dialogue);
    }

    @Override
    void start() {
        goOn();
    }

    @Override
    void cancel() {
        ClientCallStreamObserver<Q> call = inFlight;
        if (call != null) {
            call.cancel("the drain time is over", null);
        }
    }

    abstract void send(Q message);

    /** Sends the next message, if there is one. */
    final void goOn() {
        Q message = next();
        if (message == null) {
            return;
        }
        send(message);
    }

    /** An observer of a call that can be cancelled. */
    private abstract static class Observer<Q extends MessageLite, A> implements ClientResponseObserver<Q, A> {
        private final AsyncCaller<Q, A> caller;

        Observer(AsyncCaller<Q, A> caller) {
            this.caller = caller;
        }

        @Override
        public void beforeStart(ClientCallStreamObserver<Q> call) {
            caller.inFlight = call;
        }
    }

    /** A call a message. */
    static final class Unary<Q extends MessageLite, A> extends AsyncCaller<Q, A> {
        /** A method of an asynchronous stub. */
        interface Method<Q, A> {
            void call(Q message, StreamObserver<A> observer);
        }

        private final Method<Q, A> method;

        Unary(Common common, int index, Dialogue<Q, A> dialogue, Method<Q, A> method) {
            super(common, index, dialogue);
            this.method = method;
        }

        @Override
        void send(Q message) {
            method.call(message, new Answer());
        }

        private final class Answer extends Observer<Q, A> {
            private A answer;

            Answer() {
                super(Unary.this);
            }

            @Override
            public void onNext(A value) {
                answer = value;
            }

            @Override
            public void onError(Throwable why) {
                failed(why);
                goOn();
            }

            @Override
            public void onCompleted() {
                answered(answer); // the library sees to it that there was one
                goOn();
            }
        }
    }

    /** A message on a stream that stays open. After a failure the next message opens a new one. */
    static final class Stream<Q extends MessageLite, A> extends AsyncCaller<Q, A> {
        private final Function<StreamObserver<A>, StreamObserver<Q>> open;
        private StreamObserver<Q> stream;
        private boolean asking; // what comes while it does not is no answer

        Stream(
                Common common,
                int index,
                Dialogue<Q, A> dialogue,
                Function<StreamObserver<A>, StreamObserver<Q>> open) {
            super(common, index, dialogue);
            this.open = open;
        }

        @Override
        void send(Q message) {
            if (stream == null) {
                stream = open.apply(new Answers());
            }
            asking = true;
            stream.onNext(message);
        }

        private final class Answers extends Observer<Q, A> {
            Answers() {
                super(Stream.this);
            }

            @Override
            public void onNext(A answer) {
                if (asking) {
                    asking = false;
                    answered(answer);
                    goOn();
                }
            }

            @Override
            public void onError(Throwable why) {
                stream = null;
                if (asking) {
                    asking = false;
                    failed(why);
                    goOn();
                }
            }

            @Override
            public void onCompleted() {
                onError(Status.UNAVAILABLE.withDescription("chat: the server ended the stream").asException());
            }
        }
    }
}
