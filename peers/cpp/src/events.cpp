#include "events.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "json.h"

namespace {

std::string JsonList(const Names& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ",") + Quoted(name);
  return "[" + out + "]";
}

void Emit(const std::string& line) {
  static std::mutex guard;
  const std::lock_guard lock(guard);
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string Json(const ConnectionCounts& counts) {
  return "{\"opened\":" + std::to_string(counts.opened) + ",\"failed\":" + std::to_string(counts.failed) +
         ",\"open\":" + std::to_string(counts.open) + "}";
}

std::string Runtime() {
  return "C++20, " PEER_COMPILER ", gRPC " + grpc::Version() + ", protobuf " +
         google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION) + ", " PEER_FLAGS;
}

}  // namespace

void EmitCapabilities() {
  std::string stacks, separator;
  Names workloads;
  for (const auto& [name, stack] : Stacks()) {
    Names keys = stack.server_options;
    keys.insert(keys.end(), stack.client_options.begin(), stack.client_options.end());
    stacks += separator + Quoted(name) + ":" + JsonList(keys);
    separator = ",";
    for (const auto& workload : stack.workloads)
      if (!Has(workloads, workload)) workloads.push_back(workload);
  }
  Emit("{\"event\":\"capabilities\",\"capabilities\":{\"contract\":" + std::to_string(kContract) +
       ",\"roles\":[\"server\",\"client\"],\"stacks\":{" + stacks + "},\"workloads\":" + JsonList(workloads) +
       ",\"loads\":[\"closed\"],\"connections\":[\"shared\",\"per-worker\",\"pool\"],\"controls\":[\"slices\"]}}");
}

void EmitReady(const Spec& spec, const std::string& address, const std::vector<Setting>& settings) {
  std::string list;
  for (const auto& [name, value, fallback, why] : settings)
    list += (list.empty() ? "" : ",") + ("{\"side\":" + Quoted(spec.role)) + ",\"name\":" + Quoted(name) +
            ",\"value\":" + Quoted(value) + ",\"default\":" + Quoted(fallback) + ",\"why\":" + Quoted(why) + "}";
  Emit("{\"event\":\"ready\",\"ready\":{\"contract\":" + std::to_string(kContract) + ",\"address\":" + Quoted(address) +
       ",\"pid\":" + std::to_string(getpid()) + ",\"runtime\":" + Quoted(Runtime()) + ",\"settings\":[" + list + "]}}");
}

void EmitProgress(const Progress& progress) {
  Emit(std::string("{\"event\":\"progress\",\"progress\":{\"warming\":") + (progress.warming ? "true" : "false") +
       ",\"done\":" + std::to_string(progress.done) + ",\"fraction\":" + std::to_string(progress.fraction) +
       (progress.rests ? ",\"settled\":true,\"paused\":true,\"mean_ns\":" + std::to_string(progress.mean_ns) : "") + "}}");
}

// What it cost is seen from outside.
void EmitServed() { Emit(R"({"event":"result","result":{"server":{}}})"); }

void EmitMeasured(const Spec& spec, const ClientResult& result) {
  std::string failures;
  for (const auto& [kind, code, example] : result.failures)
    failures += (failures.empty() ? "" : ",") + ("{\"class\":" + Quoted(kind)) + ",\"code\":" + Quoted(code) +
                ",\"example\":" + Quoted(example) + "}";
  Emit("{\"event\":\"result\",\"result\":{\"client\":{\"begin_ns\":" + std::to_string(result.begin_ns) +
       ",\"end_ns\":" + std::to_string(result.end_ns) + ",\"calls_written\":" + std::to_string(result.calls_written) +
       ",\"failures\":[" + failures + "],\"connections\":{\"mode\":" + Quoted(spec.client.connection) +
       ",\"want\":" + std::to_string(spec.client.connections) + ",\"total\":" + Json(result.total) +
       ",\"during\":" + std::to_string(result.window.opened) + ",\"window\":" + Json(result.window) + "}}}}");
}

void EmitError(const std::string& message) {
  Emit("{\"event\":\"error\",\"error\":{\"message\":" + Quoted(message) + "}}");
}
