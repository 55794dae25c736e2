// The client with gRPC's synchronous API: a thread a caller, which waits in its call.
#include <optional>
#include <thread>

#include "grpc_caller.h"
#include "grpc_methods.h"

namespace {

// Begins the caller's next call, after its rest. A no means that it makes none.
template <typename Method>
bool Begins(GrpcCaller<Method>& caller) {
  Turn turn;
  while ((turn = caller.Begin()) == Turn::kRest) caller.course().AwaitTurn();
  return turn == Turn::kCall;
}

template <typename Method>
struct UnaryCaller : GrpcCaller<Method> {
  using GrpcCaller<Method>::GrpcCaller;

  void Run() {
    while (Begins(*this)) {
      grpc::ClientContext context;
      if (!this->cancellable.Begin(&context)) {
        this->End(grpc::Status::CANCELLED);
        continue;
      }
      const auto status = Method::Call(this->stub(), &context, this->messages);
      this->End(status);
      this->cancellable.End();
    }
  }
};

struct ChatCaller : GrpcCaller<methods::Chat> {
  using Message = methods::Chat::Message;
  using GrpcCaller::GrpcCaller;

  void Run() {
    while (Begins(*this)) {
      if (!stream_ && !Open()) {
        End(grpc::Status::CANCELLED);
      } else if (stream_->Write(messages.request) && stream_->Read(&messages.answer)) {
        End(grpc::Status::OK);
      } else {
        End(OrEnded(stream_->Finish()));
        Close();
      }
    }
    if (!stream_) return;
    context_->TryCancel();
    stream_->Finish();
    Close();
  }

 private:
  bool Open() {
    context_.emplace();
    if (!cancellable.Begin(&*context_)) return false;
    stream_ = stub().Chat(&*context_);
    return true;
  }

  void Close() {
    cancellable.End();
    stream_.reset();
  }

  std::optional<grpc::ClientContext> context_;  // outlives the stream
  std::unique_ptr<grpc::ClientReaderWriter<Message, Message>> stream_;
};

template <typename SyncCaller>
class SyncClient : public GrpcClient<SyncCaller> {
 public:
  using GrpcClient<SyncCaller>::GrpcClient;
  ~SyncClient() override {
    for (auto& thread : threads_) thread.join();
  }

  void Start() override {
    for (const auto& caller : this->callers_) threads_.emplace_back([&caller] { caller->Run(); });
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Client> MakeSyncClient(const Spec& spec, Course& course) {
  if (spec.workload == "ping") return std::make_unique<SyncClient<UnaryCaller<methods::Ping>>>(spec, course);
  if (spec.workload == "chat") return std::make_unique<SyncClient<ChatCaller>>(spec, course);
  return std::make_unique<SyncClient<UnaryCaller<methods::Echo>>>(spec, course);
}
