package syscalls

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// withTraces runs a command in a mount namespace of its own, where the kernel's tracepoints can be found.
const withTraces = `mount --make-rprivate / && { [ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; } && exec "$@"`

// tracers are other programs that count the subject's calls. line finds a call's name and count in what they
// print, in either order.
var tracers = []struct {
	name string
	args []string
	line *regexp.Regexp
}{
	{"strace", []string{"strace", "-c", "-f", "-U", "calls,name", "-e", "trace=write,getppid,lseek", os.Args[0]}, regexp.MustCompile(`(?m)^ *(?P<count>[0-9]+) (?P<name>write|getppid|lseek)$`)},
	{"perf", []string{
		"unshare", "-m", "sh", "-c", withTraces, "sh",
		"perf", "stat", "-x,", "-e", "syscalls:sys_enter_write,syscalls:sys_enter_getppid,syscalls:sys_enter_lseek", os.Args[0],
	}, regexp.MustCompile(`(?P<count>[0-9]+),,syscalls:sys_enter_(?P<name>[a-z]+),`)},
	{"bpftrace", []string{
		"unshare", "-m", "sh", "-c", withTraces, "sh",
		"bpftrace", "-c", os.Args[0], "-e", "tracepoint:syscalls:sys_enter_write,tracepoint:syscalls:sys_enter_getppid,tracepoint:syscalls:sys_enter_lseek /pid == cpid/ { @[probe] = count(); }",
	}, regexp.MustCompile(`(?m)^@\[tracepoint:syscalls:sys_enter_(?P<name>[a-z]+)\]: (?P<count>[0-9]+)$`)},
}

// refused finds what tracers print where they lack a right or the kernel lacks tracepoints.
var refused = regexp.MustCompile(`(?i)operation not permitted|permission denied|no permission|only supports running as the root|unknown tracepoint|can't find|not exist|no such file`)

// TestOtherTracersCountTheSame runs the subject under other programs that count system calls. The subject makes
// a known number of calls, so the counts are exactly equal; no program disturbs the others, as each has a subject
// of its own.
func TestOtherTracersCountTheSame(t *testing.T) {
	watch := orSkip(t, startBPFCounter)
	seen := watchWrites(t, watch, watch.readings.ReadNow)
	for _, tracer := range tracers {
		t.Run(tracer.name, func(t *testing.T) {
			if path, err := exec.LookPath(tracer.name); err != nil {
				t.Skipf("%v: install it with tools/setup.sh (%s)", err, path)
			}
			traced := exec.CommandContext(t.Context(), tracer.args[0], tracer.args[1:]...)
			traced.Env = append(os.Environ(), "WIRELAB_SUBJECT=1")
			var printed bytes.Buffer
			traced.Stdout, traced.Stderr = &printed, &printed
			err := traced.Run()
			counts := tracer.line.FindAllSubmatch(printed.Bytes(), -1)
			if err != nil && refused.Match(printed.Bytes()) {
				t.Skipf("%v: %s", err, &printed)
			}
			if err != nil || len(counts) != 3 {
				t.Fatalf("%v, counts of %d calls, want 3: %s", err, len(counts), &printed)
			}
			for _, found := range counts {
				name := string(found[tracer.line.SubexpIndex("name")])
				count, err := strconv.ParseInt(string(found[tracer.line.SubexpIndex("count")]), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if call := find(seen, name); call.Count != count {
					t.Errorf("%s has %d calls of %s, the census %d", tracer.name, count, name, call.Count)
				}
			}
		})
	}
}
