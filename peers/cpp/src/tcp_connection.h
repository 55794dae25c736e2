// One connection of the stack tcp's server: what has come, what is to go, and the call between.
// It knows both framings of docs/wire-tcp.md, and the service echo.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "echo.pb.h"
#include "socket.h"

class TcpConnection {
 public:
  explicit TcpConnection(Descriptor socket) : socket_(std::move(socket)) {}

  // Does what can be done at an event. Whether the connection goes on.
  bool GoOn(bool readable);

  // Looks once a second. Whether the connection goes on: its peer has not stopped in the middle.
  bool Sweep();

  int fd() const { return socket_.fd(); }
  // What it waits for: room to write, or input.
  Interest interest() const { return output_.empty() ? Interest::kInput : Interest::kRoom; }
  Interest watched = Interest::kInput;

 private:
  // A call in the framing of calls.
  struct Call {
    bool began = false;  // its head has come
    std::optional<std::string> message;
    bool answered = false;  // what still comes is dropped
  };

  bool Read();
  bool TakeFrame();
  bool TakePlain();
  bool TakeFrameOfCall();
  void Head(std::string_view body);
  void End(std::string_view body);
  void AnswerPlain(std::string_view body);
  void AnswerCall(std::string_view body);
  void FailPlain(int code, const std::string& message);
  void EndCall(int code, const std::string& message);
  void Breach(const std::string& what);

  Descriptor socket_;
  Buffer input_, output_;
  std::optional<Call> call_;
  wirelab::echo::v1::Payload payload_;
  bool closing_ = false;  // nothing that comes is answered any more
  bool shut_ = false;     // and the peer was told so
  int idle_ = 0;          // seconds without an event
};
