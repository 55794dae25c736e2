package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/wire/peer"
)

// agentFlags are what an agent is started with.
type agentFlags struct {
	hub       string
	token     string
	tokenFile string
	name      string
	labels    string
	dial      []string
	listen    string
	port      int
	cpus      string
	spool     string
}

// tokenVariable is where a token may be, other than in a flag, which other users can read.
const tokenVariable = "WIRELAB_TOKEN"

func (a *app) agentCommand() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Lend this machine to a fleet: run the ends of trials that its controller orders",
		Long: `Agent joins a fleet (see wirelab fleet up, which prints this command with its
token) and starts the same server and client processes as a trial on one machine
does, when the fleet's controller orders it, until Ctrl-C.

It starts no program but this one and the peers that were built here, which it
knows by their hashes; it gives no shell, reads no files that an order names, and
dials no address outside --dial. Its workers end when nothing is heard of the
controller for five seconds.`,
		Example: `  WIRELAB_TOKEN=wl1.… wirelab agent --nats tls://10.0.0.5:4222 --name c1 --labels role=client,zone=a
  wirelab agent --token-file token --labels role=server --listen 10.0.0.6 --cpus 2-7
  wirelab agent --token-file token --labels role=client --dial 10.0.0.0/24`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			credentials, o, err := f.read(a)
			if err != nil {
				return usage(err)
			}
			if err := fleet.RunAgent(cmd.Context(), credentials, o); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "%s has left the fleet %s\n", o.Name, credentials.Project)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.hub, "nats", "", "`URL` of the fleet's hub, as in tls://10.0.0.5:4222 (default: those in the token)")
	flags.StringVar(&f.token, "token", "", "the `token` that wirelab fleet up printed; other users of this machine can see it here: better in --token-file, or in "+tokenVariable)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that has the token")
	flags.StringVar(&f.name, "name", "", "the agent's `name` in the fleet (default: this machine's)")
	flags.StringVar(&f.labels, "labels", "", "`labels` that it is chosen by, as in role=client,zone=a")
	flags.StringSliceVar(&f.dial, "dial", nil, "address `ranges` that its clients may dial, as in 10.0.0.0/8 (default: loopback, and the networks of this machine)")
	flags.StringVar(&f.listen, "listen", "", "`address` that its servers listen on (default: the one that the hub is reached from)")
	flags.IntVar(&f.port, "port", 0, "`port` of its servers, where a firewall lets only one pass (default: any)")
	flags.StringVar(&f.cpus, "cpus", "", "`CPUs` for its workers, as in 2-7 (default: all)")
	flags.StringVar(&f.spool, "spool", "", "`directory` for samples until they are fetched (default: one in the folder for temporary files)")
	return cmd
}

// read makes of the flags what an agent needs.
func (f *agentFlags) read(a *app) (*fleet.Credentials, fleet.AgentOptions, error) {
	o := fleet.AgentOptions{Name: f.name, Port: f.port, Spool: f.spool, Nice: -20, Log: a.stderr, Version: version()}
	credentials, err := f.credentials()
	if err != nil {
		return nil, o, err
	}
	if credentials.Role() == fleet.RoleController {
		return nil, o, errors.New("the token is the controller's, which no agent should have: whoever reads it there can give orders; `wirelab fleet token` prints an agent's")
	}
	if f.hub != "" {
		if err := fleet.CheckURL(f.hub); err != nil {
			return nil, o, fmt.Errorf("--nats: %w", err)
		}
		credentials.URLs = []string{f.hub}
	}
	if o.Name == "" {
		name, _ := os.Hostname()
		name, _, _ = strings.Cut(strings.ToLower(name), ".")
		o.Name = name
	}
	if err := fleet.CheckName(o.Name); err != nil {
		return nil, o, fmt.Errorf("--name: %w", err)
	}
	if o.Labels, err = fleet.ParseLabels(f.labels); err != nil {
		return nil, o, fmt.Errorf("--labels: %w", err)
	}
	if o.Port < 0 || o.Port > 65535 {
		return nil, o, fmt.Errorf("--port: there is no port %d", o.Port)
	}
	if o.Dial, err = dialRanges(f.dial); err != nil {
		return nil, o, fmt.Errorf("--dial: %w", err)
	}
	if o.Listen, err = listenAddress(f.listen, credentials.URLs); err != nil {
		return nil, o, fmt.Errorf("--listen: %w", err)
	}
	if err := tryListen(o.Listen, o.Port); err != nil {
		return nil, o, err
	}
	if o.CPUs, err = parseCPUs(f.cpus); err != nil {
		return nil, o, fmt.Errorf("--cpus: %w", err)
	}
	o.Spool = cmp.Or(o.Spool, filepath.Join(os.TempDir(), "wirelab-spool-"+strconv.Itoa(os.Getuid())))
	o.Programs, err = allowedPrograms()
	_, _ = host.RaiseFileLimit() // workers inherit it
	return credentials, o, err
}

func (f *agentFlags) credentials() (*fleet.Credentials, error) {
	text := f.token
	switch {
	case f.token != "" && f.tokenFile != "":
		return nil, errors.New("--token and --token-file: give one of them")
	case f.tokenFile != "":
		c, err := fleet.ReadTokenFile(f.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		return c, nil
	case text == "":
		text = strings.TrimSpace(os.Getenv(tokenVariable))
	}
	if text == "" {
		return nil, fmt.Errorf("there is no token: give --token-file, or set %s; `wirelab fleet up` prints one, and `wirelab fleet token` prints it again", tokenVariable)
	}
	return fleet.ParseToken(text)
}

// allowedPrograms are this program and the peers that were built here.
func allowedPrograms() ([]fleet.Program, error) {
	own, err := lastingProgram()
	if err != nil {
		return nil, err
	}
	programs := []fleet.Program{{Name: "wirelab", Command: []string{own, "worker"}}}
	for _, p := range peer.All() {
		path, err := p.Path()
		if err != nil {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			programs = append(programs, fleet.Program{Name: p.Name, Command: []string{path}})
		}
	}
	return programs, nil
}

// lastingProgram is the path by which this process can start its own program as long as it
// lives. `go run` removes the program that it made, but the kernel keeps what runs.
func lastingProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own program: %w", err)
	}
	const running = "/proc/self/exe" // of a child too, until it starts another
	if _, err := os.Stat(running); err == nil && strings.HasPrefix(own, filepath.Join(os.TempDir(), "go-build")) {
		return running, nil
	}
	return own, nil
}

// dialRanges reads ranges; without any, they are loopback and the networks that this machine
// is in.
func dialRanges(texts []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range texts {
		one, err := netip.ParsePrefix(text)
		if single, wrong := netip.ParseAddr(text); wrong == nil {
			one, err = single.Prefix(single.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("found %q: want a range of addresses, as in 10.0.0.0/8, or one address", text)
		}
		ranges = append(ranges, one.Masked())
	}
	if len(ranges) > 0 {
		return ranges, nil
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

// listenAddress is the address that was asked for, or the one that the hub is reached from.
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
		conn, err := net.DialTimeout("udp", cmp.Or(address, hub), time.Second) // sends nothing
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

// tryListen finds before any trial does that servers could not listen, or that no client could
// be told where they do.
func tryListen(ip netip.Addr, port int) error {
	if ip.IsUnspecified() {
		return fmt.Errorf("--listen: found %s, which clients cannot call: want one address of this machine, as in 10.0.0.6", ip)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(ip, uint16(port)).String())
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--listen: %s is no address of this machine", ip)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--port: another program has port %d of %s: end it, or choose another port", port, ip)
	case err != nil:
		return fmt.Errorf("--listen: %w", err)
	}
	return listener.Close()
}

// parseCPUs reads 0,2-3.
func parseCPUs(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var cpus []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && ranged {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to > 4095 {
			return nil, fmt.Errorf("found %q: want CPUs, as in 0,2-3", part)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	allowed := host.Describe().Topology.Allowed
	for _, cpu := range cpus {
		if len(allowed) > 0 && !slices.Contains(allowed, cpu) {
			return nil, fmt.Errorf("there is no CPU %d for this process: it may use %v", cpu, allowed)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}
