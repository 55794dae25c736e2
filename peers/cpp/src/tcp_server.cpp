#include "tcp_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "tcp_connection.h"
#include "tcp_wire.h"

// A thread with its connections.
class TcpServer::Worker {
 public:
  explicit Worker(Wake& stop)
      : stop_(stop), epoll_(epoll_create1(EPOLL_CLOEXEC)), timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    const itimerspec second{{1, 0}, {1, 0}};
    if (!epoll_.open() || timerfd_settime(timer_.fd(), 0, &second, nullptr) != 0)
      throw Refusal(std::string("epoll, and a timer: ") + std::strerror(errno));
    Watch(epoll_.fd(), stop_.fd(), Interest::kInput, &stop_);
    Watch(epoll_.fd(), timer_.fd(), Interest::kInput, &timer_);
    thread_ = std::thread([this] { Run(); });
  }
  ~Worker() {
    stop_.Set();
    thread_.join();
  }

  // Gives it a connection, from another thread.
  void Add(Descriptor socket) {
    auto connection = std::make_unique<TcpConnection>(std::move(socket));
    auto* const with = connection.get();
    const std::lock_guard lock(guard_);  // its thread may have an event of it, but cannot close it yet
    Watch(epoll_.fd(), with->fd(), Interest::kInput, with);
    connections_.emplace(with, std::move(connection));
  }

 private:
  void Run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int count = epoll_wait(epoll_.fd(), events.data(), events.size(), -1);
      bool swept = false;
      for (int i = 0; i < count; i++) {
        void* const with = events[i].data.ptr;
        if (with == &stop_) return;
        if (with == &timer_)
          swept = true;
        else
          GoOn(*static_cast<TcpConnection*>(with), events[i].events);
      }
      if (swept) Sweep();  // behind the events, since it closes what others may be of
    }
  }

  void GoOn(TcpConnection& connection, uint32_t events) {
    if (!connection.GoOn((events & ~EPOLLOUT) != 0)) {
      const std::lock_guard lock(guard_);
      connections_.erase(&connection);
      return;
    }
    if (const auto interest = connection.interest(); interest != connection.watched) {
      connection.watched = interest;
      Rewatch(epoll_.fd(), connection.fd(), interest, &connection);
    }
  }

  void Sweep() {
    uint64_t times;
    [[maybe_unused]] const auto taken = read(timer_.fd(), &times, sizeof times);
    const std::lock_guard lock(guard_);
    std::erase_if(connections_, [](const auto& entry) { return !entry.second->Sweep(); });
  }

  Wake& stop_;
  Descriptor epoll_, timer_;
  std::mutex guard_;  // of what follows
  std::unordered_map<TcpConnection*, std::unique_ptr<TcpConnection>> connections_;
  std::thread thread_;
};

TcpServer::TcpServer(const Spec& spec) : address_(spec.address), listener_(Listen(address_)) {
  for (int i = 0; i < Cpus(); i++) workers_.push_back(std::make_unique<Worker>(stop_));
  accepting_ = std::thread([this] { Accept(); });
}

TcpServer::~TcpServer() {
  stop_.Set();
  accepting_.join();
}

void TcpServer::Accept() {
  constexpr int kRetryMs = 10;
  pollfd wait[] = {{listener_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
  for (size_t next = 0;;) {
    poll(wait, 2, -1);
    if (wait[1].revents != 0) return;
    Descriptor socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      const int on = 1;
      setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // without it calls are only slower
      workers_[next++ % workers_.size()]->Add(std::move(socket));
    } else if (errno != EAGAIN) {
      poll(&wait[1], 1, kRetryMs);  // descriptors have run out, or the client has gone: others go on
    }
  }
}

std::vector<Setting> TcpServer::settings() const { return {kNoDelay}; }
