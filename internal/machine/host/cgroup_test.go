package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tree writes files below a new folder: those of a kernel can be read at any offset,
// again and again, as those of an fs.FS cannot.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestThrottleSumsTheGroupsThatCanLimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  ThrottleCount
	}{
		"no control groups": {nil, ThrottleCount{}},
		"version 1, the group and its parent": {map[string]string{
			"proc/7/cgroup": "4:cpu,cpuacct:/jobs/one\n2:memory:/elsewhere\n",
			"sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_quota_us": "30000",
			"sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.stat":         "nr_periods 100\nnr_throttled 40\nthrottled_time 2500000000\n",
			"sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us":     "50000",
			"sys/fs/cgroup/cpu,cpuacct/jobs/cpu.stat":             "nr_periods 100\nnr_throttled 2\nthrottled_time 7\nnr_bursts 0\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":          "-1",
			"sys/fs/cgroup/cpu,cpuacct/cpu.stat":                  "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
		}, ThrottleCount{TimeNS: 2_500_000_007, Periods: 42}},
		"version 1 under two names": {map[string]string{
			"proc/7/cgroup":                                  "4:cpu,cpuacct:/job\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us":         "30000",
			"sys/fs/cgroup/cpu/job/cpu.stat":                 "nr_throttled 4\nthrottled_time 9\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "30000",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.stat":         "nr_throttled 4\nthrottled_time 9\n",
		}, ThrottleCount{TimeNS: 9, Periods: 4}},
		"version 2": {map[string]string{
			"proc/7/cgroup":                "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max":    "max 100000",
			"sys/fs/cgroup/a/b/cpu.stat":   "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
			"sys/fs/cgroup/a/cpu.max":      "30000 100000",
			"sys/fs/cgroup/a/cpu.stat":     "usage_usec 5\nnr_periods 10\nnr_throttled 7\nthrottled_usec 650000\n",
			"sys/fs/cgroup/cpu.stat":       "usage_usec 9\n",
			"sys/fs/cgroup/other/cpu.stat": "nr_throttled 5\nthrottled_usec 5\n",
		}, ThrottleCount{TimeNS: 650_000_000, Periods: 7}},
		"both versions, limited by the first": {map[string]string{
			"proc/7/cgroup":                          "1:cpu:/job\n0::/\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "20000",
			"sys/fs/cgroup/cpu/job/cpu.stat":         "nr_throttled 1\nthrottled_time 8\n",
			"sys/fs/cgroup/unified/cpu.stat":         "usage_usec 9\n",
		}, ThrottleCount{TimeNS: 8, Periods: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			throttle := openThrottle(tree(t, test.files), "7")
			for range 2 { // the files stay open
				if got, err := throttle.Read(); err != nil || got != test.want {
					t.Errorf("%+v, %v; want %+v", got, err, test.want)
				}
			}
			if allocations := testing.AllocsPerRun(10, func() { _, _ = throttle.Read() }); allocations > 0 {
				t.Errorf("a reading allocates %v times", allocations)
			}
		})
	}
}

func FuzzParseThrottled(f *testing.F) {
	f.Add([]byte("nr_periods 100\nnr_throttled 40\nthrottled_time 2500000000\n"))
	f.Add([]byte("throttled_usec 650000"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if got := parseThrottled(stat); !strings.Contains(string(stat), "throttled") && got != (ThrottleCount{}) {
			t.Errorf("%+v out of %q", got, stat)
		}
	})
}

func TestAllowanceIsTheUnionOfTheThreads(t *testing.T) {
	const status = "Name:\tworker\nCpus_allowed:\t3\nCpus_allowed_list:\t"
	files := map[string]string{
		"proc/7/cgroup":           "0::/a\n",
		"sys/fs/cgroup/a/cpu.max": "30000 100000",
		"proc/7/task/7/status":    status + "1\n",
		"proc/7/task/8/status":    status + "1,4-5\nTracerPid:\t77\n",
	}
	got, err := readAllowance(machine(files), "7")
	if err != nil || joinCPUs(got.CPUs) != "1,4,5" || got.QuotaCPUs != 0.3 || got.TracedBy != 77 {
		t.Errorf("%+v, %v", got, err)
	}
	files["proc/7/task/8/status"] = status + "everywhere\n"
	if got, err := readAllowance(machine(files), "7"); err == nil {
		t.Errorf("a list that is none gave %+v", got)
	}
	if _, err := readAllowance(machine(files), "8"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that there is not: %v", err)
	}
}

// A real group with a quota stops a real process, whose group counts it.
func TestThrottleOfAProcessUnderAQuota(t *testing.T) {
	group := limitedGroup(t)
	// It joins before it begins to burn, and so is under the quota all its life.
	burner := exec.Command("sh", "-c", "echo $$ > "+filepath.Join(group, "cgroup.procs")+" && echo in && while :; do :; done")
	output, err := burner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := burner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = burner.Process.Kill(); _ = burner.Wait() })
	if _, err := output.Read(make([]byte, 3)); err != nil {
		t.Fatalf("the burner did not join its group: %v", err)
	}
	allowance, err := ReadAllowance(burner.Process.Pid)
	if err != nil || allowance.QuotaCPUs != 0.05 || len(allowance.CPUs) == 0 {
		t.Errorf("allowance %+v, %v; want a twentieth of a CPU", allowance, err)
	}
	throttle := openThrottle("/", strconv.Itoa(burner.Process.Pid))
	for { // until it has used up 5 ms of CPU time in 100 ms, however long that takes
		got, err := throttle.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got.Periods > 0 && got.TimeNS > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// limitedGroup makes a control group that grants 5 ms of CPU time in 100.
func limitedGroup(t *testing.T) string {
	t.Helper()
	for _, kind := range []struct{ mount, file, quota string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "5000"},
		{"/sys/fs/cgroup", "cpu.max", "5000 100000"},
	} {
		group := filepath.Join(kind.mount, "wirelab-test-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Logf("no group in %s: %v", kind.mount, err)
			continue
		}
		t.Cleanup(func() {
			for range 100 { // the kernel takes a moment to let its last process go
				if os.Remove(group) == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		limit, err := os.OpenFile(filepath.Join(group, kind.file), os.O_WRONLY, 0)
		if err == nil { // the kernel made the file, which a plain folder has not
			_, err = limit.WriteString(kind.quota)
			err = errors.Join(err, limit.Close())
		}
		if err != nil {
			t.Logf("no quota in %s: %v", kind.mount, err)
			continue
		}
		return group
	}
	t.Skip("no control group with a quota can be made here; it takes root and the cpu controller")
	return ""
}
