// The yardstick "100-line C epoll echo": how little a server of the stack tcp can cost. It gives
// whole frames back as they came (docs/wire-tcp.md, the plain framing). A hundred lines do that;
// the others know as much of the contract (docs/worker-contract.md) as its server's role takes.
// One thread, and libc alone.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MAX_MESSAGE = 16 << 20, AT_ONCE = 16 << 10, KEPT = 64 << 10, PATIENCE = 20 /* s */ };

struct connection {
  int fd, idle;              // seconds without an event; below 0 it waits for room to write
  size_t size, room, ready;  // bytes that came; memory for them; those that go back
  char *bytes;
};
static struct connection *all[1 << 16];  // by their descriptors
static char spec[1 << 16];

static void fail(const char *what, const char *name) {
  printf("{\"event\":\"error\",\"error\":{\"message\":\"%s: %s\"}}\n", what, name);
  exit(1);
}

// The field's text or number, as far as no escape is in it; empty: it is absent.
static const char *field(const char *name, char value[256]) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\"", name);
  const char *at = strstr(spec, key);
  at = at ? at + strlen(key) + strspn(at + strlen(key), " :") : "";
  snprintf(value, 256, "%.*s", (int)strcspn(at + (*at == '"'), "\\\",}"), at + (*at == '"'));
  return value;
}

static void want(const char *name, const char *wanted, const char *what) {
  char value[256];
  if (strcmp(field(name, value), wanted)) fail(what, value);
}

static void leave(struct connection *c) {
  all[c->fd] = 0;
  close(c->fd);
  free(c->bytes);
  free(c);
}

// Reads once, and finds the whole frames. Memory follows what came. 0: the connection is over.
static int take(struct connection *c) {
  if (c->room - c->size < AT_ONCE) {
    char *more = realloc(c->bytes, c->room = 2 * c->size + AT_ONCE);
    if (!more) return 0;
    c->bytes = more;
  }
  ssize_t n = read(c->fd, c->bytes + c->size, c->room - c->size);
  if (n <= 0) return n < 0 && errno == EAGAIN;
  c->size += n;
  for (uint32_t length; c->size - c->ready >= 4; c->ready += 4 + length) {
    memcpy(&length, c->bytes + c->ready, 4);
    if ((length = ntohl(length)) > MAX_MESSAGE) return 0;
    if (c->size - c->ready - 4 < length) break;
  }
  return 1;
}

// Gives them back. What does not go at once is left for when there is room.
static int give(struct connection *c, int epoll) {
  ssize_t n = c->ready ? send(c->fd, c->bytes, c->ready, MSG_NOSIGNAL) : 0;
  if (n < 0 && errno != EAGAIN) return 0;
  size_t sent = n > 0 ? n : 0, blocked = sent < c->ready, was = c->idle < 0;
  memmove(c->bytes, c->bytes + sent, c->size -= sent);
  c->ready -= sent;
  c->idle = blocked ? -PATIENCE : 0;
  struct epoll_event e = {blocked ? EPOLLOUT : EPOLLIN, {.ptr = c}};
  return blocked == was || epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e) == 0;
}

static void greet(int listener, int epoll) {
  int fd = accept4(listener, 0, 0, SOCK_NONBLOCK), on = 1;
  if (fd < 0 && errno != EAGAIN) usleep(10000);  // no descriptor is free: others go on
  if (fd >= (int)(sizeof all / sizeof *all)) close(fd), fd = -1;
  if (fd < 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct connection *c = all[fd] = calloc(1, sizeof *c);
  if (!c) abort();
  c->fd = fd;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN, {.ptr = c}});
}

// Once a second: leaves peers that stopped in the middle, and gives memory back.
static void sweep(int timer) {
  uint64_t times;
  if (read(timer, &times, sizeof times) < 0) return;
  for (struct connection **at = all, *c; at < all + sizeof all / sizeof *all; at++) {
    if (!(c = *at)) continue;
    if (++c->idle == 0 || (c->idle > PATIENCE && c->size)) leave(c);
    else if (c->idle > 1 && !c->size && c->room > KEPT) free(c->bytes), c->bytes = 0, c->room = 0;
  }
}

static void serve(int listener, int epoll) {
  int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  timerfd_settime(timer, 0, &(struct itimerspec){{1, 0}, {1, 0}}, 0);
  int own[] = {STDIN_FILENO, listener, timer};
  for (int i = 0; i < 3; i++) epoll_ctl(epoll, EPOLL_CTL_ADD, own[i], &(struct epoll_event){EPOLLIN, {.ptr = own + i}});
  for (;;) {
    struct epoll_event events[256];
    int n = epoll_wait(epoll, events, 256, -1), swept = 0;
    for (int i = 0; i < n; i++) {
      struct connection *c = events[i].data.ptr;
      if ((void *)c == own) {
        if (read(STDIN_FILENO, spec, sizeof spec) <= 0) return;
      } else if ((void *)c == own + 1) {
        greet(listener, epoll);
      } else if ((void *)c == own + 2) {
        swept = 1;
      } else if ((events[i].events != EPOLLOUT && !take(c)) || !give(c, epoll)) {
        leave(c);
      }
    }
    if (swept) sweep(timer);  // behind the events, which may be of those that it leaves
  }
}

int main(void) {
  char host[256], role[256], bytes[256];
  setvbuf(stdout, 0, _IOLBF, 0);
  if (!fgets(spec, sizeof spec, stdin)) fail("read the spec from standard input", "it ended");
  want("contract", "1", "this worker has version 1 of the contract, not");
  if (!strcmp(field("role", role), "capabilities"))
    return puts("{\"event\":\"capabilities\",\"capabilities\":{\"contract\":1,\"roles\":[\"server\"],"
                "\"stacks\":{\"tcp\":[]},\"workloads\":[\"echo\"]}}") < 0;
  want("role", "server", "this worker has the roles server and capabilities, not the role");
  want("stack", "tcp", "this worker has the stack tcp, without options, not");
  want("name", "echo", "this worker has the workload echo, not");
  want("response_bytes", field("request_bytes", bytes), "this worker answers with as many bytes as came, not with");
  field("address", host);
  char *port = strrchr(host, ':'), shown[300];
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port ? atoi(port + 1) : 0)};
  socklen_t size = sizeof at;
  snprintf(shown, sizeof shown, "listen on %s", host);
  if (port) *port = 0;
  if (!port || !inet_pton(AF_INET, host, &at.sin_addr)) fail(shown, "want the form 127.0.0.1:PORT");
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 4096) ||
      getsockname(listener, (struct sockaddr *)&at, &size))
    fail(shown, strerror(errno));
  printf("{\"event\":\"ready\",\"ready\":{\"contract\":1,\"address\":\"%s:%d\",\"pid\":%d,\"runtime\":\"C, compiler %s, -O2\"}}\n",
         host, ntohs(at.sin_port), getpid(), __VERSION__);
  serve(listener, epoll_create1(0));
  puts("{\"event\":\"result\",\"result\":{\"server\":{}}}");
}
