// What callers write down of their calls while they measure, and put into a file afterwards.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "events.h"

// A call as the calls file has it (docs/worker-contract.md).
struct Call {
  int64_t due, sent, ended;
  uint32_t caller;
  uint32_t failure;  // 0: none
};
static_assert(sizeof(Call) == 32 && std::endian::native == std::endian::little);

// The calls of one caller, which makes one at a time. Their number may be read by anyone.
class Journal {
 public:
  // The memory for that many calls is there, and touched, before the first.
  explicit Journal(size_t expected);

  void Add(const Call& call);
  uint64_t size() const { return size_.load(std::memory_order_relaxed); }
  void Write(std::FILE* to) const;

 private:
  static constexpr size_t kChunk = 512;  // calls

  std::vector<std::unique_ptr<Call[]>> chunks_;
  std::atomic<uint64_t> size_ = 0;
};

// The kinds of failures that were met, and their numbers in the calls file.
class Failures {
 public:
  // The number of a kind and code, from 1. The first of them is its example.
  uint32_t Number(const FailureKind& failure);
  std::vector<FailureKind> all() const;

 private:
  mutable std::mutex guard_;
  std::vector<FailureKind> kinds_;
};
