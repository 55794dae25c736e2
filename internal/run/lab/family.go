package lab

import (
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/wire/service"
)

// findService returns the processes of a user's service, if it is on this machine: those that listen,
// and those that the user named (also).
func findService(defined, address string, also []int) []int {
	definition, err := service.Parse(defined)
	if err != nil {
		return nil // the client's worker will report the error
	}
	network := definition.Network
	if definition.Wire == service.HTTP3 || definition.Wire == service.GRPCH3 {
		network = "udp"
	}
	if definition.Addresses != nil && definition.Addresses.LookUp != nil {
		return nil // its processes may change
	}
	if network != "unix" && slices.ContainsFunc(definition.Addressed(), func(a string) bool { return !IsOwnAddress(a) }) {
		return nil
	}
	return append(host.FindListeners(network, address), also...)
}

// IsOwnAddress reports whether an address belongs to this machine.
func IsOwnAddress(address string) bool {
	name, _, err := net.SplitHostPort(address)
	if name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	if err != nil || ip == nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if network, is := a.(*net.IPNet); is && network.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// A serviceFamily reads the usage of a service's processes and all their descendants. Descendants may
// start and end meanwhile, as the processes of a database do for each connection.
type serviceFamily struct {
	ancestors []int
	except    []int // these processes and their descendants do not belong to it

	guard   sync.Mutex // guards the fields below
	last    map[int]probe.Usage
	ended   probe.Usage // counters of the processes that have ended
	foundAt time.Time
}

// findFamilyPeriod is the time between two searches for new descendants. A search takes 10 µs per
// process of the machine.
const findFamilyPeriod = time.Second

// newServiceFamily returns the family of some processes, without the families of except. table has the
// processes of now.
func newServiceFamily(table host.ProcessTable, ancestors []int, except ...int) *serviceFamily {
	f := &serviceFamily{ancestors: ancestors, except: except, last: map[int]probe.Usage{}}
	f.find(table)
	return f
}

// find adds new descendants. If the service started wirelab, wirelab and its workers are not among them.
func (f *serviceFamily) find(table host.ProcessTable) {
	own, except := table.Family(os.Getpid()), table.Families(f.except)
	pids := slices.DeleteFunc(table.Families(f.ancestors), func(pid int) bool { return slices.Contains(own, pid) })
	// A service that wirelab started has wirelab as its ancestor, too.
	pids = append(pids, table.Families(slices.DeleteFunc(slices.Clone(f.ancestors), func(pid int) bool { return !slices.Contains(own, pid) || pid == os.Getpid() }))...)
	for _, pid := range pids {
		if _, known := f.last[pid]; !known && !slices.Contains(except, pid) {
			f.last[pid] = probe.Usage{}
		}
	}
	f.foundAt = time.Now()
}

// processes returns the processes that have not ended.
func (f *serviceFamily) processes() []int {
	if f == nil {
		return nil
	}
	f.guard.Lock()
	defer f.guard.Unlock()
	return slices.Sorted(maps.Keys(f.last))
}

// startedSince returns how many processes the family has besides those of before, and whether any of before
// still runs.
func (f *serviceFamily) startedSince(before []int) (started int, running bool) {
	f.guard.Lock()
	f.find(host.ReadProcessTable())
	f.guard.Unlock()
	_, _ = f.read() // forgets those that have ended
	for _, pid := range f.processes() {
		if slices.Contains(before, pid) {
			running = true
		} else {
			started++
		}
	}
	return started, running
}

// read returns the summed usage. Processes that have ended keep their counters.
func (f *serviceFamily) read() (sum probe.Usage, err error) {
	if f == nil {
		return sum, nil
	}
	f.guard.Lock()
	defer f.guard.Unlock()
	if time.Since(f.foundAt) >= findFamilyPeriod {
		f.find(host.ReadProcessTable())
	}
	for pid, before := range f.last {
		now, wrong := probe.ReadProcess(pid)
		if wrong != nil {
			err = wrong
			f.ended = f.ended.Plus(before.WithoutGauges())
			delete(f.last, pid)
			continue
		}
		f.last[pid] = now
		sum = sum.Plus(now)
	}
	if len(f.last) == 0 {
		return sum, err
	}
	sum = sum.Plus(f.ended)
	sum.AtNS = clock.Now()
	return sum, nil
}
