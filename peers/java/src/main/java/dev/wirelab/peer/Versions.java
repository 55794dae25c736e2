package dev.wirelab.peer;

import com.google.protobuf.RuntimeVersion;
import io.grpc.internal.GrpcUtil;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.handler.ssl.OpenSsl;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;

/** What runs here. */
final class Versions {
    private static final String NETTY_VERSIONS = "/META-INF/io.grpc.netty.shaded.io.netty.versions.properties";

    private Versions() {}

    /** The JVM with its flags and its collector, and the libraries that carry the calls. */
    static String runtime() {
        List<String> flags = ManagementFactory.getRuntimeMXBean().getInputArguments();
        String collectors = ManagementFactory.getGarbageCollectorMXBeans().stream()
                .map(GarbageCollectorMXBean::getName)
                .collect(Collectors.joining(" + "));
        return "%s %s (GC %s, %d CPUs, %s), grpc-java %s, Netty %s (shaded; %s, %s), protobuf-java %d.%d.%d"
                .formatted(
                        System.getProperty("java.vm.name"),
                        System.getProperty("java.vm.version"),
                        collectors,
                        Runtime.getRuntime().availableProcessors(),
                        flags.isEmpty() ? "no flags" : String.join(" ", flags),
                        GrpcUtil.getGrpcBuildVersion().getImplementationVersion(),
                        netty(),
                        Epoll.isAvailable() ? "epoll" : "NIO",
                        OpenSsl.isAvailable() ? "tcnative" : "no tcnative",
                        RuntimeVersion.MAJOR,
                        RuntimeVersion.MINOR,
                        RuntimeVersion.PATCH);
    }

    /** Netty's own look-up asks for the file under the name that it has outside of the shaded jar. */
    private static String netty() {
        Properties versions = new Properties();
        try (InputStream file = Versions.class.getResourceAsStream(NETTY_VERSIONS)) {
            if (file != null) {
                versions.load(file);
            }
        } catch (IOException e) {
            // unknown, then
        }
        return versions.getProperty("netty-common.version", "of unknown version");
    }
}
