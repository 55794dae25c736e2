package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"wirelab.dev/internal/base/lists"
)

// A CPU describes one hardware thread.
type CPU struct {
	ID      int `json:"id"`
	Package int `json:"package"`
	Core    int `json:"core"`
	// Siblings are the other CPUs of the same core.
	Siblings []int `json:"siblings,omitempty"`
	// Capacity is the relative speed that the kernel assumes. The fastest CPU has 1024. 0 means
	// unknown.
	Capacity   int  `json:"capacity,omitempty"`
	Efficiency bool `json:"efficiency,omitempty"`
}

// A Topology lists the CPUs of the machine, and the CPUs that this process may use.
type Topology struct {
	CPUs    []CPU `json:"cpus"`
	Allowed []int `json:"allowed"`
	// QuotaCPUs is the quota of the control groups, in CPUs. 0 means no quota.
	QuotaCPUs float64 `json:"quota_cpus,omitempty"`
}

// Cores returns the number of physical cores.
func (t Topology) Cores() int {
	seen := map[int]bool{}
	for _, cpu := range t.CPUs {
		seen[cpu.lowestSibling()] = true
	}
	return len(seen)
}

// lowestSibling returns the lowest CPU number of the core. It identifies the core. The field Core
// does not, because it is not unique.
func (c CPU) lowestSibling() int {
	return slices.Min(append([]int{c.ID}, c.Siblings...))
}

const cpuFolder = "sys/devices/system/cpu"

// readTopology describes all CPUs that are online. Without a topology in sysfs, each CPU counts as
// a separate core.
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
	markEfficiencyCores(from.root, topology.CPUs)
	return topology
}

func readCPU(root fs.FS, id int) CPU {
	folder := fmt.Sprintf("%s/cpu%d/", cpuFolder, id)
	list, _ := readText(root, folder+"topology/thread_siblings_list")
	siblings, _ := ParseCPUList(list) // no siblings after an error
	return CPU{
		ID:       id,
		Package:  max(0, readInt(root, folder+"topology/physical_package_id", 0)),
		Core:     readInt(root, folder+"topology/core_id", id),
		Siblings: slices.DeleteFunc(siblings, func(other int) bool { return other == id }),
		Capacity: readInt(root, folder+"cpu_capacity", 0),
	}
}

// markEfficiencyCores marks the slow cores of a hybrid processor. On Intel, the file cpu_atom lists
// the slow cores. On other processors they have less than four fifths of the highest capacity.
func markEfficiencyCores(root fs.FS, cpus []CPU) {
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

// A Placement lists the CPUs of the server and of the clients. The two lists have no CPU in common,
// unless only one CPU is allowed.
type Placement struct {
	Server   []int    `json:"server"`
	Client   []int    `json:"client"`
	Warnings []string `json:"warnings,omitempty"`
}

// Place divides the allowed CPUs between server and clients. The server gets one CPU, so that the
// server and not the clients limits the throughput. This CPU is on the fast core with the highest
// number, because CPU 0 handles most interrupts. The clients get the CPUs of all other cores, if
// possible of the same package and speed.
func Place(topology Topology) Placement {
	p := &Placement{}
	cpus := withoutCPUs(topology.CPUs, func(cpu CPU) bool { return !slices.Contains(topology.Allowed, cpu.ID) })
	cpus = p.keepOnePackage(p.dropSlowCPUs(cpus))
	used := 1
	switch len(cpus) {
	case 0:
		p.warn("the allowed CPUs are unknown: wirelab cannot pin server and clients to CPUs")
		return *p
	case 1:
		p.Server, p.Client = sortedIDs(cpus), sortedIDs(cpus)
		p.warn("server and clients share CPU %d, the only allowed CPU, and slow each other down", cpus[0].ID)
	default:
		p.splitCPUs(cpus)
		used += len(p.Client)
	}
	if quota := topology.QuotaCPUs; quota > 0 && quota < float64(used) {
		p.warn("the CPU quota is %.3g CPUs, but server and clients use %d: the kernel will stop them for a part of every period", quota, used)
	}
	return *p
}

// OneEach returns a placement in which each end has one of its CPUs.
func (p Placement) OneEach() Placement {
	p.Server, p.Client = p.Server[:min(1, len(p.Server))], p.Client[:min(1, len(p.Client))]
	return p
}

// Shared returns a placement in which both ends have the CPUs of both.
func (p Placement) Shared() Placement {
	all := slices.Concat(p.Server, p.Client)
	slices.Sort(all)
	p.Server = slices.Compact(all)
	p.Client = slices.Clone(p.Server)
	return p
}

func (p *Placement) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

func (p *Placement) dropSlowCPUs(cpus []CPU) []CPU {
	fast := withoutCPUs(cpus, isSlow)
	if len(fast) >= 2 || len(fast) == len(cpus) {
		return fast
	}
	p.warn("efficiency cores are used, because only %d fast CPUs are allowed", len(fast))
	return cpus
}

// keepOnePackage returns the CPUs of the package with the most cores, if that has at least two.
func (p *Placement) keepOnePackage(cpus []CPU) []CPU {
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
	p.warn("server and clients use %d processor packages, because no package has %d allowed cores", len(packages), needed)
	return cpus
}

// splitCPUs gives the server the first CPU of the fast core with the highest number. It gives the
// clients the other cores.
func (p *Placement) splitCPUs(cpus []CPU) {
	candidates := withoutCPUs(cpus, isSlow)
	if len(candidates) == 0 {
		candidates = cpus
	}
	server := slices.MaxFunc(candidates, func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.lowestSibling(), b.lowestSibling()), cmp.Compare(b.ID, a.ID))
	})
	clients := withoutCPUs(cpus, func(cpu CPU) bool { return cpu.lowestSibling() == server.lowestSibling() })
	if len(clients) == 0 {
		p.warn("server and clients share a physical core, because no other core is allowed")
		clients = withoutCPUs(cpus, func(cpu CPU) bool { return cpu.ID == server.ID })
	}
	p.Server, p.Client = []int{server.ID}, sortedIDs(clients)
}

func isSlow(cpu CPU) bool { return cpu.Efficiency }

func withoutCPUs(cpus []CPU, which func(CPU) bool) []CPU {
	return slices.DeleteFunc(slices.Clone(cpus), which)
}

func countCores(cpus []CPU) int { return Topology{CPUs: cpus}.Cores() }

func sortedIDs(cpus []CPU) []int {
	list := lists.Map(cpus, func(cpu CPU) int { return cpu.ID })
	slices.Sort(list)
	return list
}
