// Plays bytes to a connection of the stack tcp's server, whole and one by one, and holds what
// comes back against docs/wire-tcp.md.
#include "tcp_connection.h"

#include <sys/socket.h>

#include <cstdio>
#include <string>

#include "echo.pb.h"
#include "status.pb.h"
#include "tcp_wire.h"

namespace {

using namespace std::string_literals;

std::string Number(uint32_t number) {
  Buffer bytes;
  bytes.AppendNumber(number);
  return {bytes.data(), bytes.size()};
}

std::string Sized(const std::string& bytes) { return Number(static_cast<uint32_t>(bytes.size())) + bytes; }
std::string Frame(char kind, const std::string& body) { return kind + Sized(body); }
std::string Head(const std::string& operation) { return Frame('H', "\0\0\0\0\0\0\0\0"s + Sized(operation)); }

const std::string kHi = "\x08\x01\x12\x02hi";
const std::string kEcho = Head("/wirelab.echo.v1.EchoService/Echo");
const std::string kCall = "WLB1" + kEcho + Frame('M', kHi) + Frame('E', "");

std::string Code(const std::string& status) {
  wirelab::peer::Status read;
  return read.ParseFromString(status) ? std::to_string(read.code()) : "?";
}

std::string Data(const std::string& message) {
  wirelab::echo::v1::Payload read;
  return read.ParseFromString(message) && read.timestamp() > 0 ? read.data() : "?";
}

// What a server said, in words: `hi` is a plain answer with that data, `!8` a plain failure with
// its code, `M hi` a frame with a message, `E 0` one that ends a call with its code.
std::string InWords(const std::string& said) {
  std::string words;
  for (size_t at = 0; at < said.size();) {
    const bool plain = said[at] != 'M' && said[at] != 'E';
    const size_t body = at + (plain ? 4 : 5);
    const uint32_t length = BigEndian(&said[body - 4]);
    const auto bytes = said.substr(body, length & ~kFailed);
    if (plain)
      words += (length & kFailed) != 0 ? "!" + Code(bytes) : Data(bytes);
    else
      words += said[at] == 'M' ? "M " + Data(bytes) : "E " + Code(bytes.substr(4, BigEndian(bytes.data())));
    words += "; ";
    at = body + bytes.size();
  }
  return words;
}

// Sends a number of bytes at a time. Returns the answer, and whether the server then closed.
std::string Play(const std::string& bytes, size_t at_once) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return "no sockets";
  const Descriptor client(ends[0]);
  TcpConnection server{Descriptor(ends[1])};
  Buffer said;
  bool ended = false;
  for (size_t at = 0; at < bytes.size(); at += at_once) {
    const auto part = bytes.substr(at, at_once);
    if (send(client.fd(), part.data(), part.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(part.size())) return "not sent";
    if (!server.GoOn(true)) return "broken";
    for (Flow flow = Flow::kDone; flow == Flow::kDone;) {
      flow = ReadSome(client.fd(), said, kReadAtOnce);
      ended = ended || flow == Flow::kEnded;
    }
  }
  return InWords({said.data(), said.size()}) + (ended ? "closed" : "open");
}

struct Case {
  const char* name;
  std::string bytes, want;
};

const Case kCases[] = {
    {"plain", Sized(kHi) + Sized(kHi), "hi; hi; open"},
    {"an empty message", Sized(""), "; open"},
    {"a call, and then plain", kCall + Sized(kHi), "M hi; E 0; hi; open"},
    {"calls at once", kCall + kCall, "M hi; E 0; M hi; E 0; open"},
    {"an unknown operation", "WLB1" + Head("/a/BC") + Frame('M', "") + Frame('E', "") + Sized(kHi), "E 12; hi; open"},
    {"another size", Sized(kHi + "\x20\x05") + Sized(kHi), "!12; hi; open"},
    {"no protobuf", Sized("\xff") + Sized(kHi), "!13; hi; open"},
    {"a length over the limit", Number((16 << 20) + 1) + "more", "!8; closed"},
    {"a long head", "WLB1H" + Number((1 << 20) + 1), "E 8; closed"},
    {"a head that is cut short", "WLB1" + Frame('H', "short"), "E 13; closed"},
    {"an operation that is longer than its head", "WLB1" + Frame('H', "\0\0\0\0\0\0\0\0\xff\xff\xff\xff"s), "E 13; closed"},
    {"a message before its head", "WLB1" + Frame('M', kHi), "E 13; closed"},
    {"two messages", "WLB1" + kEcho + Frame('M', kHi) + Frame('M', kHi), "E 13; closed"},
    {"no message", "WLB1" + kEcho + Frame('E', "") + Sized(kHi), "E 13; hi; open"},
    {"an end with a body", "WLB1" + kEcho + Frame('M', kHi) + Frame('E', "x"), "E 13; closed"},
    {"half a message", Number(100) + "half", "open"},
};

}  // namespace

int main() {
  int failed = 0;
  for (const auto& [name, bytes, want] : kCases)
    for (const size_t at_once : {bytes.size(), size_t{1}})
      if (const auto got = Play(bytes, at_once); got != want) {
        std::printf("%s, %zu bytes at once: got \"%s\", want \"%s\"\n", name, at_once, got.c_str(), want.c_str());
        failed++;
      }
  return failed;
}
