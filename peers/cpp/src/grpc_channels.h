// The channels of a gRPC client, and how they become connections.
//
// C-core joins channels whose arguments are equal into one connection, unless each has a pool of
// subchannels of its own, or an argument that tells it apart.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "events.h"
#include "spec.h"

class Channels {
 public:
  // All are connected when it is made.
  explicit Channels(const Spec& spec);

  // Callers share the channels in turn.
  const std::shared_ptr<grpc::Channel>& of(int caller) const {
    return channels_[static_cast<size_t>(caller) % channels_.size()];
  }

  // The connections until now, as the kernel has them.
  ConnectionCounts Count();

  std::vector<Setting> settings() const;

 private:
  std::string how_;  // the option `channels`
  int port_;         // the server's
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<uint64_t> seen_;  // inodes of the connections that were seen
};
