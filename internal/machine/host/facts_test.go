package host

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// machine builds a root file system from path and content.
func machine(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for path, content := range files {
		root[path] = &fstest.MapFile{Data: []byte(content)}
	}
	return root
}

func TestFactsNoteWhatIsMissing(t *testing.T) {
	from := &facts{root: machine(map[string]string{"number": "42\n", "words": "a b"})}
	if got := from.number("number"); got != 42 {
		t.Errorf("number = %d, want 42", got)
	}
	if len(from.missing) != 0 {
		t.Errorf("notes without cause: %q", from.missing)
	}
	from.text("absent")
	from.number("words")
	if len(from.missing) != 2 || from.missing[0] != "absent: file does not exist" || !strings.HasPrefix(from.missing[1], "words: ") {
		t.Errorf("notes %q; want one for absent, one for words", from.missing)
	}
}

func TestParseCPUList(t *testing.T) {
	for list, want := range map[string][]int{
		"":              {},
		"0":             {0},
		"0-3,8,10-11\n": {0, 1, 2, 3, 8, 10, 11},
	} {
		got, err := ParseCPUList(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseCPUList(%q) = %v, %v; want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"a", "3-1", "-1", "0-", "0-99999999", "1,,2"} {
		if got, err := ParseCPUList(list); err == nil {
			t.Errorf("ParseCPUList(%q) = %v, want an error", list, got)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	f.Add("0-3,8,10-11")
	f.Add("0")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUList(list)
		if err != nil && cpus != nil {
			t.Errorf("both %d CPUs and %v", len(cpus), err)
		}
		for _, cpu := range cpus {
			if cpu < 0 {
				t.Errorf("CPU %d in %q", cpu, list)
			}
		}
	})
}

func TestReadTopology(t *testing.T) {
	const cpus = "sys/devices/system/cpu/"
	from := &facts{root: machine(map[string]string{
		cpus + "online": "0-3",
		cpus + "cpu0/topology/physical_package_id":  "0",
		cpus + "cpu0/topology/core_id":              "4",
		cpus + "cpu0/topology/thread_siblings_list": "0-1",
		cpus + "cpu0/cpu_capacity":                  "1024",
		cpus + "cpu1/topology/core_id":              "4",
		cpus + "cpu1/topology/thread_siblings_list": "0-1",
		cpus + "cpu1/cpu_capacity":                  "1009",
		cpus + "cpu2/topology/physical_package_id":  "1",
		cpus + "cpu2/cpu_capacity":                  "446",
		"sys/devices/cpu_atom/cpus":                 "3",
	})}
	topology := readTopology(from, []int{0, 2})
	want := []CPU{
		{ID: 0, Core: 4, Siblings: []int{1}, Capacity: 1024},
		{ID: 1, Core: 4, Siblings: []int{0}, Capacity: 1009},
		{ID: 2, Package: 1, Core: 2, Capacity: 446, Efficiency: true},
		{ID: 3, Core: 3, Efficiency: true},
	}
	equal := func(a, b CPU) bool {
		return slices.Equal(a.Siblings, b.Siblings) && a.ID == b.ID && a.Package == b.Package &&
			a.Core == b.Core && a.Capacity == b.Capacity && a.Efficiency == b.Efficiency
	}
	if !slices.EqualFunc(topology.CPUs, want, equal) {
		t.Errorf("CPUs %+v\nwant %+v", topology.CPUs, want)
	}
	if topology.Cores() != 3 || !slices.Equal(topology.Allowed, []int{0, 2}) {
		t.Errorf("%d cores, allowed %v; want 3 and [0 2]", topology.Cores(), topology.Allowed)
	}
}

func TestReadQuota(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  float64
	}{
		"no control groups": {nil, 0},
		"version 2": {map[string]string{
			"proc/self/cgroup":          "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max": "max 100000",
			"sys/fs/cgroup/a/cpu.max":   "150000 100000",
		}, 1.5},
		"version 2 in a container": {map[string]string{
			"proc/self/cgroup":      "0::/system.slice/docker-1.scope\n",
			"sys/fs/cgroup/cpu.max": "50000 100000",
		}, 0.5},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:devices:/\n4:cpu,cpuacct:/job\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us":  "300000",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":      "-1",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":     "100000",
		}, 3},
		"hybrid, unlimited": {map[string]string{
			"proc/self/cgroup":                    "1:cpu:/\n0::/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "-1",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
		}, 0},
		"nonsense": {map[string]string{
			"proc/self/cgroup":      "0::/../..\nwhat\n",
			"sys/fs/cgroup/cpu.max": "100000 0",
		}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := readQuota(machine(test.files), "self"); got != test.want {
				t.Errorf("quota %v CPUs, want %v", got, test.want)
			}
		})
	}
}

// denied is a file system in which nothing may be read.
type denied struct{}

func (denied) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("permission denied")}
}
