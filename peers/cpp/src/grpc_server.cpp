#include "grpc_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "grpc_handlers.h"
#include "socket.h"

namespace {

constexpr int kMaxMessage = 16 << 20;
constexpr int kMaxStreams = 10'000;
// A message is held against its limit when it has come whole, so this bounds what one can be.
constexpr size_t kMaxMemory = 512 << 20;
constexpr int kPatienceMs = 10'000;

// A completion queue. Whoever starts something on it holds `guard` shared, since nothing may be
// started on a queue that was shut down.
struct Queue {
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::shared_mutex guard;
  bool closed = false;

  void Close() {
    {
      const std::lock_guard lock(guard);
      closed = true;
    }
    queue->Shutdown();
  }
};

// A call, from waiting for its request to having ended. It has one thing under way on its queue
// at a time, and owns itself.
class Call {
 public:
  virtual ~Call() = default;
  // What was under way has come to its end.
  virtual void GoOn(bool ok) = 0;
};

template <typename Handler>
class UnaryCall : public Call {
 public:
  UnaryCall(typename Handler::Service& service, Queue& queue) : service_(service), queue_(queue), answer_(&context_) {
    Handler::Await(service_, &context_, &request_, &answer_, queue_.queue.get(), this);
  }

  void GoOn(bool ok) override {
    if (!ok || answered_) {
      delete this;
      return;
    }
    answered_ = true;
    new UnaryCall(service_, queue_);  // takes this one's place
    const auto status = Handler::Handle(request_);
    if (status.ok())
      answer_.Finish(Handler::AnswerOf(request_), status, this);
    else
      answer_.FinishWithError(status, this);
  }

 private:
  typename Handler::Service& service_;
  Queue& queue_;
  grpc::ServerContext context_;
  typename Handler::Request request_;
  grpc::ServerAsyncResponseWriter<typename Handler::Answer> answer_;
  bool answered_ = false;
};

class ChatCall : public Call {
 public:
  using Handler = handlers::Chat;

  ChatCall(Handler::Service& service, Queue& queue) : service_(service), queue_(queue), stream_(&context_) {
    Handler::Await(service_, &context_, &stream_, queue_.queue.get(), this);
  }

  void GoOn(bool ok) override {
    switch (step_) {
      case Step::kAwait:
        if (!ok) break;
        new ChatCall(service_, queue_);  // takes this one's place
        return Read();
      case Step::kRead:
        return ok ? Answer() : Finish(grpc::Status::OK);  // the client has said everything
      case Step::kWrite:
        return ok ? Read() : Finish(grpc::Status::CANCELLED);  // it has gone
      case Step::kFinish:
        break;
    }
    delete this;
  }

 private:
  enum class Step { kAwait, kRead, kWrite, kFinish };

  void Read() {
    step_ = Step::kRead;
    stream_.Read(&message_, this);
  }

  void Answer() {
    const auto status = Handler::Handle(message_);
    if (!status.ok()) return Finish(status);
    step_ = Step::kWrite;
    stream_.Write(message_, this);
  }

  void Finish(const grpc::Status& status) {
    step_ = Step::kFinish;
    stream_.Finish(status, this);
  }

  Handler::Service& service_;
  Queue& queue_;
  grpc::ServerContext context_;
  Handler::Stream stream_;
  Handler::Message message_;
  Step step_ = Step::kAwait;
};

void Serve(Queue& queue) {
  void* tag;
  bool ok;
  while (queue.queue->Next(&tag, &ok)) {
    auto* const call = static_cast<Call*>(tag);
    const std::shared_lock lock(queue.guard);
    if (queue.closed)
      delete call;
    else
      call->GoOn(ok);
  }
}

// A service, and what makes a call of it that waits on a queue.
struct Served {
  std::unique_ptr<grpc::Service> service;
  std::function<void(Queue&)> await;
};

template <typename ServiceCall, typename Service>
Served ServedBy() {
  auto service = std::make_unique<Service>();
  auto& made = *service;
  return {std::move(service), [&made](Queue& queue) { new ServiceCall(made, queue); }};
}

Served ServiceOf(const std::string& workload) {
  using namespace handlers;
  if (workload == "ping") return ServedBy<UnaryCall<Ping>, Ping::Service>();
  if (workload == "chat") return ServedBy<ChatCall, Chat::Service>();
  return ServedBy<UnaryCall<Echo>, Echo::Service>();
}

}  // namespace

struct GrpcServer::State {
  Served served;
  std::vector<std::unique_ptr<Queue>> queues;
  std::unique_ptr<grpc::Server> server;
  std::vector<std::thread> threads;
  std::string address;
  int threads_a_queue, calls;
};

GrpcServer::GrpcServer(const Spec& spec) : state_(std::make_unique<State>()) {
  const int queues = spec.Number("queues", Cpus(), 1024);
  state_->threads_a_queue = spec.Number("threads", 1, 1024);
  state_->calls = spec.Number("calls", 100, 10'000);
  state_->served = ServiceOf(spec.workload);
  const auto& address = spec.address;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 2 * kPatienceMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPatienceMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPatienceMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.SetResourceQuota(grpc::ResourceQuota("server").Resize(kMaxMemory));
  builder.RegisterService(state_->served.service.get());
  for (int i = 0; i < queues; i++) {
    state_->queues.push_back(std::make_unique<Queue>());
    state_->queues.back()->queue = builder.AddCompletionQueue();
  }
  state_->server = builder.BuildAndStart();
  if (!state_->server) {
    for (const auto& queue : state_->queues) {
      queue->Close();
      Serve(*queue);  // until it is empty
    }
    throw Refusal("listen on " + address + ": it is taken, or not this machine's");
  }
  state_->address = address.substr(0, address.rfind(':') + 1) + std::to_string(port);
  for (const auto& queue : state_->queues) {
    for (int i = 0; i < state_->calls; i++) state_->served.await(*queue);
    for (int i = 0; i < state_->threads_a_queue; i++) state_->threads.emplace_back(Serve, std::ref(*queue));
  }
}

GrpcServer::~GrpcServer() {
  state_->server->Shutdown(std::chrono::system_clock::now());  // cancels what is in flight
  for (const auto& queue : state_->queues) queue->Close();
  for (auto& thread : state_->threads) thread.join();
}

const std::string& GrpcServer::address() const { return state_->address; }

std::vector<Setting> GrpcServer::settings() const {
  const auto seconds = std::to_string(kPatienceMs / 1000) + "s";
  return {
      {"completion queues", std::to_string(state_->queues.size()), "none", "the option queues, or one a CPU"},
      {"threads a queue", std::to_string(state_->threads_a_queue), "none", "the option threads"},
      {"calls waiting on a queue", std::to_string(state_->calls), "none", "the option calls"},
      {"max_receive_message_length", "16MiB", "4MiB", "the limit of all wires"},
      {"max_concurrent_streams", std::to_string(kMaxStreams), "none", "what a client can make a server keep is bounded"},
      {"resource_quota", "512MiB", "none", "the same, of the messages of all clients"},
      {"server_handshake_timeout", "20s", "120s", "a peer that says nothing is left"},
      {"keepalive_time", seconds, "2h", "a peer that stops in the middle, or reads nothing, is left"},
      {"keepalive_timeout", seconds, "20s", "the same"},
      {"so_reuseport", "off", "on", "a port that is taken must be a failure"},
  };
}
