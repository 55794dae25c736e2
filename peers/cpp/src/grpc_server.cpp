#include "grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <sched.h>

#include <chrono>
#include <thread>
#include <vector>

#include "contract.h"
#include "echo.grpc.pb.h"

namespace {

using wirelab::echo::v1::EchoService;
using wirelab::echo::v1::Payload;

constexpr int kMaxMessage = 16 << 20;
// How many calls wait for requests on each queue.
constexpr int kWaiting = 100;

int Threads() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

// A call, from waiting for its request to having sent its answer. It owns itself.
class Call {
 public:
  Call(EchoService::AsyncService* service, grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue), answer_(&context_) {
    service_->RequestEcho(&context_, &request_, &answer_, queue_, queue_, this);
  }

  void GoOn(bool ok) {
    if (!ok || answered_) {
      delete this;
      return;
    }
    answered_ = true;
    new Call(service_, queue_);  // takes this one's place
    if (request_.has_answer_bytes()) {
      answer_.FinishWithError(
          {grpc::StatusCode::UNIMPLEMENTED, "this server answers with what came, not with another size"}, this);
      return;
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    request_.set_timestamp(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    answer_.Finish(request_, grpc::Status::OK, this);
  }

 private:
  EchoService::AsyncService* service_;
  grpc::ServerCompletionQueue* queue_;
  grpc::ServerContext context_;
  Payload request_;
  grpc::ServerAsyncResponseWriter<Payload> answer_;
  bool answered_ = false;
};

void Serve(grpc::ServerCompletionQueue* queue) {
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) static_cast<Call*>(tag)->GoOn(ok);
}

}  // namespace

struct GrpcServer::State {
  EchoService::AsyncService service;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  std::unique_ptr<grpc::Server> server;
  std::vector<std::thread> threads;
  std::string address;
};

GrpcServer::GrpcServer(const std::string& address) : state_(std::make_unique<State>()) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port that is taken is a failure
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.SetMaxSendMessageSize(kMaxMessage);
  builder.RegisterService(&state_->service);
  for (int i = 0; i < Threads(); i++) state_->queues.push_back(builder.AddCompletionQueue());
  state_->server = builder.BuildAndStart();
  if (!state_->server) throw Failure("listen on " + address + ": it is taken, or not this machine's");
  state_->address = address.substr(0, address.rfind(':') + 1) + std::to_string(port);
  for (const auto& queue : state_->queues) {
    for (int i = 0; i < kWaiting; i++) new Call(&state_->service, queue.get());
    state_->threads.emplace_back(Serve, queue.get());
  }
}

GrpcServer::~GrpcServer() {
  state_->server->Shutdown(std::chrono::system_clock::now());
  for (const auto& queue : state_->queues) queue->Shutdown();
  for (auto& thread : state_->threads) thread.join();
}

const std::string& GrpcServer::address() const { return state_->address; }
