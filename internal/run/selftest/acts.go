package selftest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/run/worker"
)

// workerNice is the nice value of wirelab's workers. A process with the same nice value gets as
// much CPU time as a worker.
const workerNice = -20

// Short names for the roles of workers.
const (
	serverRole = worker.ServerRole
	clientRole = worker.ClientRole
)

// cpusOf returns the CPUs on which the worker with a role runs.
func (s *Stage) cpusOf(role worker.Role) []int {
	if role == worker.ServerRole {
		return s.lab.Placement.Server
	}
	return s.lab.Placement.Client
}

// changeLaunch calls change before the lab starts the worker with a role.
func changeLaunch(role worker.Role, change func(*Stage, *worker.Launch)) stageAction {
	return func(s *Stage) error {
		s.onLaunchOf(role, func(l *worker.Launch) { change(s, l) })
		return nil
	}
}

// doInWindow calls a function after the measured window has opened.
func doInWindow(do func(*Stage)) stageAction {
	return func(s *Stage) error {
		s.whenWindowOpens(func() { do(s) })
		return nil
	}
}

// runDisturber starts a process that disturbs the trial.
func runDisturber(p player, in host.StartOptions) stageAction {
	return func(s *Stage) error {
		_, err := s.start(p, in)
		return err
	}
}

// runOnCPUsOf starts a disturbing process on the CPUs of the worker with a role.
func runOnCPUsOf(role worker.Role, nice int, p player) stageAction {
	return func(s *Stage) error {
		a, err := s.start(p, host.StartOptions{CPUs: s.cpusOf(role), Nice: nice})
		// With fewer CPUs or a lower priority, the process would disturb too little.
		if err == nil && len(a.warnings) > 0 {
			err = errors.New(a.warnings[0])
		}
		return err
	}
}

// limitCPU limits the CPU time of the worker with a role to the time of this number of CPUs.
func limitCPU(role worker.Role, cpus float64) stageAction {
	return func(s *Stage) error {
		folder, err := host.NewQuotaGroup(controlGroupName(), cpus)
		if err != nil {
			return err
		}
		s.onLaunchOf(role, func(l *worker.Launch) {
			// Joining the group fails only if the worker has ended.
			l.OnStart = func(pid int) { _ = host.JoinControlGroup(folder, pid) }
		})
		return nil
	}
}

// setVariable sets an environment variable of the worker with a role.
func setVariable(role worker.Role, setting string) stageAction {
	return changeLaunch(role, func(_ *Stage, l *worker.Launch) { l.Env = append(l.Env, setting) })
}

// startOnCPUsOf starts the worker with one role on the CPUs of the worker with the other role.
func startOnCPUsOf(role, other worker.Role) stageAction {
	return changeLaunch(role, func(s *Stage, l *worker.Launch) { l.In.CPUs = s.cpusOf(other) })
}

// moveInWindow moves one worker to the CPUs of the other worker, after the window has opened.
func moveInWindow(role, other worker.Role) stageAction {
	return doInWindow(func(s *Stage) { _ = moveToCPUs(s.pid(role), s.cpusOf(other)) })
}

// pauseWorkers stops workers for a time after the window has opened, and then continues them.
func pauseWorkers(d time.Duration, roles ...worker.Role) stageAction {
	return doInWindow(func(s *Stage) {
		for _, role := range roles {
			go pauseProcess(s.pid(role), d) // ends after the time d
		}
		time.Sleep(2 * d)
	})
}

// pauseBystander stops, for a time in the window, a process that has no part in the trial.
func pauseBystander(d time.Duration) stageAction {
	return func(s *Stage) error {
		bystander, err := s.start(&idlePlayer{}, host.StartOptions{})
		s.whenWindowOpens(func() { pauseProcess(bystander.pid, d) })
		return err
	}
}

// putProxyBetween puts a proxy between client and server. The proxy uses the server's CPUs.
func putProxyBetween(p proxyPlayer) stageAction {
	return changeLaunch(clientRole, func(s *Stage, l *worker.Launch) {
		to := p
		to.To = l.Spec.Address
		actor, err := s.start(&to, host.StartOptions{CPUs: s.lab.Placement.Server, Nice: s.lab.Nice})
		s.failed, l.Spec.Address = err, actor.address
	})
}

// replaceServer makes the client call the disturbing process's server, not the lab's server.
func replaceServer(p player) stageAction {
	return func(s *Stage) error {
		actor, err := s.start(p, host.StartOptions{CPUs: s.lab.Placement.Server, Nice: s.lab.Nice})
		s.lab.Targets = map[string]string{s.cell.variant: actor.address}
		return err
	}
}

// replaceServerWithEcho makes the client call an echo server over tcp that has the given faults.
func replaceServerWithEcho(player serverPlayer) stageAction {
	player.Variant, player.Workload, player.RequestBytes, player.ResponseBytes = "tcp", "echo", 64, 64
	return replaceServer(&player)
}

// pageOutClient repeatedly removes the client's program from memory while the window is open. The
// client runs a copy of the program, since pages that several processes use stay in memory.
func pageOutClient(how func(pid int) error) stageAction {
	return func(s *Stage) error {
		copied := filepath.Join(s.directory, "client")
		if err := copyProgram(copied, s.lab.Worker[0]); err != nil {
			return err
		}
		s.onLaunchOf(worker.ClientRole, func(l *worker.Launch) {
			l.Command = slices.Concat([]string{copied}, l.Command[1:])
		})
		s.whenWindowOpens(func() {
			for s.ctx.Err() == nil && how(s.pid(worker.ClientRole)) == nil {
				time.Sleep(20 * time.Millisecond)
			}
		})
		return nil
	}
}

// copyProgram copies a program and writes the copy to disk. Only pages on disk can leave memory.
func copyProgram(to, from string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = target.Write(program)
	return errors.Join(err, target.Sync(), target.Close())
}

// enterBeforeStart calls enter in the thread that then starts the worker with a role. For example,
// enter can move the thread into a namespace.
func enterBeforeStart(role worker.Role, enter func(*Stage) error) stageAction {
	return changeLaunch(role, func(s *Stage, l *worker.Launch) {
		before := l.In.Enter
		l.In.Enter = func() error {
			if before != nil {
				if err := before(); err != nil {
					return err
				}
			}
			return enter(s)
		}
	})
}

// useNameServer makes the client look up the server's name at a name server with a delay.
func useNameServer(delay time.Duration) stageAction {
	// The name server has an address of its own, because it must use port 53: resolv.conf(5).
	const server = "127.53.53.53"
	return func(s *Stage) error {
		_, err := s.start(&nameServerPlayer{Listen: server + ":53", Delay: delay}, host.StartOptions{})
		s.onLaunchOf(worker.ClientRole, func(l *worker.Launch) {
			l.Spec.Address = strings.Replace(l.Spec.Address, "127.0.0.1", "server.wirelab.test", 1)
		})
		if err != nil {
			return err
		}
		return enterBeforeStart(worker.ClientRole, func(s *Stage) error { return enterNameServerNamespace(server, s.directory) })(s)
	}
}

// denyHugePages prevents both workers from using huge pages.
func denyHugePages(s *Stage) error {
	undo, err := disableHugePages()
	if err == nil {
		s.atEnd(undo)
	}
	return err
}

// keepDiskBusy writes to the disk on which the samples are stored.
func keepDiskBusy(busy diskPlayer) stageAction {
	return func(s *Stage) error {
		busy.File = filepath.Join(s.directory, "disk")
		return runDisturber(&busy, host.StartOptions{CPUs: s.lab.Placement.Server, Nice: 19})(s)
	}
}

// stepClockInWindow moves the wall clock after the window has opened, and back after 50 ms.
func stepClockInWindow(by time.Duration) stageAction {
	return doInWindow(func(*Stage) {
		if stepClock(by) == nil {
			time.Sleep(50 * time.Millisecond)
			_ = stepClock(-by)
		}
	})
}

// runSecondLab measures something else with a second lab during the trial.
func runSecondLab(s *Stage) error {
	return runDisturber(&labPlayer{Worker: s.lab.Worker, Folder: filepath.Join(s.directory, "beside")}, host.StartOptions{})(s)
}

// runBystander starts a process that only waits and so disturbs nothing.
var runBystander = runDisturber(&idlePlayer{}, host.StartOptions{})

// measureVariant makes the trial measure another variant.
func measureVariant(text string) stageAction {
	return func(s *Stage) error { s.cell.variant = text; return nil }
}

// offerRate sets another rate of requests for the trial.
func offerRate(perSecond float64) stageAction {
	return func(s *Stage) error { s.cell.load.Rate = perSecond; return nil }
}

// useClients sets another number of clients for the trial.
func useClients(n int) stageAction {
	return func(s *Stage) error { s.cell.clients = n; return nil }
}

// lowerFrequency lowers the CPUs' maximum frequency to a share of its value, in the window.
func lowerFrequency(share float64) stageAction {
	return func(s *Stage) error {
		limits, err := filepath.Glob("/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq")
		if err != nil {
			return err
		}
		for _, limit := range limits {
			before, err := os.ReadFile(limit)
			if err != nil {
				return err
			}
			hertz, err := strconv.Atoi(strings.TrimSpace(string(before)))
			if err != nil {
				return err
			}
			s.atEnd(func() error { return os.WriteFile(limit, before, 0) })
			s.whenWindowOpens(func() {
				// If this fails, the frequency stays, and the verdict shows that.
				_ = os.WriteFile(limit, []byte(strconv.Itoa(int(float64(hertz)*share))), 0)
			})
		}
		return nil
	}
}

// errNotSupported is the error of a disturbance that this operating system does not support.
var errNotSupported = host.ErrUnsupported

func needsLinux(machineInfo) string {
	if runtime.GOOS != "linux" {
		return "needs Linux"
	}
	return ""
}

func needsRoot(machineInfo) string {
	if os.Geteuid() != 0 {
		return "needs root: run `sudo wirelab selftest`"
	}
	return ""
}

// needsSeparateCPUs returns a reason if the server and the client share their first CPU.
func needsSeparateCPUs(m machineInfo) string {
	if len(m.placement.Server) == 0 || len(m.placement.Client) == 0 || m.placement.Server[0] == m.placement.Client[0] {
		return "needs two CPUs: server and client share one CPU here"
	}
	return ""
}

// needsManyClientCPUs returns a reason if the client has fewer than two CPUs.
func needsManyClientCPUs(m machineInfo) string {
	if n := len(m.placement.Client); n < 2 {
		return fmt.Sprintf("needs at least two CPUs for the client: on this machine the client has %d", n)
	}
	return ""
}

func needsCPUQuota(machineInfo) string {
	folder, err := host.NewQuotaGroup(controlGroupName(), 1)
	if err != nil {
		return "needs control groups with a CPU quota: " + err.Error()
	}
	if err := removeGroup(folder); err != nil {
		return "a test control group cannot be removed: " + err.Error()
	}
	return ""
}

func needsNetworks(machineInfo) string {
	if err := link.CheckSupport(); err != nil {
		return "needs network namespaces: " + err.Error()
	}
	return ""
}

func needsFrequency(machineInfo) string {
	// Glob fails only for an invalid pattern.
	governors, _ := filepath.Glob("/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq")
	if len(governors) == 0 {
		return "needs CPUs with a settable frequency (/sys/devices/system/cpu/cpufreq)"
	}
	return ""
}

// needsConsent returns a reason if the user has not allowed disturbing the whole machine.
func needsConsent(m machineInfo) string {
	if !m.wide {
		return "disturbs every program on the machine: allow this with --machine-wide"
	}
	return ""
}
