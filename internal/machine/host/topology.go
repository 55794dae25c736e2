package host

import (
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
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
	lowest := c.ID
	for _, sibling := range c.Siblings {
		lowest = min(lowest, sibling)
	}
	return lowest
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
	siblings := []int{}
	if list, err := readText(root, folder+"topology/thread_siblings_list"); err == nil {
		siblings, _ = ParseCPUList(list) // an odd list reads as "no siblings"
	}
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
	slow := []int{}
	if list, err := readText(root, "sys/devices/cpu_atom/cpus"); err == nil {
		slow, _ = ParseCPUList(list)
	}
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

func readInt(root fs.FS, path string, absent int) int {
	content, err := readText(root, path)
	if err != nil {
		return absent
	}
	value, err := strconv.Atoi(content)
	if err != nil {
		return absent
	}
	return value
}
