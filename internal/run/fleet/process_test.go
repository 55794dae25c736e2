package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker/body"
)

// TestMain also plays the processes that tests start: workers, and agents, hubs and
// controllers that are to be killed.
func TestMain(m *testing.M) {
	parts := map[string]func(args []string) error{
		"worker": func([]string) error { return body.Main(context.Background(), os.Stdin, os.Stdout) },
		"agent":  playAgent,
		"hub":    playHub,
		"lab":    playLab,

		"thousand": fleet.PlayThousand,
	}
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		if err := parts[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// part is a process that plays a part.
type part struct {
	t       *testing.T
	name    string
	command *exec.Cmd
	output  *log
	ended   chan struct{}
}

// play starts this program as a part of a fleet. It ends with the test at the latest.
func play(t *testing.T, in host.StartOptions, args ...string) *part {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &part{t: t, name: strings.Join(args[:2], " "), command: exec.Command(program, args...), output: &log{}, ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = p.output, p.output
	if _, err := host.StartPinned(p.command, in); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // it is killed
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", p.name, p.output)
		}
	})
	return p
}

func (p *part) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

func (p *part) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) }

// says waits until the part has printed something.
func (p *part) says(text string) {
	p.t.Helper()
	p.saysTimes(text, 1)
}

func (p *part) saysTimes(text string, times int) {
	p.t.Helper()
	for until := time.Now().Add(4 * patience); strings.Count(p.output.String(), text) < times; time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			if strings.Count(p.output.String(), text) < times {
				p.t.Fatalf("%s ended without %q:\n%s", p.name, text, p.output)
			}
		default:
		}
		if time.Now().After(until) {
			_ = p.command.Process.Signal(syscall.SIGQUIT) // it prints what its goroutines do
			<-p.ended
			p.t.Fatalf("%s does not say %q:\n%s", p.name, text, p.output)
		}
	}
}

// family is the part's process and all that it has started.
func (p *part) family() []int { return host.ReadProcessTable().Family(p.command.Process.Pid) }

// expectGone fails the test if a process of those is still there after a while.
func expectGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for until := time.Now().Add(patience); syscall.Kill(pid, 0) == nil && !isZombie(pid); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(until) {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Fatalf("process %d is left: %q", pid, line)
			}
		}
	}
}

func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// playAgent is an agent: TOKENFILE NAME LABELS LISTEN SPOOL [URL].
func playAgent(args []string) error {
	credentials, err := protocol.ReadTokenFile(args[0])
	if err != nil {
		return err
	}
	if len(args) > 5 {
		credentials.URLs = args[5:]
	}
	labels, err := protocol.ParseLabels(args[2])
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return fleet.RunAgent(context.Background(), credentials, fleet.AgentOptions{
		Name: args[1], Labels: labels, Programs: []fleet.Program{{Name: "wirelab", Command: []string{program, "worker"}}},
		Dial: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}, Listen: netip.MustParseAddr(args[3]),
		Nice: -20, Spool: args[4], Identities: filepath.Dir(args[0]), Log: os.Stderr, Version: "test",
	})
}

// playHub is a hub: STATEDIR LISTEN [NAME CLUSTERLISTEN KEYSFILE ROUTE…].
func playHub(args []string) error {
	o := hub.HubOptions{Project: "mine", StateDir: args[0], Listen: args[1], Log: os.Stderr}
	if len(args) > 2 {
		o.Cluster = &hub.ClusterOptions{Name: args[2], Listen: args[3], Routes: args[5:]}
		o.KeysFile = args[4]
	}
	hub, err := hub.StartHub(context.Background(), o)
	if err != nil {
		return err
	}
	fmt.Println("listens")
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	if err := hub.JoinCluster(ctx); err != nil {
		return err
	}
	token, err := hub.MakeToken(ctx, protocol.TokenRequest{Role: protocol.RoleJoin})
	if err != nil {
		return err
	}
	if err := os.WriteFile(joinFile(args[0]), []byte(token.Token()), 0o600); err != nil {
		return err
	}
	fmt.Println("is ready")
	select {} // until it is killed
}

// joinFile is the file with a token that admits any number of agents, of a hub that playHub started.
func joinFile(state string) string { return filepath.Join(state, "join") }

// hubToken is the file with the controller's token of a hub that playHub started.
func hubToken(state string) string { return hub.TokenFile(state, protocol.RoleController) }

// A labPlan says what playLab measures.
type labPlan struct {
	Scenario       *scenario.Scenario
	Server, Client string
	URLs           []string
	// Patient: nobody is to be lost, however busy the machine is.
	Patient bool
	// Block: the trials of a repeat take turns.
	Block bool
}

// playLab measures on a fleet: TOKENFILE RUNDIRECTORY PLANFILE. It goes on with a run that is
// there.
func playLab(args []string) error {
	credentials, err := protocol.ReadTokenFile(args[0])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	var what labPlan
	if err := json.Unmarshal(text, &what); err != nil {
		return err
	}
	if len(what.URLs) > 0 {
		credentials.URLs = what.URLs
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := protocol.ParseSelector(what.Server)
	if err != nil {
		return err
	}
	clients, err := protocol.ParseSelector(what.Client)
	if err != nil {
		return err
	}
	ctx := context.Background()
	wanted := fleet.Plan{Server: &server, Client: clients, Worker: program, Report: func(line string) { fmt.Println(line) }}
	if what.Patient {
		wanted.Lease = patience
	}
	on, err := fleet.NewController(ctx, credentials, wanted)
	if err != nil {
		return err
	}
	defer on.Close()
	plan := what.Scenario.Plan()
	if what.Block {
		plan = asBlock(plan)
	}
	run, err := record.Resume(args[1])
	if err != nil {
		run, err = record.Create(args[1], record.Manifest{
			Version: record.Version, Name: "test", Status: record.Running, Seed: what.Scenario.Seed, Started: time.Now(),
			Trials: len(plan), Order: lab.ManifestOrder(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
		})
	}
	if err != nil {
		return err
	}
	l := lab.New([]string{program, "worker"})
	l.Seed, l.Fleet = what.Scenario.Seed, on
	l.Observers = []live.Observer{teller{bufio.NewWriter(os.Stdout)}.observe}
	if err := l.Run(ctx, plan, run); err != nil {
		return err
	}
	fmt.Println("done")
	return run.Finish(record.Done)
}

// teller prints how a run goes.
type teller struct{ out *bufio.Writer }

func (w teller) print(format string, args ...any) {
	fmt.Fprintf(w.out, format+"\n", args...)
	_ = w.out.Flush() // the test sees what is missing
}

func (w teller) observe(e live.Event) {
	switch e := e.(type) {
	case live.Begun:
		w.print("trial begins")
	case live.Progress:
		w.print("trial goes on %v", e.Fraction)
	case live.Ended:
		w.print("trial ends: %d %s", e.Record.Trial, e.Record.Failure)
	}
}

// tokens writes the tokens of a hub in this process to files.
func tokens(t *testing.T, hub *hub.Hub) (agent, controller string) {
	t.Helper()
	return writeToken(t, must(hub.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin}))), writeToken(t, must(hub.Controller()))
}

// writeToken writes credentials into a file.
func writeToken(t *testing.T, c *protocol.Credentials) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(c.Token()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// planFile writes what playLab is to measure.
func planFile(t *testing.T, what labPlan) string {
	t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// recordsIn reads a run.
func recordsIn(t *testing.T, directory string) []record.Record {
	t.Helper()
	run, err := record.Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	var records []record.Record
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}
