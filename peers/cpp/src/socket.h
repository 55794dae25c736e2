// Sockets and what wakes a thread that waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

// A descriptor, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

// Wakes all threads that wait for its descriptor, once and for all.
class Wake {
 public:
  Wake();
  void Set() const;
  int fd() const { return event_.fd(); }

 private:
  Descriptor event_;
};

// Listens on HOST:PORT, and puts the real port into the address.
Descriptor Listen(std::string& address);

// Connects to HOST:PORT, within ten seconds. 0, or the errno of the failure.
int Connect(const std::string& address, Descriptor& connected);

// Watches a descriptor for input, for room to write, or both; the pointer comes with the event.
enum class Interest { kInput, kRoom, kBoth };
void Watch(int epoll, int fd, Interest interest, void* with);
void Rewatch(int epoll, int fd, Interest interest, void* with);

// How many CPUs this process may run on.
int Cpus();

// Bytes that have come or are to go: put at the end, taken from the front.
class Buffer {
 public:
  const char* data() const { return bytes_.get() + begin_; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  // Room behind the last byte: at least so much, and all that there is memory for.
  char* Room(size_t at_least);
  size_t room() const { return capacity_ - end_; }
  void Added(size_t bytes) { end_ += bytes; }
  void Append(const void* bytes, size_t size);
  void AppendNumber(uint32_t number);  // big-endian
  void Take(size_t bytes);
  void Clear() { begin_ = end_ = 0; }
  // Gives memory beyond that size back, if it is empty.
  void Trim(size_t size);

 private:
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

// What became of reading or writing.
enum class Flow { kDone, kBlocked, kEnded, kBroken };  // broken: errno says how

// Reads once: as much as there is room for, which is at least that.
Flow ReadSome(int fd, Buffer& into, size_t room);
// Writes until all has gone, or there is no room.
Flow WriteAll(int fd, Buffer& from);

uint32_t BigEndian(const char* at);
