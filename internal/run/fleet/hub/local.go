package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/protocol"
)

// A LocalAgent describes an agent to start on the hub's machine.
type LocalAgent struct {
	Name, Labels string
	CPUs         string // a list such as 0,2-3; empty means all CPUs
}

// maxLocalAgents bounds the number of agents that a hub starts.
const maxLocalAgents = 64

// ParseLocalAgents parses the values of --agent, as in role=client*2. The role becomes the name.
func ParseLocalAgents(texts []string) ([]LocalAgent, error) {
	var planned []LocalAgent
	of := map[string]int{} // the number of agents with each name
	for _, text := range texts {
		labels, times, several := strings.Cut(text, "*")
		count := 1
		if several {
			var err error
			if count, err = strconv.Atoi(times); err != nil || count < 1 || count > maxLocalAgents {
				return nil, fmt.Errorf("--agent %q: want a number from 1 to %d after the *", text, maxLocalAgents)
			}
		}
		base := ""
		for pair := range strings.SplitSeq(labels, ",") {
			key, value, found := strings.Cut(pair, "=")
			if !found || key == "" || value == "" {
				return nil, fmt.Errorf("--agent %q: want labels, then * and a number for several agents, as in role=client,zone=a*2", text)
			}
			if base == "" || key == "role" {
				base = value
			}
		}
		if err := protocol.CheckName(base); err != nil {
			return nil, fmt.Errorf("--agent %q: the role cannot be used in agents' names: %w", text, err)
		}
		for range count {
			of[base]++
			planned = append(planned, LocalAgent{Name: base + "-" + strconv.Itoa(of[base]), Labels: labels})
		}
		if len(planned) > maxLocalAgents {
			return nil, fmt.Errorf("--agent: want at most %d agents on one machine", maxLocalAgents)
		}
	}
	return planned, nil
}

// placeAgents gives each agent CPUs of its own: server CPUs of the placement to servers, client
// CPUs to clients. If there are too few CPUs, agents share them, and warning says so.
func placeAgents(agents []LocalAgent, placement host.Placement) (warning string) {
	isServer := func(p LocalAgent) bool {
		labels, err := protocol.ParseLabels(p.Labels)
		return err == nil && labels["role"] == "server"
	}
	for _, kind := range []struct {
		what    string
		servers bool
		cpus    []int
	}{{"servers", true, placement.Server}, {"clients", false, placement.Client}} {
		var own []int // indexes of the agents of this kind
		for i, p := range agents {
			if isServer(p) == kind.servers {
				own = append(own, i)
			}
		}
		if len(kind.cpus) > 0 && len(own) > len(kind.cpus) {
			warning = fmt.Sprintf("%d %s share %s of this machine and disturb one another: a trial is valid only if it uses at most %d of them", len(own), kind.what, countCPUs(len(kind.cpus)), len(kind.cpus))
		}
		for n, i := range own {
			agents[i].CPUs = listCPUs(kind.cpus)
			if each := len(kind.cpus) / len(own); each > 0 {
				agents[i].CPUs = listCPUs(kind.cpus[n*each : (n+1)*each])
			}
		}
	}
	return warning
}

func countCPUs(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%d CPUs", n)
}

// listCPUs writes CPUs as a list, in the form that --cpus accepts.
func listCPUs(cpus []int) string {
	var list []string
	for _, cpu := range cpus {
		list = append(list, strconv.Itoa(cpu))
	}
	return strings.Join(list, ",")
}

// AgentNames returns the agents' names.
func AgentNames(agents []LocalAgent) []string {
	var names []string
	for _, agent := range agents {
		names = append(names, agent.Name)
	}
	return names
}

// LocalAgents holds the processes of the agents on this machine. They end when this process ends.
type LocalAgents struct {
	running []*exec.Cmd
	ended   chan error // gets an error each time an agent ends
}

// StartAgents starts agents on this machine, and waits until the hub has a card from each agent.
// After an error, it also returns the agents that it has started.
func (h *Hub) StartAgents(ctx context.Context, agents []LocalAgent) (*LocalAgents, error) {
	here := &LocalAgents{ended: make(chan error, len(agents))}
	if len(agents) == 0 {
		return here, nil
	}
	program, err := host.OwnProgramPath()
	if err != nil {
		return here, err
	}
	if warning := placeAgents(agents, host.Place(host.ReadTopology())); warning != "" {
		fmt.Fprintf(h.options.Log, "warning: %s\n", warning)
	}
	for _, agent := range agents {
		own, err := h.Agent(ctx, agent.Name)
		if err != nil {
			return here, err
		}
		token := TokenFile(h.options.StateDir, agent.Name)
		if err := replaceFile(token, []byte(own.Token()+"\n")); err != nil {
			return here, fmt.Errorf("write a token: %w", err)
		}
		cmd := exec.Command(program, "agent", "--nats", strings.Join(h.URLs(), ","), "--name", agent.Name,
			"--labels", agent.Labels, "--cpus", agent.CPUs, "--token-file", token,
			"--spool", filepath.Join(h.options.StateDir, "spool"), // another fleet may have the same name
			"--allow-probes="+strings.Join(h.options.AllowProbes, ","))
		cmd.Stderr = h.options.Log
		if _, err := host.StartPinned(cmd, host.StartOptions{}); err != nil {
			return here, fmt.Errorf("start the agent %s: %w", agent.Name, err)
		}
		here.running = append(here.running, cmd)
		go func() { // ends when the agent ends
			err := cmd.Wait()
			here.ended <- fmt.Errorf("the agent %s ended: %w", agent.Name, errors.Join(err, errEndedAlone))
		}()
	}
	return here, here.awaitCards(ctx, h, agents)
}

// errEndedAlone is the error of an agent that ended although nobody asked it to end.
var errEndedAlone = errors.New("nobody ended it")

// joinTimeout limits the time that agents may take to join the fleet.
const joinTimeout = 30 * time.Second

// awaitCards waits until all agents have joined the fleet. It fails if an agent ends.
func (h *LocalAgents) awaitCards(ctx context.Context, hub *Hub, agents []LocalAgent) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	credentials, err := hub.Controller()
	if err != nil {
		return err
	}
	seen, err := protocol.ReadHub(ctx, credentials)
	if err != nil {
		return err
	}
	defer seen.Close()
	for {
		if err := seen.Refresh(ctx); err != nil {
			return fmt.Errorf("wait for the agents to join: %w", err)
		}
		missing := len(agents)
		for _, agent := range agents {
			if slices.ContainsFunc(seen.Cards, func(c protocol.Card) bool { return c.Name == agent.Name }) {
				missing--
			}
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case err := <-h.ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%d of %d agents have not joined: %w", missing, len(agents), ctx.Err())
		}
	}
}

// Stop ends the agents. It waits until the agents have ended their workers and themselves.
func (h *LocalAgents) Stop() {
	const grace = 5 * time.Second
	for _, cmd := range h.running {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	patience := time.After(grace)
	for left := len(h.running) - len(h.ended); left > 0; left-- {
		select {
		case <-h.ended: //nolint:errcheck // they were ordered to end
		case <-patience:
			for _, cmd := range h.running {
				_ = cmd.Process.Kill()
			}
			return
		}
	}
}

// StartDetached starts wirelab in the background, with the arguments of a hub. When agents can
// join, the hub prints a JSON object, which is decoded into up. The hub's log has its errors.
func StartDetached(ctx context.Context, project string, arguments []string, up any) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find wirelab's own program: %w", err)
	}
	stateDir, err := StateDir(project)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the fleet's state: %w", err)
	}
	log, err := os.OpenFile(LogFile(stateDir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	began, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	cmd := exec.Command(program, arguments...)
	cmd.Stderr = log
	system.OwnSession(cmd) // Ctrl-C in this terminal must not end the hub
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	heed := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer heed()
	if err := json.NewDecoder(output).Decode(up); err != nil {
		_ = cmd.Wait()
		return errors.New(lastError(LogFile(stateDir), began))
	}
	return cmd.Process.Release()
}

// lastError returns the last error in the log of a background hub.
func lastError(log string, began int64) string {
	text, _ := os.ReadFile(log) // if this fails, text is empty
	text = text[min(int(began), len(text)):]
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if why, ours := strings.CutPrefix(line, "wirelab: "); ours {
			return why
		}
	}
	return "the hub ended at once, and " + log + " does not say why"
}
