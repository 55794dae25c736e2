#include "grpc_channels.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "connections.h"
#include "socket.h"

namespace {

constexpr int kMaxMessage = 16 << 20;
constexpr std::chrono::seconds kConnecting{10};

// How the option and the mode of connection go together. Throws where they contradict.
std::string HowOf(const Spec& spec) {
  const auto& mode = spec.client.connection;
  const bool shared = mode == "shared";
  const auto how = spec.Text("channels", shared ? "one" : "local");
  const bool joined = how == "one" || how == "same";
  if (!joined && how != "distinct" && how != "local")
    throw Refusal("option channels=" + how + ": want one, same, distinct or local");
  if (joined != shared)
    throw Refusal("option channels=" + how + " with connection " + mode + ": " +
                  (shared ? "a connection for each channel is not shared; want one or same"
                          : "all callers would share one connection; want distinct or local"));
  return how;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& how, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (how == "local") arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (how == "distinct") arguments.SetInt("wirelab.channel", number);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// C-core does not say why it cannot connect, and goes on trying: whether anybody listens at all
// is asked of the kernel.
void WaitConnected(grpc::Channel& channel, const std::string& address) {
  const auto until = std::chrono::system_clock::now() + kConnecting;
  for (;;) {
    const auto state = channel.GetState(true);
    if (state == GRPC_CHANNEL_READY) return;
    if (Descriptor tried; state == GRPC_CHANNEL_TRANSIENT_FAILURE)
      if (const int error = Connect(address, tried); error != 0)
        throw Refusal("connect to " + address + ": " + std::strerror(error));
    if (!channel.WaitForStateChange(state, until))
      throw Refusal("connect to " + address + ": somebody listens, but no HTTP/2 connection was made within 10 s");
  }
}

int PortOf(const std::string& address) {
  const auto digits = address.substr(address.rfind(':') + 1);
  if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos)
    throw Refusal("address \"" + address + "\": want HOST:PORT");
  return std::stoi(digits);
}

}  // namespace

Channels::Channels(const Spec& spec) : how_(HowOf(spec)), port_(PortOf(spec.address)) {
  const int channels = how_ == "same" ? spec.client.clients : spec.client.connections;
  for (int i = 0; i < channels; i++) {
    channels_.push_back(MakeChannel(spec.address, how_, i));
    channels_.back()->GetState(true);  // begins to connect
  }
  for (const auto& channel : channels_) WaitConnected(*channel, spec.address);
}

ConnectionCounts Channels::Count() {
  const auto open = ConnectionsTo(port_);
  for (const auto inode : open)
    if (std::find(seen_.begin(), seen_.end(), inode) == seen_.end()) seen_.push_back(inode);
  return {static_cast<int64_t>(seen_.size()), 0, static_cast<int64_t>(open.size())};
}

std::vector<Setting> Channels::settings() const {
  std::vector<Setting> all = {
      {"max_receive_message_length", "16MiB", "4MiB", "the limit of all wires"},
      {"enable_http_proxy", "off", "on", "what is measured must not depend on the environment"},
  };
  if (how_ == "local") all.push_back({"use_local_subchannel_pool", "on", "off", "else channels share a connection"});
  if (how_ == "distinct") all.push_back({"wirelab.channel", "its number", "none", "else channels share a connection"});
  return all;
}
