package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"wirelab.dev/internal/base/lists"
)

// A CPU is one hardware thread as the kernel numbers it.
type CPU struct {
	ID      int `json:"id"`
	Package int `json:"package"`
	Core    int `json:"core"`
	// Siblings are the other CPUs of the same core.
	Siblings []int `json:"siblings,omitempty"`
	// Capacity is the kernel's relative speed, 1024 for the fastest CPU; 0: unknown.
	Capacity   int  `json:"capacity,omitempty"`
	Efficiency bool `json:"efficiency,omitempty"`
}

// A Topology holds the input of [Place]: the CPUs, and those that this process may use.
type Topology struct {
	CPUs    []CPU `json:"cpus"`
	Allowed []int `json:"allowed"`
	// QuotaCPUs is the CPU time that the control groups grant, in CPUs; 0: no quota.
	QuotaCPUs float64 `json:"quota_cpus,omitempty"`
}

// Cores counts the physical cores.
func (t Topology) Cores() int {
	seen := map[int]bool{}
	for _, cpu := range t.CPUs {
		seen[cpu.core()] = true
	}
	return len(seen)
}

// core returns the lowest CPU of the physical core as its name: the kernel's own id is not unique.
func (c CPU) core() int {
	return slices.Min(append([]int{c.ID}, c.Siblings...))
}

const cpuFolder = "sys/devices/system/cpu"

// readTopology describes every CPU that is online. Without a topology in sysfs, each CPU counts as
// a separate core in one package.
func readTopology(from *facts, allowed []int) Topology {
	online, err := ParseCPUList(from.text(cpuFolder + "/online"))
	if err != nil || len(online) == 0 {
		online = allowed
	}
	if len(online) == 0 {
		for id := range runtime.NumCPU() {
			online = append(online, id)
		}
	}
	if len(allowed) == 0 {
		allowed = online
	}
	topology := Topology{Allowed: allowed}
	for _, id := range online {
		topology.CPUs = append(topology.CPUs, readCPU(from.root, id))
	}
	markEfficiency(from.root, topology.CPUs)
	return topology
}

func readCPU(root fs.FS, id int) CPU {
	folder := fmt.Sprintf("%s/cpu%d/", cpuFolder, id)
	list, _ := readText(root, folder+"topology/thread_siblings_list")
	siblings, _ := ParseCPUList(list) // an absent or odd list reads as "no siblings"
	return CPU{
		ID:       id,
		Package:  max(0, readInt(root, folder+"topology/physical_package_id", 0)),
		Core:     readInt(root, folder+"topology/core_id", id),
		Siblings: slices.DeleteFunc(siblings, func(other int) bool { return other == id }),
		Capacity: readInt(root, folder+"cpu_capacity", 0),
	}
}

// markEfficiency finds the slow cores of a hybrid processor. Intel lists them as a second PMU; on
// others they have less than four fifths of the greatest capacity, unlike favoured cores.
func markEfficiency(root fs.FS, cpus []CPU) {
	list, _ := readText(root, "sys/devices/cpu_atom/cpus")
	slow, _ := ParseCPUList(list)
	greatest := 0
	for _, cpu := range cpus {
		greatest = max(greatest, cpu.Capacity)
	}
	for i := range cpus {
		capacity := cpus[i].Capacity
		cpus[i].Efficiency = slices.Contains(slow, cpus[i].ID) ||
			capacity > 0 && capacity*5 < greatest*4
	}
}

// Placement lists each side's CPUs in rising order, disjoint except on a machine with one CPU, and
// what could not be granted.
type Placement struct {
	Server   []int    `json:"server"`
	Client   []int    `json:"client"`
	Warnings []string `json:"warnings,omitempty"`
}

// Place splits the allowed CPUs. The server gets a single CPU, so that it limits the trial and not
// the load: the highest-numbered of a fast core, because CPU 0 serves most interrupts. The clients
// get the CPUs of all other cores, if possible of the same package and speed.
func Place(topology Topology) Placement {
	p := &Placement{}
	cpus := drop(topology.CPUs, func(cpu CPU) bool { return !slices.Contains(topology.Allowed, cpu.ID) })
	cpus = p.onePackage(p.fast(cpus))
	used := 1
	switch len(cpus) {
	case 0:
		p.warn("no CPU is known to be allowed: nothing can be pinned")
		return *p
	case 1:
		p.Server, p.Client = ids(cpus), ids(cpus)
		p.warn("server and clients share CPU %d, the only one allowed: each slows the other down", cpus[0].ID)
	default:
		p.split(cpus)
		used += len(p.Client)
	}
	if quota := topology.QuotaCPUs; quota > 0 && quota < float64(used) {
		p.warn("a quota grants %.3g CPUs to the %d placed: the kernel will stop both sides for part of every period", quota, used)
	}
	return *p
}

func (p *Placement) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// fast leaves out the efficiency cores if two other CPUs remain.
func (p *Placement) fast(cpus []CPU) []CPU {
	fast := drop(cpus, isSlow)
	if len(fast) >= 2 || len(fast) == len(cpus) {
		return fast
	}
	p.warn("efficiency cores are used: %d fast CPUs are allowed", len(fast))
	return cpus
}

// onePackage keeps both sides in the package with the most cores, if one has enough.
func (p *Placement) onePackage(cpus []CPU) []CPU {
	packages := lists.GroupBy(cpus, func(cpu CPU) int { return cpu.Package })
	if len(packages) < 2 {
		return cpus
	}
	largest := slices.MaxFunc(packages, func(a, b []CPU) int {
		return cmp.Or(cmp.Compare(countCores(a), countCores(b)), cmp.Compare(b[0].Package, a[0].Package))
	})
	const needed = 2
	if countCores(largest) >= needed {
		return largest
	}
	p.warn("server and clients span %d packages: no single one has %d cores allowed", len(packages), needed)
	return cpus
}

// split gives the server the first thread of the highest fast core, and the clients the other cores.
func (p *Placement) split(cpus []CPU) {
	candidates := drop(cpus, isSlow)
	if len(candidates) == 0 {
		candidates = cpus
	}
	server := slices.MaxFunc(candidates, func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.core(), b.core()), cmp.Compare(b.ID, a.ID))
	})
	clients := drop(cpus, func(cpu CPU) bool { return cpu.core() == server.core() })
	if len(clients) == 0 {
		p.warn("server and clients share a physical core: too few other cores are allowed")
		clients = drop(cpus, func(cpu CPU) bool { return cpu.ID == server.ID })
	}
	p.Server, p.Client = []int{server.ID}, ids(clients)
}

func isSlow(cpu CPU) bool { return cpu.Efficiency }

func drop(cpus []CPU, which func(CPU) bool) []CPU {
	return slices.DeleteFunc(slices.Clone(cpus), which)
}

func countCores(cpus []CPU) int { return Topology{CPUs: cpus}.Cores() }

func ids(cpus []CPU) []int {
	list := lists.Map(cpus, func(cpu CPU) int { return cpu.ID })
	slices.Sort(list)
	return list
}
