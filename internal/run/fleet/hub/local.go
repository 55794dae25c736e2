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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/protocol"
)

// A LocalAgent is an agent on the machine of its hub.
type LocalAgent struct {
	Name, Labels string
	CPUs         string // as AgentRequest has them; "": all
}

// mostLocalAgents bounds the agents that a hub starts.
const mostLocalAgents = 64

// PlanAgents reads --agent: labels and a number. The agents get their names from their role.
func PlanAgents(texts []string) ([]LocalAgent, error) {
	var planned []LocalAgent
	of := map[string]int{} // the number of agents per name
	for _, text := range texts {
		labels, times, several := strings.Cut(text, "*")
		count := 1
		if several {
			var err error
			if count, err = strconv.Atoi(times); err != nil || count < 1 || count > mostLocalAgents {
				return nil, fmt.Errorf("--agent %q: want a number from 1 to %d after the *", text, mostLocalAgents)
			}
		}
		base := ""
		for pair := range strings.SplitSeq(labels, ",") {
			key, value, found := strings.Cut(pair, "=")
			if !found || key == "" || value == "" {
				return nil, fmt.Errorf("--agent %q: want labels, and a number if it is not 1, as in role=client,zone=a*2", text)
			}
			if base == "" || key == "role" {
				base = value
			}
		}
		if err := protocol.CheckName(base); err != nil {
			return nil, fmt.Errorf("--agent %q: its agents are named by their role: %w", text, err)
		}
		for range count {
			of[base]++
			planned = append(planned, LocalAgent{Name: base + "-" + strconv.Itoa(of[base]), Labels: labels})
		}
		if len(planned) > mostLocalAgents {
			return nil, fmt.Errorf("--agent: more than %d on one machine", mostLocalAgents)
		}
	}
	return planned, nil
}

// placeAgents gives each agent CPUs of its own; servers get those of a server on one machine. If
// there are too few, the agents of one kind share theirs, and the warning says so.
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
		var own []int // places in agents
		for i, p := range agents {
			if isServer(p) == kind.servers {
				own = append(own, i)
			}
		}
		if len(kind.cpus) > 0 && len(own) > len(kind.cpus) {
			warning = fmt.Sprintf("%d %s share %s of this machine: they disturb one another, and trials of more than %d at a time will not be valid", len(own), kind.what, cpusInWords(len(kind.cpus)), len(kind.cpus))
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

func cpusInWords(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%d CPUs", n)
}

// listCPUs writes CPUs as --cpus reads them.
func listCPUs(cpus []int) string {
	var list []string
	for _, cpu := range cpus {
		list = append(list, strconv.Itoa(cpu))
	}
	return strings.Join(list, ",")
}

// NamesOf returns the names of agents.
func NamesOf(agents []LocalAgent) []string {
	var names []string
	for _, agent := range agents {
		names = append(names, agent.Name)
	}
	return names
}

// LocalAgents holds agents in processes that end with this one.
type LocalAgents struct {
	running []*exec.Cmd
	ended   chan error // one error per agent that has ended
}

// StartAgents starts agents on this machine, and returns when the hub has the cards of all. Also
// with an error, it returns the agents that it started.
func (h *Hub) StartAgents(ctx context.Context, agents []LocalAgent) (*LocalAgents, error) {
	here := &LocalAgents{ended: make(chan error, len(agents))}
	if len(agents) == 0 {
		return here, nil
	}
	program, err := host.LastingProgram()
	if err != nil {
		return here, err
	}
	if warning := placeAgents(agents, host.Place(host.Describe().Topology)); warning != "" {
		fmt.Fprintf(h.options.Log, "warning: %s\n", warning)
	}
	for _, agent := range agents {
		cmd := exec.Command(program, "agent", "--nats", strings.Join(h.URLs(), ","), "--name", agent.Name,
			"--labels", agent.Labels, "--cpus", agent.CPUs, "--token-file", TokenFile(h.options.StateDir, protocol.RoleAgent))
		cmd.Stderr = h.options.Log
		if _, err := host.StartPinned(cmd, host.Surroundings{}); err != nil {
			return here, fmt.Errorf("start the agent %s: %w", agent.Name, err)
		}
		here.running = append(here.running, cmd)
		go func() { // ends with the agent, which Stop ends
			err := cmd.Wait()
			here.ended <- fmt.Errorf("the agent %s ended: %w", agent.Name, errors.Join(err, errEnded))
		}()
	}
	return here, here.wait(ctx, h, agents)
}

// errEnded stands for an exit code of zero.
var errEnded = errors.New("without an order to end")

// agentsPatience limits the wait for agents to join.
const agentsPatience = 30 * time.Second

// wait returns when all agents have joined, or one has ended.
func (h *LocalAgents) wait(ctx context.Context, hub *Hub, agents []LocalAgent) error {
	ctx, cancel := context.WithTimeout(ctx, agentsPatience)
	defer cancel()
	seen, err := protocol.Look(ctx, hub.Credentials(protocol.RoleController))
	if err != nil {
		return err
	}
	defer seen.Close()
	for {
		if err := seen.Again(ctx); err != nil {
			return fmt.Errorf("wait for agents: %w", err)
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

// Stop ends the agents and waits for them, while they end their workers.
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

// StartDetached starts a hub in the background: wirelab's own program with the arguments, which
// prints a JSON object when agents can join. The object is decoded into up. Errors of the hub
// are in its log.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C at this terminal must not end it
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

// lastError returns the reason why a hub in the background ended, from its log.
func lastError(log string, began int64) string {
	text, _ := os.ReadFile(log) // without the log, the message below says where to look
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
