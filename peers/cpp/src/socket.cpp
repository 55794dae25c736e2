#include "socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "spec.h"

namespace {

constexpr int kBacklog = 4096;
constexpr int kConnectMs = 10'000;

using AddressInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Throws where the address cannot be understood.
AddressInfo Resolve(const std::string& address, int flags) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) throw Refusal("address \"" + address + "\": want HOST:PORT");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) throw Refusal("address " + address + ": " + gai_strerror(error));
  return {found, freeaddrinfo};
}

Descriptor NewSocket(const addrinfo& of, int flags) {
  return Descriptor(socket(of.ai_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

void Control(int epoll, int operation, int fd, Interest interest, void* with) {
  epoll_event event{};
  event.events = (interest != Interest::kRoom ? EPOLLIN : 0u) | (interest != Interest::kInput ? EPOLLOUT : 0u);
  event.data.ptr = with;
  if (epoll_ctl(epoll, operation, fd, &event) != 0) throw Refusal(std::string("epoll: ") + std::strerror(errno));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  other.Close();
  return *this;
}

void Descriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Wake::Wake() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_.open()) throw Refusal(std::string("make an event: ") + std::strerror(errno));
}

void Wake::Set() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event_.fd(), &one, sizeof one);  // full, it is set
}

Descriptor Listen(std::string& address) {
  const auto info = Resolve(address, AI_PASSIVE);
  auto listener = NewSocket(*info, SOCK_NONBLOCK);
  const int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // else TIME_WAIT keeps the port
  sockaddr_storage real;
  socklen_t length = sizeof real;
  if (!listener.open() || bind(listener.fd(), info->ai_addr, info->ai_addrlen) != 0 ||
      listen(listener.fd(), kBacklog) != 0 ||
      getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&real), &length) != 0)
    throw Refusal("listen on " + address + ": " + std::strerror(errno));
  char port[NI_MAXSERV];
  getnameinfo(reinterpret_cast<sockaddr*>(&real), length, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  address = address.substr(0, address.rfind(':') + 1) + port;
  return listener;
}

int Connect(const std::string& address, Descriptor& connected) {
  const auto info = Resolve(address, 0);
  auto made = NewSocket(*info, SOCK_NONBLOCK);
  if (!made.open()) return errno;
  const int on = 1;
  setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // without it calls are only slower
  if (connect(made.fd(), info->ai_addr, info->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd wait{made.fd(), POLLOUT, 0};
    if (poll(&wait, 1, kConnectMs) == 0) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return error;
  }
  connected = std::move(made);
  return 0;
}

void Watch(int epoll, int fd, Interest interest, void* with) { Control(epoll, EPOLL_CTL_ADD, fd, interest, with); }
void Rewatch(int epoll, int fd, Interest interest, void* with) { Control(epoll, EPOLL_CTL_MOD, fd, interest, with); }

int Cpus() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

char* Buffer::Room(size_t at_least) {
  if (capacity_ - end_ < at_least) {
    if (capacity_ - size() >= at_least) {
      std::memmove(bytes_.get(), data(), size());
    } else {
      const size_t larger = std::max(2 * capacity_, size() + at_least);
      auto moved = std::make_unique_for_overwrite<char[]>(larger);
      if (!empty()) std::memcpy(moved.get(), data(), size());
      bytes_ = std::move(moved);
      capacity_ = larger;
    }
    end_ -= begin_;
    begin_ = 0;
  }
  return bytes_.get() + end_;
}

void Buffer::Append(const void* bytes, size_t size) {
  std::memcpy(Room(size), bytes, size);
  Added(size);
}

void Buffer::AppendNumber(uint32_t number) {
  const uint32_t ordered = htonl(number);
  Append(&ordered, sizeof ordered);
}

void Buffer::Take(size_t bytes) {
  begin_ += bytes;
  if (empty()) Clear();
}

void Buffer::Trim(size_t size) {
  if (!empty() || capacity_ <= size) return;
  bytes_.reset();
  capacity_ = begin_ = end_ = 0;
}

Flow ReadSome(int fd, Buffer& into, size_t room) {
  char* const place = into.Room(room);
  const ssize_t n = recv(fd, place, into.room(), 0);
  if (n == 0) return Flow::kEnded;
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Flow::kBlocked : Flow::kBroken;
  into.Added(static_cast<size_t>(n));
  return Flow::kDone;
}

Flow WriteAll(int fd, Buffer& from) {
  while (!from.empty()) {
    const ssize_t n = send(fd, from.data(), from.size(), MSG_NOSIGNAL);
    if (n >= 0)
      from.Take(static_cast<size_t>(n));
    else if (errno == EAGAIN)
      return Flow::kBlocked;
    else if (errno != EINTR)
      return Flow::kBroken;
  }
  return Flow::kDone;
}

uint32_t BigEndian(const char* at) {
  uint32_t number;
  std::memcpy(&number, at, sizeof number);
  return ntohl(number);
}
