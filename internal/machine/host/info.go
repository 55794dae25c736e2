package host

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Info describes the machine. Missing lists what could not be read, with the reasons.
type Info struct {
	OS             string            `json:"os"`
	Arch           string            `json:"arch"`
	Kernel         string            `json:"kernel,omitempty"`
	CPUModel       string            `json:"cpu_model,omitempty"`
	Cores          int               `json:"cores"`
	Topology       Topology          `json:"topology"`
	Governor       string            `json:"governor,omitempty"`
	Mitigations    map[string]string `json:"mitigations,omitempty"`
	Clocksource    string            `json:"clocksource,omitempty"`
	Virtualisation string            `json:"virtualisation,omitempty"`
	Containers     []string          `json:"containers,omitempty"`
	MemoryBytes    int64             `json:"memory_bytes,omitempty"`
	HugePages      string            `json:"transparent_huge_pages,omitempty"`
	TimerHz        int               `json:"timer_hz,omitempty"`
	PerfParanoid   *int              `json:"perf_event_paranoid,omitempty"`
	UID            int               `json:"uid"`
	FileLimit      FileLimit         `json:"file_limit"`
	TCP            TCPInfo           `json:"tcp"`
	Go             GoInfo            `json:"go"`
	Missing        []string          `json:"missing,omitempty"`
}

// MayBeSameMachine reports whether both descriptions may belong to one machine with unchanged
// resources. The versions of the kernel and of Go may differ.
func (info *Info) MayBeSameMachine(other *Info) bool {
	type lasting struct {
		os, arch, model, virtualisation string
		cpus                            int
		quota                           float64
	}
	of := func(i *Info) lasting {
		return lasting{i.OS, i.Arch, i.CPUModel, i.Virtualisation, len(i.Topology.Allowed), i.Topology.QuotaCPUs}
	}
	const kernels = 0.05 // largest share of memory by which two kernels' own use may differ
	differs := math.Abs(float64(info.MemoryBytes - other.MemoryBytes))
	return of(info) == of(other) && differs <= kernels*float64(info.MemoryBytes)
}

// Summary returns a description of the machine in one line.
func (info *Info) Summary() string {
	return fmt.Sprintf("%s with %d CPUs, %s %s, Go %s", info.CPUModel, len(info.Topology.Allowed), info.OS, info.Kernel, strings.TrimPrefix(info.Go.Version, "go"))
}

// TCPInfo holds the kernel's settings for new TCP connections.
type TCPInfo struct {
	CongestionControl string `json:"congestion_control,omitempty"`
	// ReceiveMemory and SendMemory each hold a minimum, a default and a maximum, in bytes.
	ReceiveMemory string `json:"receive_memory,omitempty"`
	SendMemory    string `json:"send_memory,omitempty"`
	ListenBacklog int    `json:"listen_backlog,omitempty"`
	// FirstPort and LastPort are the ends of the range of local ports for outgoing connections.
	FirstPort int `json:"first_port,omitempty"`
	LastPort  int `json:"last_port,omitempty"`
}

// GoInfo holds the settings of the Go runtime that can change a program's speed.
type GoInfo struct {
	Version     string `json:"version"`
	GOMAXPROCS  int    `json:"gomaxprocs"`
	GOGC        string `json:"gogc,omitempty"`
	MemoryLimit int64  `json:"memory_limit_bytes"`
	GODEBUG     string `json:"godebug,omitempty"`
	Experiment  string `json:"goexperiment,omitempty"`
}

// FileLimit is the limit of open descriptors per process (RLIMIT_NOFILE). Each connection needs one
// descriptor.
type FileLimit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Describe describes this machine in a few milliseconds. Info.Missing lists what it cannot read.
func Describe() Info { return describe(os.DirFS("/")) }

// ReadTopology reads only the CPUs of this machine.
func ReadTopology() Topology {
	allowed, _ := AllowedCPUs() // Describe reports what cannot be read
	return readTopologyWithQuota(&facts{root: os.DirFS("/")}, allowed)
}

func readTopologyWithQuota(from *facts, allowed []int) Topology {
	topology := readTopology(from, allowed)
	topology.QuotaCPUs = readQuota(from.root, "self")
	return topology
}

func describe(root fs.FS) Info {
	from := &facts{root: root}
	info := Info{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(), Go: describeGo()}
	allowed, err := AllowedCPUs()
	if err != nil {
		from.addMissing("CPU affinity", err)
	}
	if info.FileLimit, err = fileLimit(); err != nil {
		from.addMissing("descriptor limit", err)
	}
	if _, err := fs.Stat(root, "proc/self"); err != nil {
		// One entry stands for all files, because thirty entries would have the same reason.
		from.missing = append(from.missing, "all files below /proc and /sys: "+runtime.GOOS+" has no procfs")
		info.Topology = readTopology(&facts{root: root}, allowed)
	} else {
		info.Topology = readTopologyWithQuota(from, allowed)
		info.describeProcessor(from)
		info.describeKernel(from)
		info.TCP = describeTCP(from)
	}
	info.Cores, info.Missing = info.Topology.Cores(), from.missing
	return info
}

func (info *Info) describeProcessor(from *facts) {
	info.CPUModel = cpuModel(from.text("proc/cpuinfo"))
	if info.CPUModel == "" {
		from.addMissing("CPU model", errors.New("/proc/cpuinfo does not name it"))
	}
	info.Governor = from.text(cpuFolder + "/cpu0/cpufreq/scaling_governor")
	info.Mitigations = mitigations(from.root)
	info.Virtualisation = virtualisation(from.root)
	info.Containers = containerSigns(from.root)
}

func (info *Info) describeKernel(from *facts) {
	info.Kernel = from.text("proc/sys/kernel/osrelease")
	info.Clocksource = from.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if total := strings.Fields(valueOfLabel(from.text("proc/meminfo"), "MemTotal")); len(total) > 0 {
		kibibytes, _ := strconv.ParseInt(total[0], 10, 64)
		info.MemoryBytes = kibibytes * 1024
	}
	info.HugePages = bracketedWord(from.text("sys/kernel/mm/transparent_hugepage/enabled"))
	if level, err := strconv.Atoi(from.text("proc/sys/kernel/perf_event_paranoid")); err == nil {
		info.PerfParanoid = &level
	}
	hz, err := kernelOption(from.root, info.Kernel, "CONFIG_HZ")
	if err != nil {
		from.addMissing("timer HZ", err)
		return
	}
	info.TimerHz, _ = strconv.Atoi(hz) // 0 after an error, which means unknown
}

func describeTCP(from *facts) TCPInfo {
	const ipv4 = "proc/sys/net/ipv4/"
	tcp := TCPInfo{
		CongestionControl: from.text(ipv4 + "tcp_congestion_control"),
		ReceiveMemory:     strings.Join(strings.Fields(from.text(ipv4+"tcp_rmem")), " "),
		SendMemory:        strings.Join(strings.Fields(from.text(ipv4+"tcp_wmem")), " "),
		ListenBacklog:     int(from.number("proc/sys/net/core/somaxconn")),
	}
	if ports := strings.Fields(from.text(ipv4 + "ip_local_port_range")); len(ports) == 2 {
		tcp.FirstPort, _ = strconv.Atoi(ports[0])
		tcp.LastPort, _ = strconv.Atoi(ports[1])
	}
	return tcp
}

func describeGo() GoInfo {
	return GoInfo{
		Version:    runtime.Version(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		GOGC:       os.Getenv("GOGC"),
		// A negative argument changes nothing and returns the current limit.
		MemoryLimit: debug.SetMemoryLimit(-1),
		GODEBUG:     os.Getenv("GODEBUG"),
		Experiment:  os.Getenv("GOEXPERIMENT"),
	}
}

// cpuModel returns the name of the processor. On Arm, /proc/cpuinfo has only numbers that identify
// the model (MIDR_EL1).
func cpuModel(cpuinfo string) string {
	if model := valueOfLabel(cpuinfo, "model name"); model != "" {
		return model
	}
	if part := valueOfLabel(cpuinfo, "CPU part"); part != "" {
		return fmt.Sprintf("implementer %s part %s", valueOfLabel(cpuinfo, "CPU implementer"), part)
	}
	return ""
}

// mitigations returns the processor's security flaws, each with the kernel's countermeasure.
// Countermeasures make system calls slower.
func mitigations(root fs.FS) map[string]string {
	const folder = cpuFolder + "/vulnerabilities"
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, entry := range entries {
		state, err := readText(root, folder+"/"+entry.Name())
		if err != nil || state == "Not affected" {
			continue
		}
		state, _, _ = strings.Cut(state, ";")
		found[entry.Name()] = strings.TrimPrefix(state, "Mitigation: ")
	}
	return found
}

// virtualisation describes the virtual machine in which this process runs, or returns "".
func virtualisation(root fs.FS) string {
	var maker []string
	for _, name := range []string{"sys_vendor", "product_name"} {
		if text, err := readText(root, "sys/class/dmi/id/"+name); err == nil && text != "" {
			maker = append(maker, text)
		}
	}
	machine := strings.Join(maker, " ")
	if kind, err := readText(root, "sys/hypervisor/type"); err == nil {
		return strings.TrimSpace(kind + " guest " + machine)
	}
	cpuinfo, _ := readText(root, "proc/cpuinfo") // no flags after an error
	if slices.Contains(strings.Fields(valueOfLabel(cpuinfo, "flags")), "hypervisor") {
		return strings.TrimSpace("guest " + machine)
	}
	return ""
}

func containerSigns(root fs.FS) []string {
	var hints []string
	for _, marker := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(root, marker); err == nil {
			hints = append(hints, "/"+marker)
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		hints = append(hints, "KUBERNETES_SERVICE_HOST is set")
	}
	// In the first user namespace, each user number is mapped to itself.
	if ids, err := readText(root, "proc/self/uid_map"); err == nil &&
		strings.Join(strings.Fields(ids), " ") != "0 0 4294967295" {
		hints = append(hints, "inside a user namespace")
	}
	return hints
}

// kernelOption returns a build option of the running kernel, such as CONFIG_HZ. It returns "" if
// the option is not set.
func kernelOption(root fs.FS, release, name string) (string, error) {
	config, err := openKernelConfig(root, release)
	if err != nil {
		return "", err
	}
	defer config.Close()
	const maxBytes = 4 << 20 // safety limit; the usual size is 300 KiB
	lines := bufio.NewScanner(io.LimitReader(config, maxBytes))
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+"="); found {
			return value, nil
		}
	}
	return "", lines.Err()
}

func openKernelConfig(root fs.FS, release string) (io.ReadCloser, error) {
	if file, err := root.Open("boot/config-" + release); err == nil {
		return file, nil
	}
	file, err := root.Open("proc/config.gz")
	if err != nil {
		return nil, fmt.Errorf("the kernel's configuration is neither in /boot/config-%s nor in /proc/config.gz", release)
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack /proc/config.gz: %w", err), file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{unpacked, file}, nil
}
