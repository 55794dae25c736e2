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
	// Capacity is the kernel's relative speed, 1024 for the fastest CPU of the
	// machine; 0 where the kernel does not say.
	Capacity   int  `json:"capacity,omitempty"`
	Efficiency bool `json:"efficiency,omitempty"`
}

// A Topology holds what [Place] needs to know about a machine: its CPUs, and
// which CPUs, and how much CPU time, this process may use.
type Topology struct {
	CPUs    []CPU `json:"cpus"`
	Allowed []int `json:"allowed"`
	// QuotaCPUs is the CPU time that the control groups grant, counted in
	// whole CPUs; 0 means no quota.
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

// core names the physical core by its lowest CPU. The kernel's own core id is
// unique within a package, or within a die, only.
func (c CPU) core() int {
	return slices.Min(append([]int{c.ID}, c.Siblings...))
}

const cpuFolder = "sys/devices/system/cpu"

// readTopology describes every CPU that is online. If sysfs has no topology, each CPU
// counts as a separate core in one package.
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
	siblings, _ := ParseCPUList(list) // one that is absent or odd reads as "no siblings"
	return CPU{
		ID:       id,
		Package:  max(0, readInt(root, folder+"topology/physical_package_id", 0)),
		Core:     readInt(root, folder+"topology/core_id", id),
		Siblings: slices.DeleteFunc(siblings, func(other int) bool { return other == id }),
		Capacity: readInt(root, folder+"cpu_capacity", 0),
	}
}

// markEfficiency finds the slow cores of a hybrid processor. Intel lists them
// as a second PMU; elsewhere a capacity under four fifths of the greatest
// marks them, which leaves favoured cores (a few per cent apart) together.
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

// Want holds the number of CPUs that each side wants.
type Want struct {
	// Server is the number of CPUs of the server; 0 means one, as in the kernel
	// study, so that the server is the limit and not the load.
	Server int
	// Client is the number of CPUs of the clients; 0 means all that are left.
	Client int
}

// Placement lists each side's CPUs in rising order; Warnings say what could not be
// granted. Server and Client are disjoint except on a machine with one CPU.
type Placement struct {
	Server   []int    `json:"server"`
	Client   []int    `json:"client"`
	Warnings []string `json:"warnings,omitempty"`
}

// Place splits the allowed CPUs between server and clients. It prefers, in
// this order: fast cores, one package, whole cores for the server. The server
// takes the highest-numbered cores, because CPU 0 serves most interrupts.
func Place(topology Topology, want Want) Placement {
	p := placing{want: Want{Server: max(1, want.Server), Client: max(0, want.Client)}}
	p.candidates = p.fast(drop(topology.CPUs, func(cpu CPU) bool { return !slices.Contains(topology.Allowed, cpu.ID) }))
	p.candidates = p.onePackage(p.candidates)
	if len(p.candidates) == 0 {
		p.warn("no CPU is known to be allowed: nothing can be pinned")
		return p.placement
	}
	if len(p.candidates) == 1 {
		only := p.candidates[0].ID
		p.warn("server and clients share CPU %d, the only one allowed: each slows the other down", only)
		p.placement.Server, p.placement.Client = []int{only}, []int{only}
	} else {
		p.split()
	}
	p.checkQuota(topology.QuotaCPUs)
	return p.placement
}

type placing struct {
	want       Want
	candidates []CPU
	placement  Placement
}

func (p *placing) warn(format string, args ...any) {
	p.placement.Warnings = append(p.placement.Warnings, fmt.Sprintf(format, args...))
}

// fast leaves the efficiency cores out while two other CPUs remain.
func (p *placing) fast(cpus []CPU) []CPU {
	fast := drop(cpus, func(cpu CPU) bool { return cpu.Efficiency })
	if len(fast) >= 2 || len(fast) == len(cpus) {
		return fast
	}
	p.warn("efficiency cores are used: %d fast CPUs are allowed", len(fast))
	return cpus
}

// onePackage keeps both sides in the package with the most cores, so that a
// trip between sockets is not part of what is measured.
func (p *placing) onePackage(cpus []CPU) []CPU {
	packages := map[int][]CPU{}
	for _, cpu := range cpus {
		packages[cpu.Package] = append(packages[cpu.Package], cpu)
	}
	if len(packages) < 2 {
		return cpus
	}
	var largest []CPU
	for _, members := range packages {
		if c := cmp.Compare(countCores(members), countCores(largest)); c > 0 ||
			c == 0 && members[0].Package < largest[0].Package {
			largest = members
		}
	}
	needed := p.want.Server + max(1, p.want.Client)
	if countCores(largest) >= needed {
		return largest
	}
	p.warn("server and clients span %d packages: no single one has %d cores allowed", len(packages), needed)
	return cpus
}

// split gives the server the highest cores and the clients the rest.
func (p *placing) split() {
	order := slices.Clone(p.candidates)
	slices.SortFunc(order, byServerPreference)
	serverCount := min(p.want.Server, len(order)-1)
	if serverCount < p.want.Server {
		p.warn("the server has %d CPUs, not %d: one is kept for the clients", serverCount, p.want.Server)
	}
	server := order[len(order)-serverCount:]
	if countCores(order) > serverCount {
		server = takeSpread(order, serverCount)
	}
	clients := without(order, server)
	apart := withoutSiblings(clients, server)
	if len(apart) >= max(1, p.want.Client) || len(apart) == len(clients) {
		clients = apart
	} else {
		p.warn("server and clients share a physical core: too few other cores are allowed")
	}
	if p.want.Client > len(clients) {
		p.warn("the clients have %d CPUs, not %d", len(clients), p.want.Client)
	} else if p.want.Client > 0 {
		clients = takeSpread(clients, p.want.Client)
	}
	p.placement.Server, p.placement.Client = ids(server), ids(clients)
}

// byServerPreference sorts the CPUs that the server prefers to the end: fast cores
// after slow ones, then by core, the first thread of a core after its others.
func byServerPreference(a, b CPU) int {
	speed := func(cpu CPU) int {
		if cpu.Efficiency {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(speed(a), speed(b)), cmp.Compare(a.core(), b.core()), cmp.Compare(b.ID, a.ID))
}

func (p *placing) checkQuota(quotaCPUs float64) {
	used := len(p.placement.Server)
	if len(p.candidates) > 1 {
		used += len(p.placement.Client)
	}
	if quotaCPUs > 0 && quotaCPUs < float64(used) {
		p.warn("a quota grants %.3g CPUs to the %d placed: the kernel will stop both sides for part of every period", quotaCPUs, used)
	}
}

// takeSpread takes count CPUs from the end, from a new core each time while
// there are any.
func takeSpread(order []CPU, count int) []CPU {
	var taken []CPU
	for len(taken) < count {
		rest := without(order, taken)
		if spread := withoutSiblings(rest, taken); len(spread) > 0 {
			rest = spread
		}
		taken = append(taken, rest[len(rest)-1])
	}
	return taken
}

func without(cpus, excluded []CPU) []CPU {
	return drop(cpus, func(cpu CPU) bool {
		return slices.ContainsFunc(excluded, func(other CPU) bool { return other.ID == cpu.ID })
	})
}

func withoutSiblings(cpus, of []CPU) []CPU {
	return drop(cpus, func(cpu CPU) bool {
		return slices.ContainsFunc(of, func(other CPU) bool { return other.core() == cpu.core() })
	})
}

func drop(cpus []CPU, which func(CPU) bool) []CPU {
	return slices.DeleteFunc(slices.Clone(cpus), which)
}

func countCores(cpus []CPU) int { return Topology{CPUs: cpus}.Cores() }

func ids(cpus []CPU) []int {
	list := lists.Map(cpus, func(cpu CPU) int { return cpu.ID })
	slices.Sort(list)
	return list
}
