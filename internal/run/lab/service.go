package lab

import (
	"net"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

// isService reports whether the trial calls a service of the user's own.
func (t *trial) isService() bool { return t.planned.Cell.Variant.Stack == service.Stack }

// findService finds the processes of a service of the user's own, if it is on this machine.
func (t *trial) findService(address string) *worker.Outsider {
	definition, err := service.Parse(t.planned.Cell.Definition)
	if err != nil {
		return nil // the client's worker will say so
	}
	network := definition.Network
	if definition.Wire == service.HTTP3 || definition.Wire == service.GRPCH3 {
		network = "udp"
	}
	if network != "unix" && !isOwnAddress(address) {
		return nil
	}
	pids := host.Listeners(network, address)
	if len(pids) == 0 {
		return nil
	}
	all := func() (probe.Usage, error) { return usageOf(pids) }
	return worker.Outside(pids[0], all)
}

// isOwnAddress reports whether an address belongs to this machine.
func isOwnAddress(address string) bool {
	name, _, err := net.SplitHostPort(address)
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

// usageOf returns what some processes used together. One that has ended is left out.
func usageOf(pids []int) (sum probe.Usage, err error) {
	alive := false
	for _, pid := range pids {
		one, wrong := probe.OfProcess(pid)
		if wrong != nil {
			err = wrong
			continue
		}
		alive, sum = true, sum.Plus(one)
	}
	if !alive {
		return sum, err
	}
	sum.AtNS = clock.Now()
	return sum, nil
}
