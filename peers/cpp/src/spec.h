// The spec of the process contract (docs/worker-contract.md): what a worker is to do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// What is wrong with a spec, or with the machine, for a person.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The contract's version that this worker speaks.
constexpr int kContract = 1;

using Names = std::vector<std::string>;

// What a stack has: the workloads that it carries, and the options of each end.
struct Stack {
  Names workloads, server_options, client_options;
};

const std::map<std::string, Stack>& Stacks();

bool Has(const Names& names, const std::string& name);

// Options of a variant, by their keys.
using Options = std::map<std::string, std::string>;

// What a client is to do.
struct ClientSpec {
  int clients = 0;
  std::string connection;  // the mode, as in pool:4
  int connections = 0;     // how many that are
  uint64_t seed = 0;
  std::string calls_file;
  int64_t requests = 0;  // of each caller; 0: as many as there is time for
  int64_t extra_requests = 0;
  int64_t duration_ns = 0;
  int64_t warm_up_ns = 0;
  int64_t drain_ns = 0;
  bool block = false;  // it takes turns with other clients
};

// A stretch of the window of a client in a block: it sends from one instant on, and measures the
// calls that begin between the two others.
struct Slice {
  int64_t send_ns, from_ns, to_ns;
};

// The slices of a client, and the instant at which the last one of all clients ends.
struct Turns {
  std::vector<Slice> slices;
  int64_t over_ns;
};

struct Spec {
  std::string role;  // server, client or capabilities
  std::string stack;  // its name, without options
  Options options;
  std::string workload;
  size_t data_bytes = 0;  // of a message
  std::string address;    // HOST:PORT
  ClientSpec client;

  // A whole number among the options, from 1 to the most; the default where it is absent.
  int Number(const std::string& key, int fallback, int most) const;
  std::string Text(const std::string& key, const std::string& fallback) const;
};

// Reads a spec, and refuses what this worker does not do.
Spec ParseSpec(const std::string& line);

// Reads a later line of the input. Nothing: it is no control that this worker obeys.
std::optional<Turns> ParseTurns(const std::string& line);
