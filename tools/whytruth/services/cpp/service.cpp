// Service is a small web service with planted faults: service ADDRESS JOB FAULT, where FAULT is 0 or 1. It has one
// thread per connection. The job bytes reads each request in large pieces, or byte by byte. The job nodes allocates
// nothing, or a list of 50,000 nodes. The job matrix adds a matrix row by row, or column by column. The job guarded
// fills a short list without a lock, or under a lock.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

__attribute__((noinline)) static long nodes(int count) {
  std::list<int> all;
  for (int i = 0; i < count; i++) all.push_back(i);
  return static_cast<long>(all.size());
}

static const int side = 1024;
static std::vector<int> matrix(side* side, 1);

__attribute__((noinline)) static long sum_rows() {
  long sum = 0;
  for (int row = 0; row < side; row++)
    for (int column = 0; column < side; column++) sum += matrix[row * side + column];
  return sum;
}

__attribute__((noinline)) static long sum_columns() {
  long sum = 0;
  for (int column = 0; column < side; column++)
    for (int row = 0; row < side; row++) sum += matrix[row * side + column];
  return sum;
}

static long guarded() {
  static std::mutex lock;
  const std::lock_guard<std::mutex> held(lock);
  return nodes(50);
}

// work does the job of one request, and returns what it counted.
static long work(const std::string& job, bool fault) {
  if (job == "nodes") return nodes(fault ? 50000 : 0);
  if (job == "matrix") return fault ? sum_columns() : sum_rows();
  if (job == "guarded") return fault ? guarded() : nodes(50);
  return 0;
}

static void serve(int connection, const std::string job, bool fault) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nread\n";
  const size_t piece = fault && job == "bytes" ? 1 : 4096;
  std::string request;
  char bytes[4096];
  for (;;) {
    ssize_t n = read(connection, bytes, piece);
    if (n <= 0) break;
    request.append(bytes, static_cast<size_t>(n));
    if (request.size() < 4 || request.compare(request.size() - 4, 4, "\r\n\r\n") != 0) continue;
    if (work(job, fault) < 0) break;
    if (write(connection, answer.data(), answer.size()) < 0) break;
    request.clear();
  }
  close(connection);
}

int main(int count, char** arguments) {
  const std::string job = count == 4 ? arguments[2] : "";
  if (job != "bytes" && job != "nodes" && job != "matrix" && job != "guarded") {
    std::fprintf(stderr, "want ADDRESS, one of the jobs bytes, nodes, matrix and guarded, and FAULT\n");
    return 1;
  }
  const std::string address = arguments[1];
  const bool fault = arguments[3][0] == '1';
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
    std::thread(serve, connection, job, fault).detach();
  }
}
