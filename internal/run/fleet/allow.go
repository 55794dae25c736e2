package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A Program is a program that an agent may start. Orders cannot change Command.
type Program struct {
	Name    string // wirelab, or the name of a peer
	Command []string
}

// fileHashes caches the hash of each fileVersion. A changed file has a new fileVersion.
var fileHashes sync.Map

type fileVersion struct {
	path  string
	size  int64
	mtime time.Time
}

// FileHash returns the SHA-256 hash of the file at a path.
func FileHash(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	status, err := file.Stat()
	if err != nil {
		return "", err
	}
	state := fileVersion{path, status.Size(), status.ModTime()}
	if known, is := fileHashes.Load(state); is {
		return known.(string), nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	fileHashes.Store(state, hash)
	return hash, nil
}

// agentPermissions holds the limits that an agent puts on workers' specs.
type agentPermissions struct {
	programs map[string]Program // allowed programs by the hash of the program
	ranges   []netip.Prefix     // ranges of addresses that clients may dial
	listen   netip.Addr         // the address at which servers listen
	probes   []string
}

// allowedProgram returns the allowed program that has this hash.
func (a *agentPermissions) allowedProgram(hash string) (Program, error) {
	p, known := a.programs[hash]
	if !known {
		return p, fmt.Errorf("the order starts a program that this agent does not allow, with the hash %.12s…: this agent starts only %s", hash, a.describePrograms())
	}
	return p, nil
}

func (a *agentPermissions) describePrograms() string {
	var list []string
	for hash, p := range a.programs {
		list = append(list, fmt.Sprintf("%s (%.12s…)", p.Name, hash))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// checkSpec returns an error if the agent must refuse a spec. It allows a spec only if the worker
// will read no file that the spec names, and dial no address outside the ranges.
func (a *agentPermissions) checkSpec(s *worker.Spec) error {
	if s == nil {
		return errors.New("the order lacks the spec of the worker")
	}
	if s.Contract != worker.Contract {
		return fmt.Errorf("the spec has version %d of the worker contract: this agent has version %d", s.Contract, worker.Contract)
	}
	if err := errors.Join(a.checkVariant(s), a.checkProbe(s)); err != nil {
		return err
	}
	switch s.Role {
	case worker.ServerRole:
		return a.checkListen(s.Address)
	case worker.ClientRole:
		if s.Client == nil {
			return errors.New("the spec has the role client, but lacks the part client")
		}
		if err := checkLoadSize(s.Client); err != nil {
			return err
		}
		return a.checkDial(s)
	case worker.VisitRole:
		if s.Visit == nil || s.Visit.LimitNS < 0 || s.Visit.LimitNS > int64(maxLoadTime) {
			return fmt.Errorf("the spec has the role visit: want the part visit, with a time limit of at most %v", maxLoadTime)
		}
		return a.checkDial(s)
	default:
		return fmt.Errorf("the spec has the role %q: want server, client or visit", s.Role)
	}
}

// checkProbe returns an error for a probe that the agent's owner has not allowed.
func (a *agentPermissions) checkProbe(s *worker.Spec) error {
	if s.ProfileCPU && s.Probe != record.ProbeCPU {
		return fmt.Errorf("the spec asks for a CPU profile without the probe %s", record.ProbeCPU)
	}
	if s.Probe == "" || slices.Contains(a.probes, s.Probe) {
		return nil
	}
	return fmt.Errorf("the spec asks for the probe %.20q, which this agent does not allow: start the agent with --allow-probes to allow probes", s.Probe)
}

// checkVariant returns an error for unknown stacks, and for those that start foreign programs.
func (a *agentPermissions) checkVariant(s *worker.Spec) error {
	variant, err := scenario.ParseVariant(s.Stack)
	if err != nil {
		return err
	}
	if variant.Stack == service.StackName {
		return nil
	}
	carried, err := catalog.Find(variant.Stack)
	if err != nil {
		return err
	}
	if program, foreign := stack.ForeignClient(variant); foreign {
		return fmt.Errorf("variant %s: agents do not start other projects' programs, such as %s", variant, program.Name)
	}
	server, err := carried.NewServer(catalog.OwnOptions(variant))
	if err != nil {
		return nil // the worker will report this error
	}
	defer server.Close() // the server has not listened yet
	if external, is := server.(stack.ExternalServer); is {
		return fmt.Errorf("variant %s: agents do not start other projects' programs, such as %s", variant, external.Program())
	}
	return nil
}

// Limits on the size of a client's load, because a client's memory grows with its load.
const (
	maxClients  = 100_000
	maxLoadTime = 24 * time.Hour // includes the warm-up; crowd.Merge refuses longer results
)

func checkLoadSize(c *worker.ClientSpec) error {
	length := float64(c.Load.DurationNS) + float64(c.Load.WarmUpAtMostNS)
	switch {
	case c.Clients > maxClients:
		return fmt.Errorf("the spec asks for %d clients: an agent runs at most %d; use more agents", c.Clients, maxClients)
	case length > float64(maxLoadTime):
		return fmt.Errorf("the spec asks for a load of %.3g hours: an agent runs a load for at most %v", length/float64(time.Hour), maxLoadTime)
	}
	return nil
}

// checkControl returns an error for a control that would make a load longer than an agent allows.
func checkControl(o *worker.ControlOrder) error {
	if o == nil {
		return errors.New("the order lacks a control to send to the worker")
	}
	if s := o.Step; s != nil && float64(s.DurationNS)+float64(s.WarmUpAtMostNS) > float64(maxLoadTime) {
		return fmt.Errorf("the order asks for a step of %.3g hours: an agent runs a load for at most %v", (float64(s.DurationNS)+float64(s.WarmUpAtMostNS))/float64(time.Hour), maxLoadTime)
	}
	return nil
}

func (a *agentPermissions) checkListen(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the spec has a server listen on %q: want IP:PORT", address)
	}
	if at.Addr() != a.listen {
		return fmt.Errorf("the spec has a server listen on %s: this agent's servers listen on %s", at.Addr(), a.listen)
	}
	return nil
}

// checkDial returns an error for an address outside the ranges, and for a host name: when the
// worker looks up a name, the result may be another address.
func (a *agentPermissions) checkDial(s *worker.Spec) error {
	addresses := []string{s.Address}
	if variant, err := scenario.ParseVariant(s.Stack); err == nil && (variant.Stack == service.StackName || s.Role == worker.VisitRole) {
		definition, err := service.Parse(s.Workload.Definition)
		if err != nil {
			return err
		}
		called := []*service.Definition{definition}
		if definition.Journey != nil && definition.Journey.GRPC != nil {
			called = append(called, definition.Journey.GRPC)
		}
		addresses = nil
		for _, d := range called {
			if d.Network != "tcp" {
				return fmt.Errorf("the spec has a client dial %s of the network %q: agents dial over IP only", d.Address, d.Network)
			}
			if d.Addresses != nil && d.Addresses.LookUp != nil {
				return errors.New("the spec has a client look names up during the load: agents dial only the addresses of the spec: leave out --lookup-every")
			}
			addresses = append(addresses, d.Addressed()...)
		}
	}
	for _, address := range addresses {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("the spec has a client dial %q: want IP:PORT, without a host name", address)
		}
		ip := at.Addr().Unmap().WithZone("")
		if !slices.ContainsFunc(a.ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
			return fmt.Errorf("the spec has a client dial %s: this agent dials %s only; start the agent with --dial to allow more", at, joinRanges(a.ranges))
		}
	}
	return nil
}

func joinRanges(ranges []netip.Prefix) string {
	var list []string
	for _, r := range ranges {
		list = append(list, r.String())
	}
	return strings.Join(list, ", ")
}
