package host

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestDescribeReadsAMachine(t *testing.T) {
	root := machine(map[string]string{
		"proc/self/uid_map":                                               "0 1000 1",
		"proc/self/cgroup":                                                "0::/",
		"proc/cpuinfo":                                                    "processor\t: 0\nmodel name\t: Abacus 9\nflags\t\t: fpu hypervisor sse\n",
		"proc/meminfo":                                                    "MemTotal:       1024 kB\nMemFree: 12 kB\n",
		"proc/sys/kernel/osrelease":                                       "6.1.0-test\n",
		"proc/sys/kernel/perf_event_paranoid":                             "-1",
		"proc/sys/net/ipv4/tcp_congestion_control":                        "cubic\n",
		"proc/sys/net/ipv4/tcp_rmem":                                      "4096\t131072\t6291456\n",
		"proc/sys/net/ipv4/tcp_wmem":                                      "4096\t16384\t4194304\n",
		"proc/sys/net/ipv4/ip_local_port_range":                           "32768\t60999\n",
		"proc/sys/net/core/somaxconn":                                     "4096\n",
		"sys/class/dmi/id/sys_vendor":                                     "ACME\n",
		"sys/devices/system/cpu/online":                                   "0-1\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave\n",
		"sys/devices/system/cpu/vulnerabilities/meltdown":                 "Not affected\n",
		"sys/devices/system/cpu/vulnerabilities/spectre_v2":               "Mitigation: Retpolines; IBPB: conditional\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never\n",
		".dockerenv": "",
	})
	root["proc/config.gz"] = &fstest.MapFile{Data: gzipped(t, "CONFIG_HZ_250=y\nCONFIG_HZ=250\n")}
	info := describe(root)
	level := -1
	want := info
	want.CPUModel, want.Virtualisation, want.Governor = "Abacus 9", "guest ACME", "powersave"
	want.Kernel, want.Clocksource, want.HugePages = "6.1.0-test", "hpet", "madvise"
	want.Cores, want.MemoryBytes, want.TimerHz, want.PerfParanoid = 2, 1<<20, 250, &level
	want.Mitigations = map[string]string{"spectre_v2": "Retpolines"}
	want.Containers = []string{"/.dockerenv", "inside a user namespace"}
	want.TCP = TCPInfo{
		CongestionControl: "cubic", ReceiveMemory: "4096 131072 6291456", SendMemory: "4096 16384 4194304",
		ListenBacklog: 4096, FirstPort: 32768, LastPort: 60999,
	}
	if !reflect.DeepEqual(info, want) {
		t.Errorf("got  %+v\nwant %+v", info, want)
	}
	if runtime.GOOS == "linux" && len(info.Missing) != 0 {
		t.Errorf("missing %q, though all is there", info.Missing)
	}
}

func TestDescribeNamesWhatIsMissing(t *testing.T) {
	partly := describe(machine(map[string]string{"proc/self/cgroup": "0::/"}))
	for _, name := range []string{"tcp_rmem", "somaxconn", "scaling_governor", "osrelease", "timer HZ", "CPU model"} {
		if !slices.ContainsFunc(partly.Missing, func(note string) bool { return strings.Contains(note, name) }) {
			t.Errorf("no note on %s in %q", name, partly.Missing)
		}
	}
	nothing := describe(denied{})
	if !slices.ContainsFunc(nothing.Missing, func(note string) bool { return strings.Contains(note, "all files below /proc") }) {
		t.Errorf("notes %q do not say that all is missing", nothing.Missing)
	}
	if nothing.Cores == 0 || nothing.Go.Version != runtime.Version() {
		t.Errorf("%d cores, Go %q: what Go itself knows is lost", nothing.Cores, nothing.Go.Version)
	}
}

func TestInfoSurvivesJSON(t *testing.T) {
	info := Describe()
	encoded, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	var decoded Info
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(decoded)
	if err != nil || !bytes.Equal(encoded, again) {
		t.Errorf("written %s\nread    %s (%v)", encoded, again, err)
	}
}

func TestCPUModel(t *testing.T) {
	arm := "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nprocessor\t: 1\nCPU part\t: 0xd05\n"
	if got, want := cpuModel(arm), "implementer 0x41 part 0xd0c"; got != want {
		t.Errorf("cpuModel = %q, want %q", got, want)
	}
	if got := cpuModel("processor : 0\n"); got != "" {
		t.Errorf("cpuModel = %q, want none", got)
	}
}

func TestKernelOptionRefusesADamagedFile(t *testing.T) {
	root := machine(map[string]string{"proc/config.gz": "not gzip"})
	if value, err := kernelOption(root, "6.1", "CONFIG_HZ"); err == nil {
		t.Errorf("kernelOption = %q, want an error", value)
	}
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestIsMachineOf(t *testing.T) {
	here := Info{OS: "linux", CPUModel: "Abacus 9", MemoryBytes: 1 << 30, Kernel: "6.1", Topology: Topology{Allowed: []int{0, 1}}}
	for name, c := range map[string]struct {
		change func(*Info)
		want   bool
	}{
		"itself":        {func(*Info) {}, true},
		"a newer one":   {func(i *Info) { i.Kernel, i.MemoryBytes = "6.2", i.MemoryBytes-1<<20 }, true},
		"another model": {func(i *Info) { i.CPUModel = "Abacus 10" }, false},
		"fewer CPUs":    {func(i *Info) { i.Topology.Allowed = []int{0} }, false},
		"less of them":  {func(i *Info) { i.Topology.QuotaCPUs = 1.5 }, false},
		"less memory":   {func(i *Info) { i.MemoryBytes /= 2 }, false},
	} {
		other := here
		c.change(&other)
		if got := here.MayBeSameMachine(&other); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
