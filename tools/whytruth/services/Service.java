import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/** Service is a small web service with planted faults: Service.java ADDRESS JOB FAULT, where FAULT is 0 or 1. */
public class Service {
    private static final Object lock = new Object();

    public static void main(String[] arguments) throws Exception {
        String[] address = arguments[0].split(":");
        boolean parses = arguments[1].equals("parse");
        if (!parses && !arguments[1].equals("account")) {
            throw new IllegalArgumentException("no job is named " + arguments[1]);
        }
        boolean fault = arguments[2].equals("1");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(address[0], Integer.parseInt(address[1])), 128);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            if (parses) {
                for (int i = 0; i < 100; i++) {
                    parse(200, fault ? "x" : "1");
                }
            } else if (fault) {
                synchronized (lock) {
                    query();
                }
            } else {
                query();
            }
            byte[] text = "booked\n".getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }

    /** parse reads a number at a depth of some calls; for what is no number, it throws and catches an exception. */
    private static int parse(int depth, String text) {
        if (depth > 0) {
            return parse(depth - 1, text) + 1;
        }
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    /** query waits for a data source. */
    private static void query() {
        try {
            Thread.sleep(2);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
