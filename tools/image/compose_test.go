package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// override changes only what a machine may not give: without CAP_SYS_RESOURCE, no limit can be raised.
const override = `services:
  hub: &limits {ulimits: {nice: 0, nofile: 4096, nproc: 4096}}
  server: *limits
  client-1: *limits
  client-2: *limits
  measure: *limits
`

// takeDown runs in a process of its own. It begins when the test's process closes standard input,
// which it also does when it is killed. Each command has a time limit.
const takeDown = `cat >/dev/null
failed=0
! timeout 30 podman pod exists "pod_$1" || timeout 60 podman pod rm --force --time 2 "pod_$1" || failed=1
containers=$(timeout 30 podman ps --all --quiet --filter label=io.podman.compose.project="$1")
[ -z "$containers" ] || timeout 60 podman rm --force --time 2 $containers || failed=1
! timeout 30 podman network exists "$1_fleet" || timeout 30 podman network rm --force "$1_fleet" || failed=1
[ -z "$(timeout 30 podman ps --all --quiet)" ] || failed=1
rm -rf "$2" || failed=1
exit $failed
`

// A composition runs the services of compose.yaml.
type composition struct {
	program, folder, token string
}

// podmanHere gives podman images and containers of this test alone, which the test takes down when
// it ends, and returns the composition of a copy of deploy. Its project's name is unique.
func podmanHere(t *testing.T) *composition {
	t.Helper()
	folder, err := os.MkdirTemp("", "wirelab-compose-") //nolint:usetesting // t.TempDir can be too long for podman's sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	settings := fmt.Sprintf("[engine]\ntmp_dir = %q\nlock_type = \"file\"\n", filepath.Join(folder, "tmp"))
	if _, err := exec.LookPath("runc"); err == nil {
		settings += "runtime = \"runc\"\n" // crun fails where both versions of cgroups are mounted
	}
	path := filepath.Join(folder, "containers.conf")
	// The user's networks stay visible, so that podman takes no address of theirs.
	settings += "[network]\nnetwork_backend = \"netavark\"\n"
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_CONF", path)
	engineHere(t, "podman", folder, "127.0.0.1:1")
	packages, err := filepath.Abs("../../bin/podman-compose")
	if err != nil {
		t.Fatal(err)
	}
	c := &composition{program: filepath.Join(packages, "bin/podman-compose"), folder: filepath.Join(folder, "deploy")}
	t.Setenv("PYTHONPATH", packages)
	if said, err := exec.CommandContext(t.Context(), c.program, "--version").CombinedOutput(); err != nil {
		t.Skipf("compose.yaml is not run here, since podman-compose does not work: %v %s: make setup installs it", err, said)
	}
	project := "wirelab-test-" + strings.ToLower(rand.Text()[:8])
	t.Setenv("COMPOSE_PROJECT_NAME", project)
	t.Setenv("COMPOSE_FILE", "compose.yaml:override.yaml")

	end := exec.Command("sh", "-c", takeDown, "sh", project, folder) //nolint:noctx // it outlives the test
	end.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}            // Ctrl-C is not for it
	var said bytes.Buffer
	end.Stdout, end.Stderr = &said, &said
	stdin, err := end.StdinPipe()
	if err == nil {
		err = end.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := end.Wait(); err != nil {
			t.Errorf("take down %s: %v: %s", project, err, &said)
		}
	})
	return c
}

// run runs podman-compose, and returns what the service printed.
func (c *composition) run(t *testing.T, arguments ...string) ([]byte, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.program, arguments...)
	command.Dir, command.Stderr = c.folder, t.Output()
	command.Env = append(os.Environ(), "WIRELAB_TOKEN="+c.token)
	command.WaitDelay = 10 * time.Second // podman's processes may still have the output
	return command.Output()
}

// patiently runs podman-compose until done accepts what the service printed.
func (c *composition) patiently(t *testing.T, done func(text []byte) bool, arguments ...string) []byte {
	t.Helper()
	const patience = 2 * time.Minute // on a busy machine; it takes seconds
	for began := time.Now(); ; {
		text, err := c.run(t, arguments...)
		if err == nil && done(text) {
			return text
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v, podman-compose %v: %v: %s", patience, arguments, err, text)
		}
	}
}

// freeNetwork returns the first three numbers of a network that neither this machine nor podman uses.
func freeNetwork(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	used := fmt.Sprint(addresses)
	names, err := exec.CommandContext(t.Context(), "podman", "network", "ls", "--quiet").Output()
	if err != nil {
		t.Fatalf("podman network ls: %v", err)
	}
	for name := range strings.FieldsSeq(string(names)) {
		text, _ := exec.CommandContext(t.Context(), "podman", "network", "inspect", name).Output() // it may be gone
		used += string(text)
	}
	first := rand.Text()[0] // two tests that begin at once seldom choose the same
	for i := range byte(170) {
		if network := fmt.Sprintf("172.30.%d.", 78+(first+i)%170); !strings.Contains(used, network) {
			return network
		}
	}
	t.Skip("compose.yaml is not run here, since all networks from 172.30.78.0/24 on are in use")
	return ""
}

// The services of compose.yaml start as its first lines say, and a run measures all three agents.
func TestComposeFleetMeasures(t *testing.T) {
	c := podmanHere(t)
	if err := os.CopyFS(c.folder, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	const name = "localhost/wirelab:test"
	if err := load(t.Context(), "podman", name, imageHere(t), t.Output()); err != nil {
		t.Fatal(err)
	}
	probe := exec.CommandContext(t.Context(), "podman", "run", "--rm", "--network", "bridge", "--ulimit", "nofile=4096", "--ulimit", "nproc=4096", name, "--help")
	if said, err := probe.CombinedOutput(); err != nil {
		t.Skipf("compose.yaml is not run here, since podman cannot run a container with a network: %v: %s", err, said)
	}
	file := filepath.Join(c.folder, "compose.yaml")
	if _, err := writeName([]string{file}, name); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Services map[string]struct{ Command []string }
	}
	if err := yaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.ReplaceAll(string(text), "172.30.77.", freeNetwork(t))
	for path, text := range map[string]string{"compose.yaml": elsewhere, "override.yaml": override} {
		if err := os.WriteFile(filepath.Join(c.folder, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	always := func([]byte) bool { return true }
	if _, err := c.run(t, "up", "--detach", "hub"); err != nil {
		t.Fatalf("up hub: %v", err)
	}
	token := c.patiently(t, always, "exec", "-T", "hub", "wirelab", "fleet", "token", "--agents", "3")
	if err := os.WriteFile(filepath.Join(c.folder, "agent.token"), token, 0o644); err != nil { //nolint:gosec // as a shell does; the container has another user
		t.Fatal(err)
	}
	if _, err := c.run(t, "up", "--detach"); err != nil {
		t.Fatalf("up: %v", err)
	}
	want := []string{"client-1", "client-2", "server"}
	c.patiently(t, func(text []byte) bool {
		var agents []agent
		return json.Unmarshal(text, &agents) == nil && slices.Equal(namesOf(agents), want)
	}, "exec", "-T", "hub", "wirelab", "fleet", "list", "--json")
	controller := c.patiently(t, always, "exec", "-T", "hub", "wirelab", "fleet", "token", "--role", "controller", "--name", "measure")
	c.token = strings.TrimSpace(string(controller))
	for range 2 { // a run's results are not in the way of the next
		c.measure(t, read.Services["measure"].Command, want)
	}
}

type agent struct {
	Name string `json:"name"`
}

func namesOf(agents []agent) []string {
	var names []string
	for _, a := range agents {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names
}

// measure runs the service measure with few requests, and counts them.
func (c *composition) measure(t *testing.T, command, agents []string) {
	t.Helper()
	const invalid = 4 // other programs disturbed the trials; their requests count all the same
	shorter := append(slices.Clone(command), "-n", "20", "--repeat", "1")
	text, err := c.run(t, slices.Concat([]string{"--profile", "measure", "run", "--rm", "-T", "measure"}, shorter)...)
	if exit, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exit.ExitCode() != invalid) {
		t.Fatalf("run measure: %v: %s", err, text)
	}
	var run struct {
		Status string
		Trials struct{ Done, Failed int }
		Cells  []struct {
			Stack                    string
			Requests, Errors, Agents int
		}
		Fleet struct{ Agents []agent }
	}
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatalf("measure printed no JSON: %v: %s", err, text)
	}
	if run.Status != "done" || run.Trials.Done != 4 || run.Trials.Failed != 0 || len(run.Cells) != 4 {
		t.Errorf("the run is %+v; want 4 cells, and a trial of each", run)
	}
	if got := namesOf(run.Fleet.Agents); !slices.Equal(got, agents) {
		t.Errorf("the run is of the agents %v, want %v", got, agents)
	}
	for _, cell := range run.Cells {
		if cell.Requests != 16*20 || cell.Errors != 0 || cell.Agents != 2 {
			t.Errorf("%+v; want 20 requests of each of 16 callers, from 2 agents", cell)
		}
	}
}
