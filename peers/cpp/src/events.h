// The events of the process contract (docs/worker-contract.md): what a worker says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec.h"

// What this end uses that is not its library's default.
struct Setting {
  std::string name, value, fallback, why;
};

struct Progress {
  bool warming;
  uint64_t done;
  double fraction;
  bool rests = false;  // it waits for its slices
  int64_t mean_ns = 0;  // of the calls until it rests
};

// Failed calls of one kind.
struct FailureKind {
  std::string kind, code, example;
};

struct ConnectionCounts {
  int64_t opened = 0, failed = 0, open = 0;
};

struct ClientResult {
  int64_t begin_ns, end_ns;
  uint64_t calls_written;
  std::vector<FailureKind> failures;
  ConnectionCounts total, window;
};

void EmitCapabilities();
void EmitReady(const Spec& spec, const std::string& address, const std::vector<Setting>& settings);
void EmitProgress(const Progress& progress);
void EmitServed();
void EmitMeasured(const Spec& spec, const ClientResult& result);
void EmitError(const std::string& message);
