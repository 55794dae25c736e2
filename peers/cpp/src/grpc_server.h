// The stack grpc: C-core's asynchronous server, completion queues with threads of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "events.h"
#include "spec.h"

class GrpcServer {
 public:
  // Listens and serves.
  explicit GrpcServer(const Spec& spec);
  ~GrpcServer();

  // HOST:PORT with its real port.
  const std::string& address() const;
  std::vector<Setting> settings() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
