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

// asWorkers is the nice value of the lab's workers: a disturber with it gets as much CPU time.
const asWorkers = -20

// Short names of the ends.
const (
	server = worker.ServerRole
	client = worker.ClientRole
)

// cpusOf returns the CPUs of a role's worker.
func (s *Stage) cpusOf(role worker.Role) []int {
	if role == worker.ServerRole {
		return s.lab.Placement.Server
	}
	return s.lab.Placement.Client
}

// launched changes how the worker of a role is launched.
func launched(role worker.Role, change func(*Stage, *worker.Launch)) act {
	return func(s *Stage) error {
		s.onLaunchOf(role, func(l *worker.Launch) { change(s, l) })
		return nil
	}
}

// inWindow does something when the window is open.
func inWindow(do func(*Stage)) act {
	return func(s *Stage) error {
		s.whenWindowOpens(func() { do(s) })
		return nil
	}
}

// started runs a disturber.
func started(p player, in host.Surroundings) act {
	return func(s *Stage) error {
		_, err := s.start(p, in)
		return err
	}
}

// beside runs a disturber on the CPUs of a role's worker.
func beside(role worker.Role, nice int, p player) act {
	return func(s *Stage) error {
		a, err := s.start(p, host.Surroundings{CPUs: s.cpusOf(role), Nice: nice})
		if err == nil && len(a.warnings) > 0 { // with fewer CPUs or a lower priority it would disturb less
			err = errors.New(a.warnings[0])
		}
		return err
	}
}

// quota limits the CPU time of a role's worker, in CPUs.
func quota(role worker.Role, cpus float64) act {
	return func(s *Stage) error {
		folder, err := host.NewQuotaGroup(groupName(), cpus)
		if err != nil {
			return err
		}
		s.onLaunchOf(role, func(l *worker.Launch) {
			l.OnStart = func(pid int) { _ = host.JoinGroup(folder, pid) } // fails if the worker has ended: then there is nothing to disturb
		})
		return nil
	}
}

// environment sets a variable of the worker of a role.
func environment(role worker.Role, setting string) act {
	return launched(role, func(_ *Stage, l *worker.Launch) { l.Env = append(l.Env, setting) })
}

// onCPUsOf starts the worker of a role on the CPUs of another.
func onCPUsOf(role, other worker.Role) act {
	return launched(role, func(s *Stage, l *worker.Launch) { l.In.CPUs = s.cpusOf(other) })
}

// movedTo moves the worker of a role to the CPUs of another when the window is open.
func movedTo(role, other worker.Role) act {
	return inWindow(func(s *Stage) { _ = moveTo(s.pid(role), s.cpusOf(other)) })
}

// paused stops the workers of the roles once in the window. The end of the stage continues them
// too: a stopped worker cannot end.
func paused(d time.Duration, roles ...worker.Role) act {
	return inWindow(func(s *Stage) {
		for _, role := range roles {
			go pause(s.pid(role), d) // ends after d
		}
		time.Sleep(2 * d)
	})
}

// bystanderPaused pauses a process that takes no part in the trial.
func bystanderPaused(d time.Duration) act {
	return func(s *Stage) error {
		bystander, err := s.start(&idle{}, host.Surroundings{})
		s.whenWindowOpens(func() { pause(bystander.pid, d) })
		return err
	}
}

// through puts a proxy between client and server, on the server's CPUs.
func through(p proxy) act {
	return launched(client, func(s *Stage, l *worker.Launch) {
		to := p
		to.To = l.Spec.Address
		actor, err := s.start(&to, host.Surroundings{CPUs: s.lab.Placement.Server, Nice: s.lab.Nice})
		s.failed, l.Spec.Address = err, actor.address
	})
}

// served lets a foreign server answer in place of the lab's own.
func served(p player) act {
	return func(s *Stage) error {
		actor, err := s.start(p, host.Surroundings{CPUs: s.lab.Placement.Server, Nice: s.lab.Nice})
		s.lab.Targets = map[string]string{s.cell.variant: actor.address}
		return err
	}
}

// servedEcho serves echo over tcp, with handlers that follow the given fields of serve.
func servedEcho(fields serve) act {
	fields.Variant, fields.Workload, fields.RequestBytes, fields.ResponseBytes = "tcp", "echo", 64, 64
	return served(&fields)
}

// pagedOut takes the client's program out of memory, again and again in the window. The
// client gets a copy of the program, because pages that others have mapped stay.
func pagedOut(how func(pid int) error) act {
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

// copyProgram writes the copy to disk: only pages that are on disk can be taken out of memory.
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

// entered lets the worker of a role start from a thread that has entered something.
func entered(role worker.Role, enter func(*Stage) error) act {
	return launched(role, func(s *Stage, l *worker.Launch) {
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

// named gives the client its server's name, which a name server answers after a delay.
func named(delay time.Duration) act {
	const server = "127.53.53.53" // a name server's port is always 53: resolv.conf(5)
	return func(s *Stage) error {
		_, err := s.start(&names{Listen: server + ":53", Delay: delay}, host.Surroundings{})
		s.onLaunchOf(worker.ClientRole, func(l *worker.Launch) {
			l.Spec.Address = strings.Replace(l.Spec.Address, "127.0.0.1", "server.wirelab.test", 1)
		})
		if err != nil {
			return err
		}
		return entered(worker.ClientRole, func(s *Stage) error { return enterWithNames(server, s.directory) })(s)
	}
}

// hugePagesOff denies huge pages to both workers.
func hugePagesOff(s *Stage) error {
	undo, err := withoutHugePages()
	if err == nil {
		s.atEnd(undo)
	}
	return err
}

// diskKept keeps busy the disk that the samples are written to.
func diskKept(busy disk) act {
	return func(s *Stage) error {
		busy.File = filepath.Join(s.directory, "disk")
		return started(&busy, host.Surroundings{CPUs: s.lab.Placement.Server, Nice: 19})(s)
	}
}

// clockStepped moves the wall clock in the window, and back.
func clockStepped(by time.Duration) act {
	return inWindow(func(*Stage) {
		if stepClock(by) == nil {
			time.Sleep(50 * time.Millisecond)
			_ = stepClock(-by)
		}
	})
}

// secondLab measures beside the trial.
func secondLab(s *Stage) error {
	return started(&other{Worker: s.lab.Worker, Folder: filepath.Join(s.directory, "beside")}, host.Surroundings{})(s)
}

// bystander runs a process that only waits.
var bystander = started(&idle{}, host.Surroundings{})

// variant measures another variant.
func variant(text string) act {
	return func(s *Stage) error { s.cell.variant = text; return nil }
}

// offered sets another rate, and clients sets another number of clients.
func offered(perSecond float64) act {
	return func(s *Stage) error { s.cell.load.Rate = perSecond; return nil }
}

func clients(n int) act {
	return func(s *Stage) error { s.cell.clients = n; return nil }
}

// throttled lowers the CPUs' highest frequency, in the window, to a share of the present one.
func throttled(share float64) act {
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
				_ = os.WriteFile(limit, []byte(strconv.Itoa(int(float64(hertz)*share))), 0) // after an error the frequency stays, and the verdict shows it
			})
		}
		return nil
	}
}

// errNotHere means that this system cannot stage a disturbance.
var errNotHere = host.ErrUnsupported

func linux(machine) string {
	if runtime.GOOS != "linux" {
		return "needs Linux"
	}
	return ""
}

func root(machine) string {
	if os.Geteuid() != 0 {
		return "needs root: run `sudo wirelab selftest`"
	}
	return ""
}

// cpusApart requires that neither end uses a CPU of the other.
func cpusApart(m machine) string {
	if len(m.placement.Server) == 0 || len(m.placement.Client) == 0 || m.placement.Server[0] == m.placement.Client[0] {
		return "needs two CPUs: server and client share the only one"
	}
	return ""
}

// manyClientCPUs requires clients that may use several CPUs.
func manyClientCPUs(m machine) string {
	if n := len(m.placement.Client); n < 2 {
		return fmt.Sprintf("needs two CPUs for the clients, which have %d here", n)
	}
	return ""
}

func quotas(machine) string {
	folder, err := host.NewQuotaGroup(groupName(), 1)
	if err != nil {
		return "needs control groups with a CPU quota: " + err.Error()
	}
	if err := removeGroup(folder); err != nil {
		return "the control group that was tried cannot be removed: " + err.Error()
	}
	return ""
}

func ownNetworks(machine) string {
	if err := link.Check(); err != nil {
		return "needs network namespaces: " + err.Error()
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

// consent requires permission to disturb all programs of the machine.
func consent(m machine) string {
	if !m.wide {
		return "it would disturb every program on the machine: allow it with --machine-wide"
	}
	return ""
}
