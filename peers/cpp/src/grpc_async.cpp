// The client with gRPC's asynchronous API: completion queues, each with a thread, one a CPU;
// callers belong to them in turn.
#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "clock.h"
#include "grpc_caller.h"
#include "grpc_methods.h"
#include "socket.h"

namespace {

using Queue = grpc::CompletionQueue;

// What waits on a queue. Start begins its next call; Next is called with what came of it. Both say
// whether anything more will come, or it rests.
struct Waiter {
  virtual ~Waiter() = default;
  virtual Turn Start(Queue& queue) = 0;
  virtual Turn Next(bool ok) = 0;
};

template <typename Method>
class UnaryCaller : public GrpcCaller<Method>, public Waiter {
 public:
  using GrpcCaller<Method>::GrpcCaller;

  Turn Start(Queue& queue) override {
    queue_ = &queue;
    Turn turn;
    while ((turn = this->Begin()) == Turn::kCall) {
      reader_.reset();  // it lies in the memory of the call that its context holds
      context_.emplace();
      if (this->cancellable.Begin(&*context_)) {
        reader_ = Method::Prepare(this->stub(), &*context_, this->messages, queue_);
        reader_->StartCall();
        reader_->Finish(&this->messages.answer, &status_, static_cast<Waiter*>(this));
        return turn;
      }
      this->End(grpc::Status::CANCELLED);
    }
    return turn;
  }

  Turn Next(bool) override {
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

  Turn Start(Queue& queue) override {
    queue_ = &queue;
    Turn turn;
    while ((turn = Begin()) == Turn::kCall) {
      if (stream_) return Talk();
      context_.emplace();
      if (cancellable.Begin(&*context_)) {
        stream_ = stub().PrepareAsyncChat(&*context_, queue_);
        step_ = Step::kOpen;
        stream_->StartCall(Tag());
        return turn;
      }
      End(grpc::Status::CANCELLED);
    }
    if (!stream_ || turn == Turn::kRest) return turn;
    context_->TryCancel();
    return Finish(Step::kLeave);
  }

  Turn Next(bool ok) override {
    switch (step_) {
      case Step::kOpen:
        return ok ? Talk() : Finish(Step::kFail);
      case Step::kTalk:
        failed_ = failed_ || !ok;
        if (--under_way_ > 0) return Turn::kCall;
        if (failed_) return Finish(Step::kFail);
        End(grpc::Status::OK);
        return Start(*queue_);
      case Step::kFail:
        End(OrEnded(status_));
        Close();
        return Start(*queue_);
      case Step::kLeave:
        Close();
        return Turn::kEnd;
    }
    return Turn::kEnd;
  }

 private:
  enum class Step { kOpen, kTalk, kFail, kLeave };

  void* Tag() { return static_cast<Waiter*>(this); }

  Turn Talk() {
    step_ = Step::kTalk;
    under_way_ = 2;
    failed_ = false;
    stream_->Write(messages.request, Tag());
    stream_->Read(&messages.answer, Tag());
    return Turn::kCall;
  }

  Turn Finish(Step step) {
    step_ = step;
    stream_->Finish(&status_, Tag());
    return Turn::kCall;
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
    std::vector<Waiter*> resting;
    for (size_t i = number; i < this->callers_.size(); i += queues_.size()) resting.push_back(this->callers_[i].get());
    Course& course = this->callers_[number]->course();
    size_t busy = 0;
    int64_t until = 0;  // when those that rest ask again
    const auto note = [&](Waiter* waiter, Turn turn) {
      if (turn == Turn::kCall) busy++;
      if (turn == Turn::kRest) resting.push_back(waiter);
    };
    void* tag;
    bool ok;
    while (busy > 0 || !resting.empty()) {
      if (!resting.empty() && (Now() >= until || course.stopped())) {
        for (Waiter* waiter : std::exchange(resting, {})) note(waiter, waiter->Start(queue));
        until = course.NextTurn(Now());
      }
      if (busy == 0) {
        if (!resting.empty()) course.AwaitTurn();
        continue;
      }
      const auto forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);
      const auto patience = gpr_time_from_millis(MillisecondsTo(until), GPR_TIMESPAN);
      const auto deadline = resting.empty() ? forever : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), patience);
      if (queue.AsyncNext(&tag, &ok, deadline) != Queue::GOT_EVENT) continue;
      busy--;
      note(static_cast<Waiter*>(tag), static_cast<Waiter*>(tag)->Next(ok));
    }
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
