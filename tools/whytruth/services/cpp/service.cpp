// Service is a small web service with planted faults: service ADDRESS JOB FAULT, where FAULT is 0 or 1. It has one
// thread per connection. The job bytes reads each request in large pieces, or byte by byte. The job nodes allocates
// nothing, or a list of 50,000 nodes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <list>
#include <string>
#include <thread>

__attribute__((noinline)) static size_t nodes(int count) {
  std::list<int> all;
  for (int i = 0; i < count; i++) all.push_back(i);
  return all.size();
}

static void serve(int connection, size_t piece, int count) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nread\n";
  std::string request;
  char bytes[4096];
  for (;;) {
    ssize_t n = read(connection, bytes, piece);
    if (n <= 0) break;
    request.append(bytes, static_cast<size_t>(n));
    if (request.size() < 4 || request.compare(request.size() - 4, 4, "\r\n\r\n") != 0) continue;
    if (nodes(count) != static_cast<size_t>(count)) break;
    if (write(connection, answer.data(), answer.size()) < 0) break;
    request.clear();
  }
  close(connection);
}

int main(int count, char** arguments) {
  const std::string job = count == 4 ? arguments[2] : "";
  if (job != "bytes" && job != "nodes") {
    std::fprintf(stderr, "want ADDRESS, the job bytes or nodes, and FAULT\n");
    return 1;
  }
  const std::string address = arguments[1];
  const bool fault = arguments[3][0] == '1';
  const size_t piece = fault && job == "bytes" ? 1 : 4096;
  const int list = fault && job == "nodes" ? 50000 : 0;
  const size_t colon = address.find(':');
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &at.sin_addr);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(listener, 128) != 0) {
    std::perror("service");
    return 1;
  }
  for (;;) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) continue;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::thread(serve, connection, piece, list).detach();
  }
}
