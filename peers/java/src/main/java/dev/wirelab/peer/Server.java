package dev.wirelab.peer;

import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** grpc-java's server on Netty, with its own threads: Netty's, and a cached pool for handlers. */
final class Server {
    // A peer that stops in the middle is closed within the sum of two of them.
    private static final int HANDSHAKE_SECONDS = 10;
    private static final int PING_AFTER_SECONDS = 10;
    private static final int ANSWER_WITHIN_SECONDS = 10;

    private final String address;

    private Server(String address) {
        this.address = address;
    }

    static Server listen(Spec spec) throws Refusal {
        InetSocketAddress at = spec.socketAddress();
        try {
            io.grpc.Server server = NettyServerBuilder.forAddress(at)
                    .addService(Services.of(spec.workload()))
                    .maxInboundMessageSize(Spec.MAX_MESSAGE_BYTES)
                    .handshakeTimeout(HANDSHAKE_SECONDS, TimeUnit.SECONDS)
                    .keepAliveTime(PING_AFTER_SECONDS, TimeUnit.SECONDS)
                    .keepAliveTimeout(ANSWER_WITHIN_SECONDS, TimeUnit.SECONDS)
                    .build()
                    .start();
            String host = spec.address().substring(0, spec.address().lastIndexOf(':'));
            return new Server(host + ":" + server.getPort());
        } catch (IOException e) {
            String why = e.getCause() == null ? e.getMessage() : e.getCause().getMessage();
            throw new Refusal("listen on " + spec.address() + ": " + why);
        }
    }

    String address() {
        return address;
    }

    static List<Events.Setting> settings() {
        String why = "a peer that stops in the middle is not kept";
        return List.of(
                new Events.Setting("server", "maxInboundMessageSize", "16 MiB", "4 MiB", "as wirelab's own servers"),
                new Events.Setting("server", "handshakeTimeout", HANDSHAKE_SECONDS + " s", "120 s", why),
                new Events.Setting("server", "keepAliveTime", PING_AFTER_SECONDS + " s", "2 h", why),
                new Events.Setting("server", "keepAliveTimeout", ANSWER_WITHIN_SECONDS + " s", "20 s", why));
    }
}
