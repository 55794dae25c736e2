package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/wire/peer"
)

// An AgentRequest holds the user's options for an agent, before they are parsed.
type AgentRequest struct {
	Hub              string // the hub's URL; empty means the URLs in the token
	Token, TokenFile string // if both are empty, the token is in the variable TokenVariable
	Name             string // empty means this machine's name
	Labels           string
	Dial             []string // empty means loopback and the networks of this machine
	Listen           string   // empty means this machine's address on the route to the hub
	Port             int
	CPUs             string
	AllowProbes      []string // empty means none
	Spool            string
	Identities       string // empty means a folder of this user's
}

// Read checks a request. It returns credentials and options, or an error that names the wrong flag.
func (f *AgentRequest) Read(log io.Writer, version string) (*protocol.Credentials, AgentOptions, error) {
	o := AgentOptions{Name: f.Name, Port: f.Port, Spool: f.Spool, Nice: -20, Log: log, Version: version}
	credentials, err := f.credentials()
	if err != nil {
		return nil, o, err
	}
	if credentials.Role == protocol.RoleController {
		return nil, o, errors.New("this is the controller's token, which lets anyone on this machine give orders: use an agent's token (`wirelab fleet token`)")
	}
	if f.Hub != "" {
		if err := protocol.CheckURL(f.Hub); err != nil {
			return nil, o, fmt.Errorf("--nats: %w", err)
		}
		credentials.URLs = []string{f.Hub}
	}
	if o.Name == "" && credentials.Role == protocol.RoleAgent {
		o.Name = credentials.Name
	}
	if o.Name == "" {
		name, _ := os.Hostname()
		name, _, _ = strings.Cut(strings.ToLower(name), ".")
		o.Name = name
	}
	if err := protocol.CheckName(o.Name); err != nil {
		return nil, o, fmt.Errorf("--name: %w", err)
	}
	if o.Labels, err = protocol.ParseLabels(f.Labels); err != nil {
		return nil, o, fmt.Errorf("--labels: %w", err)
	}
	if o.Port < 0 || o.Port > 65535 {
		return nil, o, fmt.Errorf("--port: want a port from 0 to 65535, found %d", o.Port)
	}
	if o.Dial, err = dialRanges(f.Dial); err != nil {
		return nil, o, fmt.Errorf("--dial: %w", err)
	}
	if o.Listen, err = listenAddress(f.Listen, credentials.URLs); err != nil {
		return nil, o, fmt.Errorf("--listen: %w", err)
	}
	if err := checkListenAddress(o.Listen, o.Port); err != nil {
		return nil, o, err
	}
	if o.CPUs, err = parseCPUs(f.CPUs); err != nil {
		return nil, o, fmt.Errorf("--cpus: %w", err)
	}
	if o.Probes, err = ParseAllowedProbes(f.AllowProbes); err != nil {
		return nil, o, err
	}
	o.Spool = cmp.Or(o.Spool, filepath.Join(os.TempDir(), "wirelab-spool-"+strconv.Itoa(os.Getuid())))
	if o.Identities = f.Identities; o.Identities == "" {
		if o.Identities, err = hub.AgentsDir(); err != nil {
			return nil, o, err
		}
	}
	o.Programs, err = allowedPrograms()
	_, _ = host.RaiseFileLimit() // workers inherit the limit
	return credentials, o, err
}

// PossibleProbes lists the probes that agents can run.
func PossibleProbes() []string {
	return slices.DeleteFunc(slices.Clone(record.Probes), probes.NeedsOneMachine)
}

// ParseAllowedProbes parses the values of --allow-probes.
func ParseAllowedProbes(names []string) ([]string, error) {
	if slices.Contains(names, "all") {
		return PossibleProbes(), nil
	}
	for _, name := range names {
		switch {
		case probes.NeedsOneMachine(name):
			return nil, fmt.Errorf("--allow-probes: the probe %s needs both ends of a call on one machine, so a fleet cannot run it: choose from %s", name, strings.Join(PossibleProbes(), ", "))
		case !record.IsProbe(name):
			return nil, fmt.Errorf("--allow-probes: unknown probe %.40q; %s", name, spelling.Suggest(name, PossibleProbes()))
		}
	}
	return names, nil
}

func (f *AgentRequest) credentials() (*protocol.Credentials, error) {
	text := f.Token
	switch {
	case f.Token != "" && f.TokenFile != "":
		return nil, errors.New("--token and --token-file: give only one of them")
	case f.TokenFile != "":
		c, err := protocol.ReadTokenFile(f.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		return c, nil
	case text == "":
		text = strings.TrimSpace(os.Getenv(protocol.TokenVariable))
	}
	if text == "" {
		return nil, fmt.Errorf("no token: give --token-file, or set %s; `wirelab fleet up` prints one, and `wirelab fleet token` prints it again", protocol.TokenVariable)
	}
	return protocol.ParseToken(text)
}

// allowedPrograms returns wirelab's own program and the peers that were built on this machine.
func allowedPrograms() ([]Program, error) {
	own, err := host.OwnProgramPath()
	if err != nil {
		return nil, err
	}
	programs := []Program{{Name: "wirelab", Command: []string{own, "worker"}}}
	for _, p := range peer.All() {
		path, err := p.Path()
		if err != nil {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			programs = append(programs, Program{Name: p.Name, Command: []string{path}})
		}
	}
	return programs, nil
}

// dialRanges parses address ranges. The default is loopback and this machine's networks.
func dialRanges(texts []string) ([]netip.Prefix, error) {
	ranges, err := parseRanges(texts)
	if err != nil || len(ranges) > 0 {
		return ranges, err
	}
	ranges = append(ranges, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		one, err := netip.ParsePrefix(n.String())
		if err == nil && !one.Addr().IsLoopback() && !slices.Contains(ranges, one.Masked()) {
			ranges = append(ranges, one.Masked())
		}
	}
	return ranges, nil
}

// listenAddress parses an address. The default is this machine's address on the route to the hub.
func listenAddress(text string, hubs []string) (netip.Addr, error) {
	if text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return ip, fmt.Errorf("found %q: want an address of this machine, as in 10.0.0.6", text)
		}
		return ip, nil
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	for _, hub := range hubs {
		_, address, _ := strings.Cut(hub, "://")
		// connecting a UDP socket sends nothing
		conn, err := net.DialTimeout("udp", cmp.Or(address, hub), time.Second)
		if err != nil {
			continue
		}
		own, err := netip.ParseAddrPort(conn.LocalAddr().String())
		_ = conn.Close()
		if err == nil {
			return own.Addr().Unmap(), nil
		}
	}
	return loopback, nil
}

// checkListenAddress returns an error if servers cannot listen there, or clients cannot dial it.
func checkListenAddress(ip netip.Addr, port int) error {
	if ip.IsUnspecified() {
		return fmt.Errorf("--listen: clients cannot call %s: want one address of this machine, as in 10.0.0.6", ip)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(ip, uint16(port)).String())
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--listen: %s is not an address of this machine: want one of its addresses", ip)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--port: another program has port %d of %s: end it, or choose another port", port, ip)
	case err != nil:
		return fmt.Errorf("--listen: %w", err)
	}
	return listener.Close()
}

// parseCPUs parses a list of CPUs such as 0,2-3. This process must be allowed to use all of them.
func parseCPUs(text string) ([]int, error) {
	cpus, err := host.ParseCPUList(text)
	if err != nil {
		return nil, fmt.Errorf("found %q: want CPUs, as in 0,2-3", text)
	}
	allowed := host.ReadTopology().Allowed
	for _, cpu := range cpus {
		if len(allowed) > 0 && !slices.Contains(allowed, cpu) {
			return nil, fmt.Errorf("this process may not use CPU %d: choose some of the CPUs %v", cpu, allowed)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// defaultClientSelector selects all agents with the label role=client.
const defaultClientSelector = "role=client*"

// CheckFleetWanted checks which agents a user selects, and fills in defaults. It returns nil if the
// user names no fleet. serverGiven says that the server already runs. Errors name the wrong flag.
func CheckFleetWanted(w record.FleetWanted, serverGiven bool) (*record.FleetWanted, error) {
	if !w.IsNamed() {
		if w.Server != "" || w.Client != "" {
			return nil, errors.New("--server and --client choose agents of a fleet: name the fleet with --fleet")
		}
		return nil, nil
	}
	if serverGiven && w.Server != "" {
		return nil, fmt.Errorf("--server %s: the server already runs, so no agent starts one: leave --server out", w.Server)
	}
	if !serverGiven && w.Server == "" {
		w.Server = "role=server"
	}
	if w.Client == "" {
		w.Client = defaultClientSelector
	}
	for flag, text := range map[string]string{"--server": w.Server, "--client": w.Client} {
		if text == "" {
			continue
		}
		s, err := protocol.ParseSelector(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if flag == "--server" && s.Count != 1 {
			return nil, fmt.Errorf("--server %s: want a selector of exactly one agent, without *", text)
		}
	}
	return &w, nil
}

// NewPlan parses the user's selection of agents into a plan for a controller.
func NewPlan(w *record.FleetWanted) (plan Plan, err error) {
	if w.Server != "" {
		server, err := protocol.ParseSelector(w.Server)
		if err != nil {
			return plan, err
		}
		plan.Server = &server
	}
	plan.Client, err = protocol.ParseSelector(w.Client)
	return plan, err
}

// CheckReach returns an error if a target is on this machine's loopback: an agent elsewhere could
// not dial it. elsewhere is the name of an agent on another machine, or "".
func CheckReach(elsewhere string, targets map[string]string) error {
	if elsewhere == "" {
		return nil
	}
	for _, address := range targets {
		at, err := netip.ParseAddrPort(address)
		if err == nil && at.Addr().IsLoopback() {
			return fmt.Errorf("the server at %s is on this machine's loopback, which the agent %s on another machine cannot reach: name an address that all machines reach", address, elsewhere)
		}
	}
	return nil
}
