// The services as the asynchronous server has them: how a call is waited for, and its answer.
#pragma once

#include <grpcpp/grpcpp.h>

#include "chat.grpc.pb.h"
#include "clock.h"
#include "echo.grpc.pb.h"
#include "ping.grpc.pb.h"

namespace handlers {

using Queue = grpc::ServerCompletionQueue;

inline grpc::Status OtherSize() {
  return {grpc::StatusCode::UNIMPLEMENTED, "this server answers with what came, not with another size"};
}

// Each makes the answer in place of the request, or beside it.
struct Echo {
  using Service = wirelab::echo::v1::EchoService::AsyncService;
  using Request = wirelab::echo::v1::Payload;
  using Answer = Request;

  static void Await(Service& service, grpc::ServerContext* context, Request* request,
                    grpc::ServerAsyncResponseWriter<Answer>* answer, Queue* queue, void* tag) {
    service.RequestEcho(context, request, answer, queue, queue, tag);
  }
  static grpc::Status Handle(Request& request) {
    request.set_timestamp(Now());
    return request.has_answer_bytes() ? OtherSize() : grpc::Status::OK;
  }
  static const Answer& AnswerOf(const Request& request) { return request; }
};

struct Ping {
  using Service = wirelab::ping::v1::PingService::AsyncService;
  using Request = wirelab::ping::v1::PingRequest;
  using Answer = wirelab::ping::v1::PingResponse;

  static void Await(Service& service, grpc::ServerContext* context, Request* request,
                    grpc::ServerAsyncResponseWriter<Answer>* answer, Queue* queue, void* tag) {
    service.RequestPing(context, request, answer, queue, queue, tag);
  }
  static grpc::Status Handle(Request&) { return grpc::Status::OK; }
  static const Answer& AnswerOf(const Request&) { return Answer::default_instance(); }
};

struct Chat {
  using Service = wirelab::chat::v1::ChatService::AsyncService;
  using Message = wirelab::chat::v1::Message;
  using Stream = grpc::ServerAsyncReaderWriter<Message, Message>;

  static void Await(Service& service, grpc::ServerContext* context, Stream* stream, Queue* queue, void* tag) {
    service.RequestChat(context, stream, queue, queue, tag);
  }
  static grpc::Status Handle(const Message& message) {
    return message.has_answer_bytes() ? OtherSize() : grpc::Status::OK;
  }
};

}  // namespace handlers
