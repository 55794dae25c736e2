#include "spec.h"

#include <algorithm>
#include <sstream>

#include "json.h"

namespace {

constexpr int64_t kMaxBytes = 16 << 20;
constexpr int64_t kMaxClients = 100'000;
constexpr int64_t kSecond = 1'000'000'000;

std::string Joined(const Names& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// A whole number in decimal, from 1 to the most; 0: it is none.
int ParseNumber(const std::string& text, int most) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return 0;
  const int number = std::stoi(text);
  return number <= most ? number : 0;
}

void ParseStack(const std::string& variant, Spec& spec) {
  spec.stack = variant.substr(0, variant.find(':'));
  if (!Stacks().contains(spec.stack)) throw Refusal("stack " + Quoted(spec.stack) + ": this peer has grpc and tcp");
}

void ParseOptions(const std::string& variant, Spec& spec) {
  const auto colon = variant.find(':');
  if (colon == std::string::npos) return;
  const auto& stack = Stacks().at(spec.stack);
  const auto& known = spec.role == "server" ? stack.server_options : stack.client_options;
  std::istringstream options(variant.substr(colon + 1));
  for (std::string option; std::getline(options, option, ',');) {
    const auto equals = option.find('=');
    const auto key = option.substr(0, equals);
    if (equals == std::string::npos || !Has(known, key))
      throw Refusal("variant " + variant + ": the C++ peer's " + spec.role + " does not have " + option +
                    (known.empty() ? "; it has no options" : "; its options are " + Joined(known)));
    spec.options[key] = option.substr(equals + 1);
  }
}

void ParseWorkload(const JsonObject& workload, Spec& spec) {
  spec.workload = workload.Text("name");
  const auto& known = Stacks().at(spec.stack).workloads;
  if (!Has(known, spec.workload))
    throw Refusal("workload " + Quoted(spec.workload) + ": over " + spec.stack + " this peer has " + Joined(known) +
                  ", without options");
  const auto request = workload.Number("request_bytes"), response = workload.Number("response_bytes");
  if (request != response)
    throw Refusal("sizes: answers of " + std::to_string(response) + " bytes to requests of " + std::to_string(request) +
                  ": this peer answers with as many bytes as came");
  if (request < 0 || request > kMaxBytes)
    throw Refusal("request_bytes " + std::to_string(request) + ": want 0 to " + std::to_string(kMaxBytes));
  spec.data_bytes = static_cast<size_t>(request);
}

// How many connections a mode has.
int Connections(const std::string& mode, int clients) {
  if (mode == "shared") return 1;
  if (mode == "per-worker" || mode == "pool") return clients;
  if (mode.rfind("pool:", 0) == 0)
    if (const int size = ParseNumber(mode.substr(5), kMaxClients)) return std::min(size, clients);
  throw Refusal("connection " + Quoted(mode) + ": this peer has shared, per-worker, pool and pool:N");
}

ClientSpec ParseClient(const JsonObject& from) {
  const auto load = from.Object("load");
  if (const auto& model = load.Text("model"); model != "closed")
    throw Refusal("load model " + Quoted(model) + ": this peer's client has the closed loop only");
  if (const auto limit = load.Number("in_flight_limit"); limit > 0)
    throw Refusal("in_flight_limit " + std::to_string(limit) + ": this peer's client has no limit of requests in flight");
  const auto clients = from.Number("clients");
  if (clients < 1 || clients > kMaxClients)
    throw Refusal("clients " + std::to_string(clients) + ": want 1 to " + std::to_string(kMaxClients));
  ClientSpec to;
  to.clients = static_cast<int>(clients);
  to.connection = from.Text("connection");
  to.connections = Connections(to.connection, to.clients);
  to.seed = static_cast<uint64_t>(from.Number("seed"));
  to.calls_file = from.Text("calls_file");
  if (to.calls_file.empty())
    throw Refusal("client.calls_file is empty: this peer's client writes its calls to a file, and works nothing out");
  to.requests = load.Number("requests_per_client");
  to.extra_requests = load.Number("extra_requests");
  to.duration_ns = load.Number("duration_ns");
  if (to.requests <= 0 && to.duration_ns <= 0)
    throw Refusal("load: neither duration_ns nor requests_per_client says how long to measure");
  const auto at_least = load.Number("warm_up_at_least_ns"), at_most = load.Number("warm_up_at_most_ns");
  to.warm_up_ns = at_most <= 0 ? 0 : std::min(std::max(kSecond, at_least), at_most);
  to.drain_ns = load.Number("drain_ns");
  to.block = from.Flag("block");
  if (to.block && (to.requests > 0 || to.warm_up_ns <= 0))
    throw Refusal("a client of a block: want duration_ns and a warm-up");
  return to;
}

}  // namespace

const std::map<std::string, Stack>& Stacks() {
  static const std::map<std::string, Stack> all = {
      {"grpc", {{"echo", "ping", "chat"}, {"queues", "threads", "calls"}, {"api", "channels"}}},
      {"tcp", {{"echo"}, {}, {}}},
  };
  return all;
}

bool Has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int Spec::Number(const std::string& key, int fallback, int most) const {
  const auto found = options.find(key);
  if (found == options.end()) return fallback;
  const int number = ParseNumber(found->second, most);
  if (number == 0) throw Refusal("option " + key + "=" + found->second + ": want 1 to " + std::to_string(most));
  return number;
}

std::string Spec::Text(const std::string& key, const std::string& fallback) const {
  const auto found = options.find(key);
  return found == options.end() ? fallback : found->second;
}

Spec ParseSpec(const std::string& line) {
  const JsonObject from(line);
  if (const auto contract = from.Number("contract"); contract != kContract)
    throw Refusal("worker spec: contract version " + std::to_string(contract) + ": this worker implements version " +
                  std::to_string(kContract));
  Spec spec;
  spec.role = from.Text("role");
  if (spec.role == "capabilities") return spec;
  if (spec.role != "server" && spec.role != "client")
    throw Refusal("worker spec: role " + Quoted(spec.role) + ": this peer has server, client and capabilities");
  ParseStack(from.Text("stack"), spec);
  ParseWorkload(from.Object("workload"), spec);
  ParseOptions(from.Text("stack"), spec);
  spec.address = from.Text("address");
  if (spec.role == "client") spec.client = ParseClient(from.Object("client"));
  return spec;
}

std::optional<Turns> ParseTurns(const std::string& line) {
  try {
    const JsonObject from(line);
    if (from.Text("control") != "slices") return std::nullopt;
    Turns turns{{}, from.Number("at_ns")};
    for (const auto& slice : from.Objects("slices"))
      turns.slices.push_back({slice.Number("send_ns"), slice.Number("from_ns"), slice.Number("to_ns")});
    return turns;
  } catch (const Refusal&) {
    return std::nullopt;
  }
}
