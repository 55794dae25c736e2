#include "contract.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <array>
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <sstream>

namespace {

constexpr int kContract = 1;

// Options that a server knows nothing of, and the one that chose this worker.
constexpr std::array kOthers = {"server", "inflight", "conn", "client", "messages"};

using google::protobuf::Struct;
using google::protobuf::Value;

const Value& Field(const Struct& in, const std::string& name) {
  static const Value none;
  const auto found = in.fields().find(name);
  return found == in.fields().end() ? none : found->second;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escaped[7];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

void Emit(const std::string& line) {
  static std::mutex guard;
  const std::lock_guard lock(guard);
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void CheckOptions(const std::string& stack) {
  const auto colon = stack.find(':');
  if (colon == std::string::npos) return;
  std::istringstream options(stack.substr(colon + 1));
  for (std::string option; std::getline(options, option, ',');) {
    const auto key = option.substr(0, option.find('='));
    if (std::find(kOthers.begin(), kOthers.end(), key) == kOthers.end())
      throw Failure("variant " + stack + ": the C++ peer does not have " + option);
  }
}

}  // namespace

Spec ParseSpec(const std::string& line) {
  Struct spec;
  const auto parsed = google::protobuf::util::JsonStringToMessage(line, &spec);
  if (!parsed.ok()) throw Failure("worker spec: " + parsed.ToString());
  const auto contract = Field(spec, "contract").number_value();
  if (contract != kContract)
    throw Failure("worker spec: contract version " + std::to_string(static_cast<int64_t>(contract)) +
                  ": this worker implements version " + std::to_string(kContract));
  const auto& role = Field(spec, "role").string_value();
  if (role != "server") throw Failure("worker spec: role " + Quoted(role) + ": this peer is a server only");
  const auto& workload = Field(spec, "workload").struct_value();
  const auto& name = Field(workload, "name").string_value();
  if (name != "echo") throw Failure("workload " + Quoted(name) + ": this peer serves echo, without options");
  if (Field(workload, "request_bytes").number_value() != Field(workload, "response_bytes").number_value())
    throw Failure("sizes: this peer answers echo with what came, not with another size");
  const auto& stack = Field(spec, "stack").string_value();
  CheckOptions(stack);
  return {stack.substr(0, stack.find(':')), Field(spec, "address").string_value()};
}

void EmitReady(const std::string& address) {
  const auto runtime = std::string(PEER_COMPILER) + ", gRPC " + grpc::Version() + ", protobuf " +
                       google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION) + ", " + PEER_FLAGS;
  Emit("{\"event\":\"ready\",\"ready\":{\"contract\":" + std::to_string(kContract) + ",\"address\":" + Quoted(address) +
       ",\"pid\":" + std::to_string(getpid()) + ",\"runtime\":" + Quoted(runtime) + "}}");
}

// What it cost is seen from outside.
void EmitServed() { Emit(R"({"event":"result","result":{"server":{}}})"); }

void EmitError(const std::string& message) {
  Emit("{\"event\":\"error\",\"error\":{\"message\":" + Quoted(message) + "}}");
}
