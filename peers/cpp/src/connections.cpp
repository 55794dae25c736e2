#include "connections.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <unordered_set>

namespace {

namespace fs = std::filesystem;

std::unordered_set<uint64_t> OwnSockets() {
  std::unordered_set<uint64_t> inodes;
  std::error_code gone;  // descriptors may be closed meanwhile
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", gone)) {
    unsigned long inode;
    const auto target = fs::read_symlink(entry.path(), gone).string();
    if (std::sscanf(target.c_str(), "socket:[%lu]", &inode) == 1) inodes.insert(inode);
  }
  return inodes;
}

}  // namespace

std::vector<uint64_t> ConnectionsTo(int port) {
  constexpr unsigned kEstablished = 1;  // TCP_ESTABLISHED of the kernel's tcp_states.h
  const auto own = OwnSockets();
  std::vector<uint64_t> found;
  for (const auto* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {  // C-core's sockets are IPv6 ones
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      unsigned remote, state;
      unsigned long inode;
      const char* format = "%*d: %*[0-9A-F]:%*x %*[0-9A-F]:%x %x %*x:%*x %*x:%*x %*x %*u %*u %lu";
      if (std::sscanf(line.c_str(), format, &remote, &state, &inode) == 3 && state == kEstablished &&
          remote == static_cast<unsigned>(port) && own.contains(inode))
        found.push_back(inode);
    }
  }
  return found;
}
