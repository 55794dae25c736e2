// The server of the stack tcp: epoll, a thread a CPU. Connections go to the threads in turn.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "events.h"
#include "socket.h"
#include "spec.h"

class TcpServer {
 public:
  // Listens and serves.
  explicit TcpServer(const Spec& spec);
  ~TcpServer();

  // HOST:PORT with its real port.
  const std::string& address() const { return address_; }
  std::vector<Setting> settings() const;

 private:
  class Worker;

  void Accept();

  std::string address_;
  Descriptor listener_;
  Wake stop_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::thread accepting_;
};
