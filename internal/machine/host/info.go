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

// Info describes the machine in a run's manifest. Missing names the fields that could not be read.
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

// IsMachineOf reports whether another description may be of the same machine, with as many
// resources. Kernel and Go may differ.
func (info *Info) IsMachineOf(other *Info) bool {
	type lasting struct {
		os, arch, model, virtualisation string
		cpus                            int
		quota                           float64
	}
	of := func(i *Info) lasting {
		return lasting{i.OS, i.Arch, i.CPUModel, i.Virtualisation, len(i.Topology.Allowed), i.Topology.QuotaCPUs}
	}
	const kernels = 0.05 // share of memory that kernels take for themselves
	differs := math.Abs(float64(info.MemoryBytes - other.MemoryBytes))
	return of(info) == of(other) && differs <= kernels*float64(info.MemoryBytes)
}

// InWords describes the machine in one line.
func (info *Info) InWords() string {
	return fmt.Sprintf("%s with %d CPUs, %s %s, Go %s", info.CPUModel, len(info.Topology.Allowed), info.OS, info.Kernel, strings.TrimPrefix(info.Go.Version, "go"))
}

// TCPInfo holds the kernel settings that a connection starts with.
type TCPInfo struct {
	CongestionControl string `json:"congestion_control,omitempty"`
	// ReceiveMemory and SendMemory are "least default most", in bytes.
	ReceiveMemory string `json:"receive_memory,omitempty"`
	SendMemory    string `json:"send_memory,omitempty"`
	ListenBacklog int    `json:"listen_backlog,omitempty"`
	// FirstPort and LastPort bound the ports of outgoing connections.
	FirstPort int `json:"first_port,omitempty"`
	LastPort  int `json:"last_port,omitempty"`
}

// GoInfo holds settings that change the behaviour of a Go program without its code.
type GoInfo struct {
	Version     string `json:"version"`
	GOMAXPROCS  int    `json:"gomaxprocs"`
	GOGC        string `json:"gogc,omitempty"`
	MemoryLimit int64  `json:"memory_limit_bytes"`
	GODEBUG     string `json:"godebug,omitempty"`
	Experiment  string `json:"goexperiment,omitempty"`
}

// FileLimit is RLIMIT_NOFILE: the descriptors, and so the connections, per process.
type FileLimit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Describe never fails: Info.Missing names what cannot be read. It takes a few milliseconds.
func Describe() Info { return describe(os.DirFS("/")) }

func describe(root fs.FS) Info {
	from := &facts{root: root}
	info := Info{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(), Go: describeGo()}
	allowed, err := AllowedCPUs()
	if err != nil {
		from.miss("CPU affinity", err)
	}
	if info.FileLimit, err = fileLimit(); err != nil {
		from.miss("descriptor limit", err)
	}
	if _, err := fs.Stat(root, "proc/self"); err != nil {
		// One note for all: naming every absent file would repeat this thirty times.
		from.missing = append(from.missing, "everything under /proc and /sys: "+runtime.GOOS+" has no procfs here")
		info.Topology = readTopology(&facts{root: root}, allowed)
	} else {
		info.Topology = readTopology(from, allowed)
		info.Topology.QuotaCPUs = readQuota(root, "self")
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
		from.miss("CPU model", errors.New("not named in /proc/cpuinfo"))
	}
	info.Governor = from.text(cpuFolder + "/cpu0/cpufreq/scaling_governor")
	info.Mitigations = mitigations(from.root)
	info.Virtualisation = virtualisation(from.root)
	info.Containers = containers(from.root)
}

func (info *Info) describeKernel(from *facts) {
	info.Kernel = from.text("proc/sys/kernel/osrelease")
	info.Clocksource = from.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if total := strings.Fields(labelled(from.text("proc/meminfo"), "MemTotal")); len(total) > 0 {
		kibibytes, _ := strconv.ParseInt(total[0], 10, 64)
		info.MemoryBytes = kibibytes * 1024
	}
	info.HugePages = chosen(from.text("sys/kernel/mm/transparent_hugepage/enabled"))
	if level, err := strconv.Atoi(from.text("proc/sys/kernel/perf_event_paranoid")); err == nil {
		info.PerfParanoid = &level
	}
	hz, err := kernelOption(from.root, info.Kernel, "CONFIG_HZ")
	if err != nil {
		from.miss("timer HZ", err)
		return
	}
	info.TimerHz, _ = strconv.Atoi(hz) // zero, "unknown", if the kernel's own file is odd
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
		// A negative limit only reports the one in force.
		MemoryLimit: debug.SetMemoryLimit(-1),
		GODEBUG:     os.Getenv("GODEBUG"),
		Experiment:  os.Getenv("GOEXPERIMENT"),
	}
}

// cpuModel finds the processor's name. Arm kernels print only numbers (MIDR_EL1), which still
// identify the model.
func cpuModel(cpuinfo string) string {
	if model := labelled(cpuinfo, "model name"); model != "" {
		return model
	}
	if part := labelled(cpuinfo, "CPU part"); part != "" {
		return fmt.Sprintf("implementer %s part %s", labelled(cpuinfo, "CPU implementer"), part)
	}
	return ""
}

// mitigations returns the processor flaws of this machine and the kernel's countermeasures, which
// make system calls more expensive.
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

// virtualisation returns the kind of this virtual machine or container, or "".
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
	cpuinfo, _ := readText(root, "proc/cpuinfo") // "" is treated as no sign
	if slices.Contains(strings.Fields(labelled(cpuinfo, "flags")), "hypervisor") {
		return strings.TrimSpace("guest " + machine)
	}
	return ""
}

// containers lists signs that this process has only a part of its machine.
func containers(root fs.FS) []string {
	var hints []string
	for _, marker := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(root, marker); err == nil {
			hints = append(hints, "/"+marker)
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		hints = append(hints, "KUBERNETES_SERVICE_HOST is set")
	}
	// Outside every user namespace the map is the identity over 32 bits.
	if ids, err := readText(root, "proc/self/uid_map"); err == nil &&
		strings.Join(strings.Fields(ids), " ") != "0 0 4294967295" {
		hints = append(hints, "inside a user namespace")
	}
	return hints
}

// kernelOption finds one setting of the running kernel's build, such as CONFIG_HZ; "": not set.
func kernelOption(root fs.FS, release, name string) (string, error) {
	config, err := openKernelConfig(root, release)
	if err != nil {
		return "", err
	}
	defer config.Close()
	const mostBytes = 4 << 20 // a full configuration takes 300 KiB
	lines := bufio.NewScanner(io.LimitReader(config, mostBytes))
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
		return nil, errors.New("the kernel's configuration is not published (/boot/config-*, /proc/config.gz)")
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
