// A worker of wirelab in C++: gRPC's C-core, and bare TCP on epoll. Written from
// docs/worker-contract.md and docs/wire-tcp.md.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "events.h"
#include "grpc_server.h"
#include "measure.h"
#include "spec.h"
#include "tcp_server.h"

namespace {

constexpr unsigned kLeavingSeconds = 2;

// Waits for the end of the input, which tells the worker to stop.
void AwaitEnd() {
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}

template <typename Server>
void Serve(const Spec& spec) {
  const Server server(spec);
  EmitReady(spec, server.address(), server.settings());
  AwaitEnd();
  EmitServed();
  // After a flood of streams C-core takes longer to end than a worker may.
  std::signal(SIGALRM, [](int) { _exit(EXIT_SUCCESS); });
  alarm(kLeavingSeconds);
}

void Work(const Spec& spec) {
  if (spec.role == "capabilities") {
    EmitCapabilities();
  } else if (spec.role == "client") {
    Measure(spec);
    AwaitEnd();  // meanwhile what it cost is read from outside
  } else {
    spec.stack == "tcp" ? Serve<TcpServer>(spec) : Serve<GrpcServer>(spec);
  }
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);  // a write to who has gone is an error like others
  try {
    std::string line;
    if (!std::getline(std::cin, line)) throw Refusal("read the spec from standard input: it ended");
    Work(ParseSpec(line));
  } catch (const std::exception& e) {
    EmitError(e.what());
    return EXIT_FAILURE;
  }
}
