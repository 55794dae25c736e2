package offcpu

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// convoy is a program whose threads wait in take_lock, all of them for a millisecond at least. Its first
// thread lets the lock go once /proc says that all others wait for it (system call futex).
const convoy = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { waiters = 16 };
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static volatile int threads[waiters];
static volatile int taken;
__attribute__((noinline)) static void take_lock(void) {
  pthread_mutex_lock(&guard);
  taken++;
  pthread_mutex_unlock(&guard);
}
__attribute__((noinline)) static void answer(void) { take_lock(); taken += 0; }
static void *serve(void *number) {
  threads[(long)number] = syscall(SYS_gettid);
  answer();
  return 0;
}
static int waits(int thread) {
  char name[64], text[16] = "", want[16];
  snprintf(name, sizeof name, "/proc/self/task/%d/syscall", thread);
  snprintf(want, sizeof want, "%d ", SYS_futex);
  FILE *file = fopen(name, "r");
  if (!file) return 0;
  char *line = fgets(text, sizeof text, file);
  fclose(file);
  return line && !strncmp(text, want, strlen(want));
}
int main(void) {
  pthread_t all[waiters];
  char start;
  if (read(0, &start, 1) != 1) return 1;
  pthread_mutex_lock(&guard);
  for (long i = 0; i < waiters; i++) pthread_create(&all[i], 0, serve, (void *)i);
  for (int i = 0; i < waiters; i++) while (!threads[i] || !waits(threads[i])) usleep(100);
  usleep(1000);
  pthread_mutex_unlock(&guard);
  for (int i = 0; i < waiters; i++) pthread_join(all[i], 0);
  puts("done");
  fflush(stdout);
  while (read(0, &start, 1) > 0) {}
  return 0;
}
`

// TestAConvoyOfThreadsIsSeen: each wait of a thread has the function that called libc, which has no frame
// pointers.
func TestAConvoyOfThreadsIsSeen(t *testing.T) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("this machine has no gcc: ", err)
	}
	program := filepath.Join(t.TempDir(), "convoy")
	build := exec.CommandContext(t.Context(), compiler, "-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-x", "c", "-o", program, "-")
	build.Stdin = strings.NewReader(convoy)
	if text, err := build.CombinedOutput(); err != nil {
		t.Skipf("gcc cannot build the program: %v: %s", err, text)
	}
	stacks := watchProcess(t, exec.CommandContext(t.Context(), program)).Server.Stacks
	count, waited := int64(0), int64(0)
	for _, stack := range stacks.Stacks {
		functions := stacks.Functions(stack)
		called := slices.IndexFunc(functions, func(f record.Frame) bool { return f.Function == "take_lock" && f.In == "" })
		if called > 0 && functions[called-1].Function == "answer" {
			count, waited = count+stack.Count, waited+stack.Weight
		}
	}
	t.Logf("%d waits, %v", count, time.Duration(waited))
	if runtime.GOARCH == "amd64" && (count < waiters || waited < waiters*int64(each)) {
		t.Errorf("take_lock waited %d times for %v, want %d times for %v at least", count, time.Duration(waited), waiters, waiters*each)
	}
}
