// The TCP connections of this process, as the kernel has them.
#pragma once

#include <cstdint>
#include <vector>

// The inodes of this process's sockets that are connected to the port of some other side.
std::vector<uint64_t> ConnectionsTo(int port);
