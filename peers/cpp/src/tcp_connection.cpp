#include "tcp_connection.h"

#include <sys/socket.h>

#include "clock.h"
#include "status.pb.h"
#include "tcp_wire.h"

namespace {

constexpr std::string_view kPreamble = "WLB1";
constexpr std::string_view kOperation = "/wirelab.echo.v1.EchoService/Echo";
constexpr char kHead = 'H', kMessage = 'M', kEnd = 'E';
constexpr size_t kFrameHead = 5;
constexpr size_t kMaxHead = 1 << 20;  // a body of a head or an end
// With so much to be sent, nothing more is answered.
constexpr size_t kEnough = 1 << 20;
// How long a peer may stop in a body, or stop reading its answer; in seconds.
constexpr int kPatience = 20;
// So much memory stays with a buffer of a connection that is silent.
constexpr size_t kKept = 64 << 10;

enum Code { kOk = 0, kResourceExhausted = 8, kUnimplemented = 12, kInternal = 13 };

std::string Status(int code, const std::string& message) {
  if (code == kOk) return {};
  wirelab::peer::Status status;
  status.set_code(code);
  status.set_message(message);
  return status.SerializeAsString();
}

std::string TooLong(size_t length, size_t most) {
  return "a frame of " + std::to_string(length) + " bytes is announced, " + std::to_string(most) + " are allowed";
}

// Reads a request and makes it its answer. What is wrong, or kOk.
Code Echo(std::string_view body, wirelab::echo::v1::Payload& payload, std::string& wrong) {
  if (!payload.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    wrong = "the message cannot be decoded";
    return kInternal;
  }
  if (payload.has_answer_bytes()) {
    wrong = "this server answers with what came, not with another size";
    return kUnimplemented;
  }
  payload.set_timestamp(Now());
  return kOk;
}

}  // namespace

bool TcpConnection::GoOn(bool readable) {
  idle_ = 0;
  bool ended = readable && !Read();
  for (;;) {
    while (!closing_ && output_.size() < kEnough && TakeFrame()) {
    }
    const bool more = output_.size() >= kEnough;
    const Flow flow = WriteAll(socket_.fd(), output_);
    if (flow == Flow::kBroken || (ended && flow == Flow::kDone && !more)) return false;
    if (flow == Flow::kBlocked) return true;
    if (closing_ && !shut_) shut_ = shutdown(socket_.fd(), SHUT_WR) == 0;
    if (!more || closing_) return true;
  }
}

bool TcpConnection::Sweep() {
  idle_++;
  if (closing_ && output_.empty()) return false;
  if (idle_ > 1) {
    input_.Trim(kKept);
    output_.Trim(kKept);
  }
  const bool in_the_middle = !input_.empty() || !output_.empty();
  return !in_the_middle || idle_ <= kPatience;
}

// Whether the peer may say more. Memory follows what came, never what was announced.
bool TcpConnection::Read() {
  const Flow flow = ReadSome(socket_.fd(), input_, kReadAtOnce);
  if (closing_) input_.Clear();  // so that the answer is not lost with what was not read
  return flow == Flow::kDone || flow == Flow::kBlocked;
}

// Takes what comes next, if it is there as a whole.
bool TcpConnection::TakeFrame() { return call_ ? TakeFrameOfCall() : TakePlain(); }

bool TcpConnection::TakePlain() {
  if (input_.size() < kLengthBytes) return false;
  if (std::string_view(input_.data(), kLengthBytes) == kPreamble) {
    input_.Take(kLengthBytes);
    call_.emplace();
    return true;
  }
  const size_t length = BigEndian(input_.data());
  if (length > kMaxMessage) {
    FailPlain(kResourceExhausted, TooLong(length, kMaxMessage));
    closing_ = true;
    return true;
  }
  if (input_.size() < kLengthBytes + length) return false;
  AnswerPlain({input_.data() + kLengthBytes, length});
  input_.Take(kLengthBytes + length);
  return true;
}

bool TcpConnection::TakeFrameOfCall() {
  if (input_.size() < kFrameHead) return false;
  const char kind = input_.data()[0];
  const size_t length = BigEndian(input_.data() + 1);
  const size_t most = kind == kMessage ? kMaxMessage : kMaxHead;
  if (length > most) {
    EndCall(kResourceExhausted, TooLong(length, most));
    closing_ = true;
    return true;
  }
  if (input_.size() < kFrameHead + length) return false;
  const std::string_view body(input_.data() + kFrameHead, length);
  if (kind == kHead && !call_->began) {
    Head(body);
  } else if (kind == kMessage && call_->began) {
    if (call_->message) Breach("a second message of a unary call");
    if (!call_->answered) call_->message = body;
  } else if (kind == kEnd && call_->began) {
    End(body);
  } else {
    Breach("a frame that does not come here");
  }
  input_.Take(kFrameHead + length);
  return true;
}

void TcpConnection::Head(std::string_view body) {
  constexpr size_t kTimeout = 8, kFixed = kTimeout + 4;
  call_->began = true;
  if (body.size() < kFixed) return Breach("a head that is cut short");
  if (static_cast<unsigned char>(body[0]) >= 0x80) return Breach("a timeout with its top bit");
  const size_t length = BigEndian(body.data() + kTimeout);
  if (body.size() - kFixed < length) return Breach("a head that is cut short");
  const auto operation = body.substr(kFixed, length);
  if (operation != kOperation) EndCall(kUnimplemented, "this server has no operation " + std::string(operation));
}

void TcpConnection::End(std::string_view body) {
  if (!body.empty()) return Breach("an end with a body");
  if (!call_->answered && !call_->message) EndCall(kInternal, "a unary call without a message");
  if (!call_->answered) AnswerCall(*call_->message);
  call_.reset();
}

void TcpConnection::AnswerPlain(std::string_view body) {
  std::string wrong;
  if (const Code code = Echo(body, payload_, wrong); code != kOk) return FailPlain(code, wrong);
  AppendMessage(output_, payload_);
}

void TcpConnection::AnswerCall(std::string_view body) {
  std::string wrong;
  if (const Code code = Echo(body, payload_, wrong); code != kOk) return EndCall(code, wrong);
  output_.Append(&kMessage, 1);
  AppendMessage(output_, payload_);
  EndCall(kOk, "");
}

void TcpConnection::FailPlain(int code, const std::string& message) {
  const auto status = Status(code, message);
  output_.AppendNumber(kFailed | static_cast<uint32_t>(status.size()));
  output_.Append(status.data(), status.size());
}

// Ends a call in the framing of calls, unless it has been ended.
void TcpConnection::EndCall(int code, const std::string& message) {
  if (call_->answered) return;
  call_->answered = true;
  const auto status = Status(code, message);
  output_.Append(&kEnd, 1);
  output_.AppendNumber(static_cast<uint32_t>(kLengthBytes + status.size()));
  output_.AppendNumber(static_cast<uint32_t>(status.size()));
  output_.Append(status.data(), status.size());
}

// Says that the peer does not keep to the page, and closes.
void TcpConnection::Breach(const std::string& what) {
  EndCall(kInternal, what);
  closing_ = true;
}
