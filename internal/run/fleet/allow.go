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

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A Program is one that an agent may start. No part of its command line comes from an order.
type Program struct {
	Name    string // worker, or a peer's
	Command []string
}

// hashes caches the hashes of files, by properties that show whether a file has changed.
var hashes sync.Map

type fileState struct {
	path  string
	size  int64
	mtime time.Time
}

// HashOf returns the hash that identifies a program.
func HashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	status, err := file.Stat()
	if err != nil {
		return "", err
	}
	state := fileState{path, status.Size(), status.ModTime()}
	if known, is := hashes.Load(state); is {
		return known.(string), nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	hashes.Store(state, hash)
	return hash, nil
}

// An allowance says what a spec may ask of an agent.
type allowance struct {
	programs map[string]Program // by their hashes
	ranges   []netip.Prefix     // that clients may dial into
	listen   netip.Addr         // where servers listen
}

// program returns the allowed program with a hash.
func (a *allowance) program(hash string) (Program, error) {
	p, known := a.programs[hash]
	if !known {
		return p, fmt.Errorf("it is for a program that is not allowed here, with the hash %.12s…: this agent starts %s", hash, a.known())
	}
	return p, nil
}

func (a *allowance) known() string {
	var list []string
	for hash, p := range a.programs {
		list = append(list, fmt.Sprintf("%s (%.12s…)", p.Name, hash))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// check returns why a spec is refused, or nil. A worker with an allowed spec reads no file that
// the spec names, and dials nothing outside the ranges.
func (a *allowance) check(s *worker.Spec) error {
	if s == nil {
		return errors.New("the order has no spec")
	}
	if s.Contract != worker.Contract {
		return fmt.Errorf("its spec has version %d of the worker contract: this agent has %d", s.Contract, worker.Contract)
	}
	if err := a.checkVariant(s); err != nil {
		return err
	}
	switch s.Role {
	case worker.ServerRole:
		return a.checkListen(s.Address)
	case worker.ClientRole:
		if s.Client == nil {
			return errors.New("its spec lacks the part client")
		}
		if err := checkSize(s.Client); err != nil {
			return err
		}
		return a.checkDial(s)
	default:
		return fmt.Errorf("its spec has the role %q: want server or client", s.Role)
	}
}

// checkVariant refuses unknown stacks, and stacks that start other projects' programs.
func (a *allowance) checkVariant(s *worker.Spec) error {
	variant, err := scenario.ParseVariant(s.Stack)
	if err != nil {
		return err
	}
	if variant.Stack == service.Stack {
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
		return nil // the worker's error will say so
	}
	defer server.Close() // it has not listened
	if external, is := server.(stack.ExternalServer); is {
		return fmt.Errorf("variant %s: agents do not start other projects' programs, such as %s", variant, external.Program())
	}
	return nil
}

// The most that a client may be asked for. These figures determine the memory that it takes.
const (
	mostClients = 100_000
	longestLoad = 24 * time.Hour // warm-up included; Merge refuses a longer result
)

func checkSize(c *worker.ClientSpec) error {
	length := float64(c.Load.DurationNS) + float64(c.Load.WarmUpAtMostNS)
	switch {
	case c.Clients > mostClients:
		return fmt.Errorf("its spec asks for %d clients: an agent has %d at most; use more agents", c.Clients, mostClients)
	case length > float64(longestLoad):
		return fmt.Errorf("its spec asks for a load of %.3g hours: an agent runs one for %v at most", length/float64(time.Hour), longestLoad)
	}
	return nil
}

func (a *allowance) checkListen(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("its server is to listen on %q: want IP:PORT", address)
	}
	if at.Addr() != a.listen {
		return fmt.Errorf("its server is to listen on %s: this agent's servers listen on %s", at.Addr(), a.listen)
	}
	return nil
}

// checkDial refuses addresses outside the ranges, and names: a name may mean another address when
// the worker looks it up.
func (a *allowance) checkDial(s *worker.Spec) error {
	addresses := []string{s.Address}
	if variant, err := scenario.ParseVariant(s.Stack); err == nil && variant.Stack == service.Stack {
		definition, err := service.Parse(s.Workload.Definition)
		if err != nil {
			return err
		}
		if definition.Network != "tcp" {
			return fmt.Errorf("its client is to dial %s of the network %q: agents dial over IP only", definition.Address, definition.Network)
		}
		addresses = []string{definition.Address}
	}
	for _, address := range addresses {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("its client is to dial %q: want IP:PORT, without a name", address)
		}
		ip := at.Addr().Unmap().WithZone("")
		if !slices.ContainsFunc(a.ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
			return fmt.Errorf("its client is to dial %s: this agent dials %s only; start it with --dial to allow more", at, rangesInWords(a.ranges))
		}
	}
	return nil
}

func rangesInWords(ranges []netip.Prefix) string {
	var list []string
	for _, r := range ranges {
		list = append(list, r.String())
	}
	return strings.Join(list, ", ")
}
