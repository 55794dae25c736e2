// What both ends of the stack tcp know of its wire (docs/wire-tcp.md).
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>

#include "events.h"
#include "socket.h"

constexpr size_t kMaxMessage = 16 << 20;
constexpr size_t kLengthBytes = 4;
constexpr uint32_t kFailed = 1u << 31;  // in the length of a plain answer

// Room to read into, at least.
constexpr size_t kReadAtOnce = 16 << 10;

inline const Setting kNoDelay = {"TCP_NODELAY", "on", "off", "a small message must not wait for an acknowledgement"};

// Appends a message behind its length.
inline void AppendMessage(Buffer& to, const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  to.AppendNumber(static_cast<uint32_t>(size));
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(to.Room(size)));
  to.Added(size);
}
