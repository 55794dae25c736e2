package dev.wirelab.peer;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import java.nio.ByteBuffer;
import java.util.SplittableRandom;
import wirelab.chat.v1.Chat.Message;
import wirelab.echo.v1.Echo.Payload;
import wirelab.ping.v1.Ping.PingRequest;
import wirelab.ping.v1.Ping.PingResponse;

/** What a caller says, and whether an answer is the right one. */
abstract class Dialogue<Q extends MessageLite, A> {
    /** The next message. */
    abstract Q next();

    /** What is wrong with the answer to the last message; null: nothing. */
    abstract String fault(A answer);

    static final class Ping extends Dialogue<PingRequest, PingResponse> {
        @Override
        PingRequest next() {
            return PingRequest.getDefaultInstance();
        }

        @Override
        String fault(PingResponse answer) {
            return answer.getSerializedSize() == 0 ? null : "ping: the answer is not empty";
        }
    }

    static final class Echo extends Dialogue<Payload, Payload> {
        private final Filling filling;
        private Payload sent = Payload.getDefaultInstance();

        Echo(Filling filling) {
            this.filling = filling;
        }

        @Override
        Payload next() {
            sent = Payload.newBuilder()
                    .setId(sent.getId() + 1)
                    .setData(filling.next())
                    .setTimestamp(Clock.timestamp())
                    .build();
            return sent;
        }

        @Override
        String fault(Payload answer) {
            if (answer.getId() != sent.getId()) {
                return "echo: sent id " + sent.getId() + ", got id " + answer.getId();
            }
            return answer.getData().equals(sent.getData())
                    ? null
                    : "echo: the answer's " + answer.getData().size() + " bytes differ from the "
                            + sent.getData().size() + " sent";
        }
    }

    static final class Chat extends Dialogue<Message, Message> {
        private final Filling filling;
        private Message sent = Message.getDefaultInstance();

        Chat(Filling filling) {
            this.filling = filling;
        }

        @Override
        Message next() {
            sent = Message.newBuilder()
                    .setNumber(sent.getNumber() + 1)
                    .setData(filling.next())
                    .build();
            return sent;
        }

        @Override
        String fault(Message answer) {
            if (answer.getNumber() != sent.getNumber()) {
                return "chat: sent message " + sent.getNumber() + ", got the answer to " + answer.getNumber();
            }
            return answer.getData().equals(sent.getData())
                    ? null
                    : "chat: the answer's " + answer.getData().size() + " bytes differ from the "
                            + sent.getData().size() + " sent";
        }
    }

    /** Random bytes, whose last eight are new each time. */
    static final class Filling {
        private final byte[] data;
        private final SplittableRandom random;

        Filling(int bytes, long seed) {
            random = new SplittableRandom(seed);
            data = new byte[bytes];
            random.nextBytes(data);
        }

        ByteString next() {
            long fresh = random.nextLong();
            if (data.length >= Long.BYTES) {
                ByteBuffer.wrap(data).putLong(data.length - Long.BYTES, fresh);
            } else {
                for (int i = 0; i < data.length; i++) {
                    data[i] = (byte) (fresh >>> 8 * i);
                }
            }
            return ByteString.copyFrom(data);
        }
    }
}
