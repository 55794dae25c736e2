// The client of the stack tcp: the plain framing, on epoll loops, one a CPU. Callers that share
// a connection have their requests on it at the same time, and are answered in their order.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "client.h"
#include "clock.h"
#include "codes.h"
#include "messages.h"
#include "socket.h"
#include "status.pb.h"
#include "tcp_wire.h"

namespace {

struct Connection;

// A caller with its messages.
struct Seat {
  Caller& caller;
  EchoMessages messages;
  Connection& connection;
  int64_t sent = 0;
};

struct Connection {
  Descriptor socket;
  Buffer in, out;
  std::deque<Seat*> waiting;  // for their answers
  bool blocked = false;       // no room to write
};

// How the connections of a loop did.
struct Counts {
  std::atomic<int64_t> opened = 0, failed = 0, open = 0;
};

// What a broken connection says of its calls.
FailureKind OfConnection(int error) {
  const std::string text = error == 0 ? "the server closed the connection" : std::strerror(error);
  switch (error) {
    case 0: return {"closed", "Unavailable", text};
    case ECONNREFUSED: return {"refused", "Unavailable", text};
    case ECONNRESET: case EPIPE: case ECONNABORTED: return {"reset", "Unavailable", text};
    case EADDRNOTAVAIL: case EADDRINUSE: return {"port-exhaustion", "Unavailable", text};
    case EMFILE: case ENFILE: return {"descriptor-limit", "Unavailable", text};
    case ETIMEDOUT: return {"connect-timeout", "Unavailable", text};
    default: return {"other", "Unavailable", text};
  }
}

// A thread with its connections and their callers.
class Loop {
 public:
  explicit Loop(const std::string& address) : address_(address), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_.open()) throw Refusal(std::string("epoll: ") + std::strerror(errno));
    Watch(epoll_.fd(), cancel_.fd(), Interest::kInput, nullptr);
  }
  ~Loop() {
    cancel_.Set();
    if (thread_.joinable()) thread_.join();
  }

  Connection& AddConnection() {
    connections_.push_back(std::make_unique<Connection>());
    if (const int error = Open(*connections_.back()); error != 0)
      throw Refusal("connect to " + address_ + ": " + std::strerror(error));
    return *connections_.back();
  }

  void AddCaller(Caller& caller, const Sender& sender, Connection& connection) {
    seats_.push_back(std::make_unique<Seat>(Seat{caller, EchoMessages(sender), connection}));
  }

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Cancel() { cancel_.Set(); }
  const Counts& counts() const { return counts_; }

 private:
  void Run();
  void Handle(Connection& connection, uint32_t events);
  int Open(Connection& connection);
  void Begin(Seat& seat);
  bool TakeAnswer(Connection& connection);
  void Judge(Seat& seat, const char* body, size_t size, bool failed);
  void End(Seat& seat, const FailureKind& failure);
  void Flush(Connection& connection);
  void Break(Connection& connection, const FailureKind& failure);

  const std::string& address_;
  Descriptor epoll_;
  Wake cancel_;
  Counts counts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Seat>> seats_;
  size_t active_ = 0;           // callers that go on
  std::vector<Seat*> due_;      // those that have nothing in flight
  std::vector<Seat*> resting_;  // those that wait for a slice
  int64_t until_ns_ = 0;        // when they ask again
  std::thread thread_;
};

void Loop::Run() {
  active_ = seats_.size();
  for (const auto& seat : seats_) due_.push_back(seat.get());
  std::array<epoll_event, 256> events;
  while (active_ > 0) {
    Course& course = seats_.front()->caller.course();
    if (resting_.size() == active_) course.AwaitTurn();
    if (!resting_.empty() && (Now() >= until_ns_ || course.stopped()))
      for (Seat* seat : std::exchange(resting_, {})) due_.push_back(seat);
    for (Seat* seat : std::exchange(due_, {})) {
      Begin(*seat);
      Flush(seat->connection);
    }
    if (active_ == 0) return;
    if (resting_.size() == active_) continue;
    const int patience = !due_.empty() ? 0 : resting_.empty() ? -1 : MillisecondsTo(until_ns_);
    const int count = epoll_wait(epoll_.fd(), events.data(), events.size(), patience);
    for (int i = 0; i < count; i++) {
      if (auto* const connection = static_cast<Connection*>(events[i].data.ptr)) {
        Handle(*connection, events[i].events);
        continue;
      }
      for (const auto& each : connections_) Break(*each, {"cancelled", "Canceled", "cancelled when the drain was over"});
    }
  }
}

void Loop::Handle(Connection& connection, uint32_t events) {
  if (!connection.socket.open()) return;  // it broke a moment ago
  if ((events & ~EPOLLOUT) != 0) {
    const Flow flow = ReadSome(connection.socket.fd(), connection.in, kReadAtOnce);
    if (flow == Flow::kEnded || flow == Flow::kBroken)
      return Break(connection, OfConnection(flow == Flow::kEnded ? 0 : errno));
    while (connection.socket.open() && TakeAnswer(connection)) {
    }
  }
  Flush(connection);
}

// Returns the errno of the failure, or 0.
int Loop::Open(Connection& connection) {
  const int error = Connect(address_, connection.socket);
  if (error != 0) {
    counts_.failed++;
    return error;
  }
  counts_.opened++;
  counts_.open++;
  connection.blocked = false;
  Watch(epoll_.fd(), connection.socket.fd(), Interest::kInput, &connection);
  return 0;
}

// Puts the caller's next request onto its connection, if it makes one. It leaves with the next
// Flush.
void Loop::Begin(Seat& seat) {
  seat.sent = Now();
  switch (seat.caller.Ask(seat.sent)) {
    case Turn::kCall:
      break;
    case Turn::kRest:
      until_ns_ = seat.caller.course().NextTurn(seat.sent);
      return resting_.push_back(&seat);
    case Turn::kEnd:
      active_--;
      return;
  }
  Connection& connection = seat.connection;
  if (!connection.socket.open())
    if (const int error = Open(connection); error != 0) return End(seat, OfConnection(error));
  seat.messages.Next(seat.sent);
  AppendMessage(connection.out, seat.messages.request);
  connection.waiting.push_back(&seat);
}

// Takes an answer, if it is there as a whole, and begins the caller's next call.
bool Loop::TakeAnswer(Connection& connection) {
  Buffer& in = connection.in;
  if (in.size() < kLengthBytes) return false;
  const uint32_t announced = BigEndian(in.data());
  const size_t size = announced & ~kFailed;
  if (size > kMaxMessage || connection.waiting.empty()) {
    Break(connection, {"other", "Internal", "the server sent what is no answer"});
    return false;
  }
  if (in.size() < kLengthBytes + size) return false;
  Seat& seat = *connection.waiting.front();
  connection.waiting.pop_front();
  Judge(seat, in.data() + kLengthBytes, size, (announced & kFailed) != 0);
  in.Take(kLengthBytes + size);
  Begin(seat);
  return true;
}

// Judges an answer, after its time was taken.
void Loop::Judge(Seat& seat, const char* body, size_t size, bool failed) {
  EchoMessages& messages = seat.messages;
  const bool decoded = !failed && messages.answer.ParseFromArray(body, static_cast<int>(size));
  const int64_t ended = Now();
  FailureKind failure;
  if (failed) {
    wirelab::peer::Status status;
    status.ParseFromArray(body, static_cast<int>(size));
    failure = {"application", CodeName(status.code()), status.message()};
  } else if (!decoded) {
    failure = {kWrongKind, kWrongCode, "echo: the answer cannot be decoded"};
  } else {
    failure = {kWrongKind, kWrongCode, messages.Wrong()};
  }
  const bool right = !failed && failure.example.empty();
  seat.caller.Ended(seat.sent, ended, right ? 0 : seat.caller.course().failures().Number(failure));
}

// Ends a call that has no answer. The caller's next one waits for the others'.
void Loop::End(Seat& seat, const FailureKind& failure) {
  seat.caller.Ended(seat.sent, Now(), seat.caller.course().failures().Number(failure));
  due_.push_back(&seat);
}

void Loop::Flush(Connection& connection) {
  if (!connection.socket.open()) return;
  const Flow flow = WriteAll(connection.socket.fd(), connection.out);
  if (flow == Flow::kBroken) return Break(connection, OfConnection(errno));
  if (const bool blocked = flow == Flow::kBlocked; blocked != connection.blocked) {
    connection.blocked = blocked;
    Rewatch(epoll_.fd(), connection.socket.fd(), blocked ? Interest::kBoth : Interest::kInput, &connection);
  }
}

// Closes the connection; the calls on it fail.
void Loop::Break(Connection& connection, const FailureKind& failure) {
  if (!connection.socket.open()) return;
  connection.socket.Close();
  counts_.open--;
  connection.in.Clear();
  connection.out.Clear();
  for (Seat* seat : std::exchange(connection.waiting, {})) End(*seat, failure);
}

class TcpClient : public Client {
 public:
  TcpClient(const Spec& spec, Course& course) {
    const auto& client = spec.client;
    for (int i = 0; i < std::min(Cpus(), client.connections); i++) loops_.push_back(std::make_unique<Loop>(spec.address));
    std::vector<Connection*> connections;
    for (int i = 0; i < client.connections; i++) connections.push_back(&LoopOf(i).AddConnection());
    for (int i = 0; i < client.clients; i++) {
      const int connection = i % client.connections;
      const Sender sender{client.seed, static_cast<uint32_t>(i), spec.data_bytes};
      LoopOf(connection).AddCaller(course.caller(i), sender, *connections[static_cast<size_t>(connection)]);
    }
  }

  void Start() override {
    for (const auto& loop : loops_) loop->Start();
  }

  void Cancel() override {
    for (const auto& loop : loops_) loop->Cancel();
  }

  ConnectionCounts Count() override {
    ConnectionCounts sum;
    for (const auto& loop : loops_) {
      sum.opened += loop->counts().opened;
      sum.failed += loop->counts().failed;
      sum.open += loop->counts().open;
    }
    return sum;
  }

  std::vector<Setting> settings() const override { return {kNoDelay}; }

 private:
  Loop& LoopOf(int connection) { return *loops_[static_cast<size_t>(connection) % loops_.size()]; }

  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace

std::unique_ptr<Client> MakeTcpClient(const Spec& spec, Course& course) {
  return std::make_unique<TcpClient>(spec, course);
}
