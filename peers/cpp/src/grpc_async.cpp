// The client with gRPC's asynchronous API: completion queues, each with a thread, one a CPU;
// callers belong to them in turn.
#include <algorithm>
#include <optional>
#include <thread>

#include "grpc_caller.h"
#include "grpc_methods.h"
#include "socket.h"

namespace {

using Queue = grpc::CompletionQueue;

// What waits on a queue. Next is called with what came of it, and says whether anything more
// will come.
struct Waiter {
  virtual ~Waiter() = default;
  virtual bool Next(bool ok) = 0;
};

template <typename Method>
class UnaryCaller : public GrpcCaller<Method>, public Waiter {
 public:
  using GrpcCaller<Method>::GrpcCaller;

  // Begins its next call. A no means that it makes none.
  bool Start(Queue& queue) {
    queue_ = &queue;
    while (this->Begin()) {
      reader_.reset();  // it lies in the memory of the call that its context holds
      context_.emplace();
      if (this->cancellable.Begin(&*context_)) {
        reader_ = Method::Prepare(this->stub(), &*context_, this->messages, queue_);
        reader_->StartCall();
        reader_->Finish(&this->messages.answer, &status_, static_cast<Waiter*>(this));
        return true;
      }
      this->End(grpc::Status::CANCELLED);
    }
    return false;
  }

  bool Next(bool) override {
    this->End(status_);
    this->cancellable.End();
    return Start(*queue_);
  }

 private:
  Queue* queue_ = nullptr;
  std::optional<grpc::ClientContext> context_;  // outlives the reader
  std::unique_ptr<grpc::ClientAsyncResponseReader<typename Method::Answer>> reader_;
  grpc::Status status_;
};

// A caller of a stream: sends a message and reads its answer at the same time.
class ChatCaller : public GrpcCaller<methods::Chat>, public Waiter {
 public:
  using Message = methods::Chat::Message;
  using GrpcCaller::GrpcCaller;

  bool Start(Queue& queue) {
    queue_ = &queue;
    while (Begin()) {
      if (stream_) return Talk();
      context_.emplace();
      if (cancellable.Begin(&*context_)) {
        stream_ = stub().PrepareAsyncChat(&*context_, queue_);
        step_ = Step::kOpen;
        stream_->StartCall(Tag());
        return true;
      }
      End(grpc::Status::CANCELLED);
    }
    if (!stream_) return false;
    context_->TryCancel();
    return Finish(Step::kLeave);
  }

  bool Next(bool ok) override {
    switch (step_) {
      case Step::kOpen:
        return ok ? Talk() : Finish(Step::kFail);
      case Step::kTalk:
        failed_ = failed_ || !ok;
        if (--under_way_ > 0) return true;
        if (failed_) return Finish(Step::kFail);
        End(grpc::Status::OK);
        return Start(*queue_);
      case Step::kFail:
        End(OrEnded(status_));
        Close();
        return Start(*queue_);
      case Step::kLeave:
        Close();
        return false;
    }
    return false;
  }

 private:
  enum class Step { kOpen, kTalk, kFail, kLeave };

  void* Tag() { return static_cast<Waiter*>(this); }

  bool Talk() {
    step_ = Step::kTalk;
    under_way_ = 2;
    failed_ = false;
    stream_->Write(messages.request, Tag());
    stream_->Read(&messages.answer, Tag());
    return true;
  }

  bool Finish(Step step) {
    step_ = step;
    stream_->Finish(&status_, Tag());
    return true;
  }

  void Close() {
    cancellable.End();
    stream_.reset();
  }

  Queue* queue_ = nullptr;
  std::optional<grpc::ClientContext> context_;  // outlives the stream
  std::unique_ptr<grpc::ClientAsyncReaderWriter<Message, Message>> stream_;
  grpc::Status status_;
  Step step_ = Step::kOpen;
  int under_way_ = 0;
  bool failed_ = false;
};

template <typename AsyncCaller>
class AsyncClient : public GrpcClient<AsyncCaller> {
 public:
  AsyncClient(const Spec& spec, Course& course)
      : GrpcClient<AsyncCaller>(spec, course), queues_(static_cast<size_t>(std::min(Cpus(), course.callers()))) {}
  ~AsyncClient() override {
    for (auto& thread : threads_) thread.join();
  }

  void Start() override {
    for (size_t i = 0; i < queues_.size(); i++) threads_.emplace_back([this, i] { Run(i); });
  }

 private:
  // Serves a queue until its callers have finished.
  void Run(size_t number) {
    Queue& queue = queues_[number];
    size_t active = 0;
    for (size_t i = number; i < this->callers_.size(); i += queues_.size()) active += this->callers_[i]->Start(queue);
    void* tag;
    bool ok;
    while (active > 0 && queue.Next(&tag, &ok))
      if (!static_cast<Waiter*>(tag)->Next(ok)) active--;
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }

  std::vector<Queue> queues_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Client> MakeAsyncClient(const Spec& spec, Course& course) {
  if (spec.workload == "ping") return std::make_unique<AsyncClient<UnaryCaller<methods::Ping>>>(spec, course);
  if (spec.workload == "chat") return std::make_unique<AsyncClient<ChatCaller>>(spec, course);
  return std::make_unique<AsyncClient<UnaryCaller<methods::Echo>>>(spec, course);
}
