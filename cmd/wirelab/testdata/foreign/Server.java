import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/** Writes a line for each request before it answers: java Server DIR PORT. */
class Server {
  static final AtomicInteger seen = new AtomicInteger();
  static FileOutputStream log;

  public static void main(String[] args) throws IOException {
    log = new FileOutputStream(args[0] + "/log", true);
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[1])), 100);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.createContext("/", Server::serve);
    server.start();
  }

  static void serve(HttpExchange exchange) throws IOException {
    var received = exchange.getRequestBody().readAllBytes().length;
    var path = exchange.getRequestURI().getPath();
    var head = exchange.getRequestMethod().equals("HEAD");
    var cut = path.equals("/cut") && seen.incrementAndGet() % 20 == 0;
    var line = "{\"request\":{\"method\":\"%s\",\"proto\":\"%s\"},\"status\":%d,\"size\":%d,\"received\":%d}\n".formatted(
        exchange.getRequestMethod(), exchange.getProtocol(), cut ? 0 : 200, cut || head ? 0 : 5, received);
    synchronized (log) {
      log.write(line.getBytes());
    }
    if (cut) {
      exchange.close(); // without an answer
      return;
    }
    if (path.equals("/closing") && seen.incrementAndGet() % 100 == 0) {
      exchange.getResponseHeaders().set("Connection", "close");
    }
    exchange.sendResponseHeaders(200, head ? -1 : 5);
    if (!head) {
      exchange.getResponseBody().write("hello".getBytes());
    }
    exchange.close();
  }
}
