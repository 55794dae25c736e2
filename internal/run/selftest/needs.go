package selftest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

// errNotHere means that this system cannot stage a disturbance.
var errNotHere = host.ErrUnsupported

// A machine holds what a situation may need.
type machine struct {
	placement host.Placement
	// wide allows disturbances of all programs of the machine.
	wide bool
}

// A need returns the reason why a situation cannot be staged here, or "".
type need func(machine) string

func linux(machine) string {
	if runtime.GOOS != "linux" {
		return "it takes Linux"
	}
	return ""
}

func root(machine) string {
	if os.Geteuid() != 0 {
		return "it takes root: run `sudo wirelab selftest`"
	}
	return ""
}

// cpusApart needs CPUs that only one of the ends has.
func cpusApart(m machine) string {
	if len(m.placement.Server) == 0 || len(m.placement.Client) == 0 || m.placement.Server[0] == m.placement.Client[0] {
		return "it takes two CPUs: server and client share the only one"
	}
	return ""
}

// manyClientCPUs needs clients that may use several CPUs.
func manyClientCPUs(m machine) string {
	if n := len(m.placement.Client); n < 2 {
		return fmt.Sprintf("it takes two CPUs for the clients, here they have %d", n)
	}
	return ""
}

func quotas(machine) string {
	folder, err := host.NewQuotaGroup(groupName(), 1)
	if err != nil {
		return "it takes control groups with a CPU quota: " + err.Error()
	}
	if err := removeGroup(folder); err != nil {
		return "the control group that was tried cannot be removed: " + err.Error()
	}
	return ""
}

func ownNetworks(machine) string {
	if err := link.Check(); err != nil {
		return "it takes network namespaces: " + err.Error()
	}
	return ""
}

func frequencies(machine) string {
	governors, _ := filepath.Glob("/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq") // none: the reason below
	if len(governors) == 0 {
		return "this machine does not let its CPUs' frequency be set (no /sys/devices/system/cpu/cpufreq)"
	}
	return ""
}

// consent needs permission to disturb all programs of the machine.
func consent(m machine) string {
	if !m.wide {
		return "it would disturb every program on the machine: allow it with --machine-wide"
	}
	return ""
}
