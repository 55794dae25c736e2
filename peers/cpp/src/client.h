// What makes the calls of a measurement, over one of the stacks.
#pragma once

#include <memory>
#include <vector>

#include "course.h"
#include "events.h"
#include "spec.h"

class Client {
 public:
  // Its connections are open when it is made.
  virtual ~Client() = default;

  // Lets the callers call. The course is open.
  virtual void Start() = 0;

  // Fails what is in flight, once the course was stopped.
  virtual void Cancel() = 0;

  // The connections until now.
  virtual ConnectionCounts Count() = 0;

  virtual std::vector<Setting> settings() const = 0;
};

// Makes the client that the spec asks for.
std::unique_ptr<Client> MakeTcpClient(const Spec& spec, Course& course);
std::unique_ptr<Client> MakeGrpcClient(const Spec& spec, Course& course);
