// The services as callers have them: their messages, and how each API makes a call.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "chat.grpc.pb.h"
#include "echo.grpc.pb.h"
#include "messages.h"
#include "ping.grpc.pb.h"

namespace methods {

struct Echo {
  using Service = wirelab::echo::v1::EchoService;
  using Messages = EchoMessages;
  using Answer = wirelab::echo::v1::Payload;

  static grpc::Status Call(Service::Stub& stub, grpc::ClientContext* context, Messages& m) {
    return stub.Echo(context, m.request, &m.answer);
  }
  static auto Prepare(Service::Stub& stub, grpc::ClientContext* context, Messages& m, grpc::CompletionQueue* queue) {
    return stub.PrepareAsyncEcho(context, m.request, queue);
  }
  static void CallBack(Service::Stub& stub, grpc::ClientContext* context, Messages& m,
                       std::function<void(grpc::Status)> then) {
    stub.async()->Echo(context, &m.request, &m.answer, std::move(then));
  }
};

struct Ping {
  using Service = wirelab::ping::v1::PingService;
  using Messages = PingMessages;
  using Answer = wirelab::ping::v1::PingResponse;

  static grpc::Status Call(Service::Stub& stub, grpc::ClientContext* context, Messages& m) {
    return stub.Ping(context, m.request, &m.answer);
  }
  static auto Prepare(Service::Stub& stub, grpc::ClientContext* context, Messages& m, grpc::CompletionQueue* queue) {
    return stub.PrepareAsyncPing(context, m.request, queue);
  }
  static void CallBack(Service::Stub& stub, grpc::ClientContext* context, Messages& m,
                       std::function<void(grpc::Status)> then) {
    stub.async()->Ping(context, &m.request, &m.answer, std::move(then));
  }
};

// A call of it is a message on a stream that stays open.
struct Chat {
  using Service = wirelab::chat::v1::ChatService;
  using Messages = ChatMessages;
  using Message = Messages::Message;
};

}  // namespace methods
