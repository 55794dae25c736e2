// What callers send, and what a right answer is (docs/worker-contract.md).
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "chat.pb.h"
#include "clock.h"
#include "echo.pb.h"
#include "ping.pb.h"

// Data of a caller's messages: random, with an end that is new in each.
class Filling {
 public:
  Filling(uint64_t seed, uint32_t caller) : random_(seed * 1'000'003 + caller) {}

  std::string Data(size_t bytes) {
    std::string data(bytes, '\0');
    for (auto& byte : data) byte = static_cast<char>(random_());
    return data;
  }

  void Freshen(std::string& data) {
    const uint64_t fresh = random_();
    const size_t bytes = std::min(data.size(), sizeof fresh);
    std::memcpy(data.data() + data.size() - bytes, &fresh, bytes);
  }

 private:
  std::mt19937_64 random_;
};

// Who makes messages: one caller.
struct Sender {
  uint64_t seed;
  uint32_t caller;
  size_t data_bytes;
};

// A caller's request and its answer, used again in each call. Next makes the next request,
// and Wrong says what is wrong with the answer; empty: nothing.
class EchoMessages {
 public:
  using Message = wirelab::echo::v1::Payload;

  explicit EchoMessages(const Sender& sender) : filling_(sender.seed, sender.caller) {
    request.set_data(filling_.Data(sender.data_bytes));
  }

  void Next(int64_t now) {
    request.set_id(request.id() + 1);
    request.set_timestamp(now);
    filling_.Freshen(*request.mutable_data());
  }

  std::string Wrong() const {
    if (answer.id() != request.id())
      return "echo: sent id " + std::to_string(request.id()) + ", got id " + std::to_string(answer.id());
    if (answer.data() != request.data())
      return "echo: id " + std::to_string(request.id()) + " was answered with " + std::to_string(answer.data().size()) +
             " bytes that differ from the " + std::to_string(request.data().size()) + " sent";
    return {};
  }

  Message request, answer;

 private:
  Filling filling_;
};

class PingMessages {
 public:
  explicit PingMessages(const Sender&) {}

  void Next(int64_t) {}
  std::string Wrong() const { return answer.ByteSizeLong() == 0 ? "" : "ping: the answer is not empty"; }

  wirelab::ping::v1::PingRequest request;
  wirelab::ping::v1::PingResponse answer;
};

class ChatMessages {
 public:
  using Message = wirelab::chat::v1::Message;

  explicit ChatMessages(const Sender& sender) : filling_(sender.seed, sender.caller) {
    request.set_data(filling_.Data(sender.data_bytes));
  }

  void Next(int64_t) {
    request.set_number(request.number() + 1);
    filling_.Freshen(*request.mutable_data());
  }

  std::string Wrong() const {
    if (answer.number() != request.number())
      return "chat: sent message " + std::to_string(request.number()) + ", got the answer to message " +
             std::to_string(answer.number());
    if (answer.data() != request.data())
      return "chat: message " + std::to_string(request.number()) + " was answered with " +
             std::to_string(answer.data().size()) + " bytes that differ from the " +
             std::to_string(request.data().size()) + " sent";
    return {};
  }

  Message request, answer;

 private:
  Filling filling_;
};

// The failure of a wrong answer, as the contract names it.
inline constexpr const char* kWrongKind = "wrong-answer";
inline constexpr const char* kWrongCode = "WrongAnswer";
