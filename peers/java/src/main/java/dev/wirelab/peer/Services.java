package dev.wirelab.peer;

import io.grpc.BindableService;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import wirelab.chat.v1.Chat.Message;
import wirelab.chat.v1.ChatServiceGrpc.ChatServiceImplBase;
import wirelab.echo.v1.Echo.Payload;
import wirelab.echo.v1.EchoServiceGrpc.EchoServiceImplBase;
import wirelab.ping.v1.Ping.PingRequest;
import wirelab.ping.v1.Ping.PingResponse;
import wirelab.ping.v1.PingServiceGrpc.PingServiceImplBase;

/** The handlers: what came goes back. */
final class Services {
    private Services() {}

    static BindableService of(Spec.Workload workload) {
        return switch (workload) {
            case ECHO -> new Echo();
            case PING -> new Ping();
            case CHAT -> new Chat();
        };
    }

    static final class Echo extends EchoServiceImplBase {
        @Override
        public void echo(Payload request, StreamObserver<Payload> answer) {
            if (request.hasAnswerBytes()) {
                answer.onError(otherSize());
                return;
            }
            answer.onNext(request.toBuilder().setTimestamp(Clock.timestamp()).build());
            answer.onCompleted();
        }
    }

    static final class Ping extends PingServiceImplBase {
        @Override
        public void ping(PingRequest request, StreamObserver<PingResponse> answer) {
            answer.onNext(PingResponse.getDefaultInstance());
            answer.onCompleted();
        }
    }

    static final class Chat extends ChatServiceImplBase {
        @Override
        public StreamObserver<Message> chat(StreamObserver<Message> answers) {
            return new Talk((ServerCallStreamObserver<Message>) answers);
        }
    }

    /** A stream of a chat. It asks for a message only while answers leave, so that none pile up. */
    private static final class Talk implements StreamObserver<Message> {
        private final ServerCallStreamObserver<Message> answers;
        private boolean waiting = true; // for room; its callbacks come one at a time
        private boolean refused;

        Talk(ServerCallStreamObserver<Message> answers) {
            this.answers = answers;
            answers.disableAutoRequest();
            answers.setOnReadyHandler(this::goOn);
            answers.setOnCancelHandler(() -> {}); // else writing to a stream that is gone throws
        }

        private void goOn() {
            if (waiting && answers.isReady()) {
                waiting = false;
                answers.request(1);
            }
        }

        @Override
        public void onNext(Message message) {
            if (message.hasAnswerBytes()) {
                refused = true;
                answers.onError(otherSize());
                return;
            }
            answers.onNext(message);
            waiting = true;
            goOn();
        }

        @Override
        public void onError(Throwable gone) {}

        @Override
        public void onCompleted() {
            if (!refused) {
                answers.onCompleted();
            }
        }
    }

    private static StatusRuntimeException otherSize() {
        return Status.UNIMPLEMENTED
                .withDescription("this server answers with what came, not with another size")
                .asRuntimeException();
    }
}
