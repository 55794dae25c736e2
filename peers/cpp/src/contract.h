// The process contract: a spec in, events out.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

// What is wrong with a spec, or with the machine, for a person.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Spec {
  std::string stack;    // its name, without options
  std::string address;  // HOST:PORT
};

// Reads a spec, and refuses what this worker does not do.
Spec ParseSpec(const std::string& line);

void EmitReady(const std::string& address);
void EmitServed();
void EmitError(const std::string& message);
