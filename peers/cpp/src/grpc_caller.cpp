#include "grpc_caller.h"

#include "codes.h"

bool Cancellable::Begin(grpc::ClientContext* context) {
  const std::lock_guard lock(guard_);
  if (cancelled_) return false;
  context_ = context;
  return true;
}

void Cancellable::End() {
  const std::lock_guard lock(guard_);
  context_ = nullptr;
}

void Cancellable::Cancel() {
  const std::lock_guard lock(guard_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

FailureKind FailureOf(const grpc::Status& status) {
  const auto& text = status.error_message();
  const auto code = CodeName(status.error_code());
  const auto says = [&](const char* phrase) { return text.find(phrase) != std::string::npos; };
  switch (status.error_code()) {
    case grpc::StatusCode::CANCELLED: return {"cancelled", code, text};
    case grpc::StatusCode::DEADLINE_EXCEEDED: return {"deadline", code, text};
    case grpc::StatusCode::UNAVAILABLE: break;
    default: return {says("RST_STREAM") ? "stream-reset" : "application", code, text};
  }
  // C-core tells what a connection met by its text alone.
  if (says("Connection refused")) return {"refused", code, text};
  if (says("Connection reset") || says("Broken pipe")) return {"reset", code, text};
  if (says("GOAWAY")) return {"goaway", code, text};
  if (says("keepalive")) return {"silent", code, text};
  if (says("Too many open files")) return {"descriptor-limit", code, text};
  if (says("Cannot assign requested address")) return {"port-exhaustion", code, text};
  if (says("Socket closed") || says("ended the stream")) return {"closed", code, text};
  return {"other", code, text};
}

std::unique_ptr<Client> MakeGrpcClient(const Spec& spec, Course& course) {
  const auto api = spec.Text("api", "sync");
  if (api == "sync") return MakeSyncClient(spec, course);
  if (api == "async") return MakeAsyncClient(spec, course);
  if (api == "callback") return MakeCallbackClient(spec, course);
  throw Refusal("option api=" + api + ": want sync, async or callback");
}
