// What the callers of all of gRPC's APIs have in common.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <mutex>
#include <optional>

#include "client.h"
#include "course.h"
#include "grpc_channels.h"
#include "messages.h"

// A call in flight that another thread can cancel.
class Cancellable {
 public:
  // Begins a call with the context. A no means that all are cancelled and none is to begin.
  bool Begin(grpc::ClientContext* context);
  void End();
  void Cancel();

 private:
  std::mutex guard_;
  grpc::ClientContext* context_ = nullptr;
  bool cancelled_ = false;
};

// The failure of a call, as the contract names it.
FailureKind FailureOf(const grpc::Status& status);

// A caller with its messages, and its stub. Every call of it goes Begin, End, whatever the API;
// a call of a stream is a message and its answer.
template <typename Method>
class GrpcCaller {
 public:
  GrpcCaller(const Spec& spec, Caller& caller, const std::shared_ptr<grpc::Channel>& channel)
      : caller_(caller),
        stub_(Method::Service::NewStub(channel)),
        messages({spec.client.seed, caller.number(), spec.data_bytes}) {}

  // Begins a call, if it is the caller's turn, and makes its request.
  Turn Begin() {
    sent_ = Now();
    const Turn turn = caller_.Ask(sent_);
    if (turn == Turn::kCall) messages.Next(sent_);
    return turn;
  }

  // Ends it. Its time is taken first, then the answer is judged.
  void End(const grpc::Status& status) {
    const int64_t ended = Now();
    if (status.ok()) {
      const auto wrong = messages.Wrong();
      Write(ended, wrong.empty() ? std::nullopt : std::optional(FailureKind{kWrongKind, kWrongCode, wrong}));
    } else {
      Write(ended, FailureOf(status));
    }
  }

  void Cancel() { cancellable.Cancel(); }
  Course& course() { return caller_.course(); }
  typename Method::Service::Stub& stub() { return *stub_; }

 private:
  void Write(int64_t ended, const std::optional<FailureKind>& failure) {
    caller_.Ended(sent_, ended, failure ? caller_.course().failures().Number(*failure) : 0);
  }

  Caller& caller_;
  std::unique_ptr<typename Method::Service::Stub> stub_;
  int64_t sent_ = 0;

 public:
  typename Method::Messages messages;
  Cancellable cancellable;
};

// What a stream says that the server ended without an error.
inline grpc::Status EndedByServer() { return {grpc::StatusCode::UNAVAILABLE, "the server ended the stream"}; }
inline grpc::Status OrEnded(const grpc::Status& status) { return status.ok() ? EndedByServer() : status; }

// The part of every client that does not depend on its API.
template <typename ApiCaller>
class GrpcClient : public Client {
 public:
  GrpcClient(const Spec& spec, Course& course) : channels_(spec) {
    for (int i = 0; i < course.callers(); i++)
      callers_.push_back(std::make_unique<ApiCaller>(spec, course.caller(i), channels_.of(i)));
  }

  void Cancel() override {
    for (const auto& caller : callers_) caller->Cancel();
  }
  ConnectionCounts Count() override { return channels_.Count(); }
  std::vector<Setting> settings() const override { return channels_.settings(); }

 protected:
  Channels channels_;
  std::vector<std::unique_ptr<ApiCaller>> callers_;
};

// The three APIs.
std::unique_ptr<Client> MakeSyncClient(const Spec& spec, Course& course);
std::unique_ptr<Client> MakeAsyncClient(const Spec& spec, Course& course);
std::unique_ptr<Client> MakeCallbackClient(const Spec& spec, Course& course);
