// The stack grpc: gRPC's asynchronous server, a completion queue and a thread a CPU.
#pragma once

#include <memory>
#include <string>

class GrpcServer {
 public:
  // Listens on HOST:PORT and serves.
  explicit GrpcServer(const std::string& address);
  ~GrpcServer();

  // HOST:PORT with its real port.
  const std::string& address() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
