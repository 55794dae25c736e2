// A worker of wirelab in C++: the server of the workload echo over gRPC's C-core, written
// from docs/worker-contract.md.
#include <cstdlib>
#include <iostream>
#include <string>

#include "contract.h"
#include "grpc_server.h"

int main() {
  try {
    std::string line;
    if (!std::getline(std::cin, line)) throw Failure("read the spec from standard input: it ended");
    const Spec spec = ParseSpec(line);
    if (spec.stack != "grpc") throw Failure("stack \"" + spec.stack + "\": this peer serves grpc");
    const GrpcServer server(spec.address);
    EmitReady(server.address());
    while (std::getline(std::cin, line)) {
    }  // its end tells us to stop
    EmitServed();
  } catch (const std::exception& e) {
    EmitError(e.what());
    return EXIT_FAILURE;
  }
}
