package dev.wirelab.peer;

import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The kernel's word on this process's sockets. */
final class Sockets {
    private static final String MAPPED = "0000000000000000FFFF0000"; // an IPv4 address in IPv6 (RFC 4291, 2.5.5.2)
    private static final String ESTABLISHED = "01"; // TCP_ESTABLISHED in linux/tcp_states.h

    private Sockets() {}

    /** How many TCP connections to the server are established. */
    static int established(InetSocketAddress server) throws IOException {
        Set<String> own = inodes();
        int count = 0;
        for (String table : List.of("/proc/self/net/tcp", "/proc/self/net/tcp6")) {
            Path file = Path.of(table);
            if (!Files.exists(file)) { // a kernel without IPv6
                continue;
            }
            for (String line : Files.readAllLines(file)) {
                // "0: LOCAL:PORT REMOTE:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE …"
                String[] field = line.trim().split("\\s+");
                if (field[3].equals(ESTABLISHED) && is(field[2], server) && own.contains(field[9])) {
                    count++;
                }
            }
        }
        return count;
    }

    private static boolean is(String remote, InetSocketAddress server) {
        String address = hex(server.getAddress());
        String port = String.format(":%04X", server.getPort());
        return remote.equals(address + port)
                || server.getAddress() instanceof Inet4Address && remote.equals(MAPPED + address + port);
    }

    /** An address as the kernel prints it: words of four bytes, each as a number of this machine. */
    static String hex(InetAddress address) {
        ByteBuffer words = ByteBuffer.wrap(address.getAddress()).order(ByteOrder.nativeOrder());
        StringBuilder printed = new StringBuilder();
        while (words.hasRemaining()) {
            printed.append(String.format("%08X", words.getInt()));
        }
        return printed.toString();
    }

    private static Set<String> inodes() throws IOException {
        Set<String> found = new HashSet<>();
        try (DirectoryStream<Path> open = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path descriptor : open) {
                try {
                    String target = Files.readSymbolicLink(descriptor).toString();
                    if (target.startsWith("socket:[")) {
                        found.add(target.substring("socket:[".length(), target.length() - 1));
                    }
                } catch (NoSuchFileException e) {
                    // closed meanwhile
                }
            }
        }
        return found;
    }
}
