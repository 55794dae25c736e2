// The client with gRPC's callback API: the library's own threads call back.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "grpc_caller.h"
#include "grpc_methods.h"

namespace {

// Counts callers until the last has ended, and nothing calls back any more. Meanwhile it lets those
// that rest go on when a slice begins.
class Ends {
 public:
  explicit Ends(Course& course) : course_(course), left_(course.callers()) {}

  // What rests goes on by this function, on another thread.
  void Rest(std::function<void()> go_on) {
    const std::lock_guard lock(guard_);
    resting_.push_back(std::move(go_on));
    changed_.notify_all();
  }

  void Ended() {
    const std::lock_guard lock(guard_);
    if (--left_ == 0) changed_.notify_all();
  }
  // Returns when all have ended.
  void Run() {
    std::unique_lock lock(guard_);
    while (true) {
      changed_.wait(lock, [this] { return left_ == 0 || !resting_.empty(); });
      if (resting_.empty()) return;
      lock.unlock();
      course_.AwaitTurn();
      lock.lock();
      const auto resting = std::exchange(resting_, {});
      lock.unlock();
      for (const auto& go_on : resting) go_on();
      lock.lock();
    }
  }

 private:
  Course& course_;
  std::mutex guard_;
  std::condition_variable changed_;
  int left_;
  std::vector<std::function<void()>> resting_;
};

template <typename Method>
class UnaryCaller : public GrpcCaller<Method> {
 public:
  using GrpcCaller<Method>::GrpcCaller;

  void Start(Ends& ends) {
    Turn turn;
    while ((turn = this->Begin()) == Turn::kCall) {
      context_.emplace();
      if (this->cancellable.Begin(&*context_)) {
        Method::CallBack(this->stub(), &*context_, this->messages, [this, &ends](const grpc::Status& status) {
          this->End(status);
          this->cancellable.End();
          Start(ends);
        });
        return;
      }
      this->End(grpc::Status::CANCELLED);
    }
    if (turn == Turn::kRest) return ends.Rest([this, &ends] { Start(ends); });
    ends.Ended();
  }

 private:
  std::optional<grpc::ClientContext> context_;
};

// A caller of a stream: sends a message and reads its answer at the same time.
class ChatCaller : public GrpcCaller<methods::Chat> {
 public:
  using GrpcCaller::GrpcCaller;

  // Opens a stream for its next call. A caller that makes none has ended.
  void Start(Ends& ends) {
    ends_ = &ends;
    Turn turn;
    while ((turn = Begin()) == Turn::kCall) {
      stream_ = std::make_unique<Stream>(*this);
      if (stream_->Open()) return;
      End(grpc::Status::CANCELLED);
    }
    stream_.reset();
    if (turn == Turn::kRest) return ends.Rest([this] { Start(*ends_); });
    ends.Ended();
  }

 private:
  using Message = methods::Chat::Message;

  class Stream : public grpc::ClientBidiReactor<Message, Message> {
   public:
    explicit Stream(ChatCaller& caller) : caller_(caller) {}

    bool Open() {
      if (!caller_.cancellable.Begin(&context_)) return false;
      caller_.stub().async()->Chat(&context_, this);
      AddHold();  // until its caller leaves it, since it goes on from another thread after a rest
      Talk();
      StartCall();
      return true;
    }

    void OnWriteDone(bool ok) override { OneDone(ok); }
    void OnReadDone(bool ok) override { OneDone(ok); }

    void OnDone(const grpc::Status& status) override {
      ChatCaller& caller = caller_;
      if (!leaving_) caller.End(OrEnded(status));
      caller.cancellable.End();
      if (leaving_)
        caller.ends_->Ended();
      else
        caller.Start(*caller.ends_);  // on another stream: this one is no more
    }

   private:
    void Talk() {
      under_way_ = 2;
      StartWrite(&caller_.messages.request);
      StartRead(&caller_.messages.answer);
    }

    // Both ends may come at the same time. The later goes on.
    void OneDone(bool ok) {
      if (!ok) failed_ = true;
      if (under_way_.fetch_sub(1) > 1) return;
      if (failed_) return RemoveHold();  // OnDone comes
      caller_.End(grpc::Status::OK);
      GoOn();
    }

    void GoOn() {
      switch (caller_.Begin()) {
        case Turn::kCall:
          return Talk();
        case Turn::kRest:
          return caller_.ends_->Rest([this] { GoOn(); });
        case Turn::kEnd:
          leaving_ = true;
          context_.TryCancel();
          RemoveHold();  // OnDone comes
      }
    }

    ChatCaller& caller_;
    grpc::ClientContext context_;
    std::atomic<int> under_way_ = 0;
    std::atomic<bool> failed_ = false;
    bool leaving_ = false;
  };

  Ends* ends_ = nullptr;
  std::unique_ptr<Stream> stream_;
};

template <typename CallbackCaller>
class CallbackClient : public GrpcClient<CallbackCaller> {
 public:
  CallbackClient(const Spec& spec, Course& course) : GrpcClient<CallbackCaller>(spec, course), ends_(course) {}
  ~CallbackClient() override {
    if (thread_.joinable()) thread_.join();
  }

  void Start() override {
    thread_ = std::thread([this] { ends_.Run(); });
    for (const auto& caller : this->callers_) caller->Start(ends_);
  }

 private:
  Ends ends_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Client> MakeCallbackClient(const Spec& spec, Course& course) {
  if (spec.workload == "ping") return std::make_unique<CallbackClient<UnaryCaller<methods::Ping>>>(spec, course);
  if (spec.workload == "chat") return std::make_unique<CallbackClient<ChatCaller>>(spec, course);
  return std::make_unique<CallbackClient<UnaryCaller<methods::Echo>>>(spec, course);
}
