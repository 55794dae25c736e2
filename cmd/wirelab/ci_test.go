package main

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// A pipeline has the parts of a workflow of GitHub and of a file of GitLab that have shell steps.
type pipeline struct {
	Jobs map[string]struct {
		Steps []struct{ Run string }
	}
	AB struct{ Script []string } `yaml:"ab"`
}

// pipelineSteps returns the shell steps of each recipe on the page, by the name of its job.
func pipelineSteps(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]string{}
	for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		var p pipeline
		if err := yaml.Unmarshal(block[1], &p); err != nil {
			t.Fatalf("recipe %d: %v", i+1, err)
		}
		for name, job := range p.Jobs {
			for _, step := range job.Steps {
				steps["github "+name] += step.Run
			}
		}
		if len(p.AB.Script) > 0 {
			steps["gitlab"] = strings.Join(p.AB.Script, "\n")
		}
	}
	return steps
}

const pipelineServer = `package main

import (
	"net/http"
	"os"
	"time"
)

func main() {
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(5 * time.Millisecond)
	})))
}
`

// TestPipelines runs the shell steps of docs/ci.md in a clone of a repository with a small server.
func TestPipelines(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the recipes measure for a minute")
	}
	for _, program := range []string{"git", "curl", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the recipes need ", program, ": ", err)
		}
	}
	folder := t.TempDir()
	if output, err := exec.Command("go", "build", "-o", filepath.Join(folder, "bin", "wirelab"), ".").CombinedOutput(); err != nil {
		t.Fatalf("build wirelab: %v:\n%s", err, output)
	}
	var notes []string
	gitlab := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/projects/7/merge_requests/8/notes" || r.Header.Get("PRIVATE-TOKEN") != "secret" {
			http.Error(w, "want the notes of the merge request, and its token", http.StatusNotFound)
			return
		}
		notes = append(notes, r.FormValue("body"))
	}))
	defer gitlab.Close()
	run := func(directory, script string, env ...string) {
		t.Helper()
		shell := exec.Command("bash", "-eo", "pipefail", "-c", script) // as runners of GitHub do
		shell.Dir = directory
		shell.Env = append(os.Environ(), append(env, "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"), "HOME="+folder, "GOFLAGS=-mod=mod",
			"GOCACHE="+goVariable(t, "GOCACHE"), "GOMODCACHE="+goVariable(t, "GOMODCACHE"), "GOWORK=off", "GITHUB_STEP_SUMMARY="+filepath.Join(folder, "summary.md"),
			"CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main", "CI_PROJECT_ID=7", "CI_MERGE_REQUEST_IID=8", "WIRELAB_TOKEN=secret", "CI_API_V4_URL="+gitlab.URL+"/api")...)
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v:\n%s", script, err, output)
		}
	}
	origin, clone := filepath.Join(folder, "origin"), filepath.Join(folder, "clone")
	if err := os.Mkdir(origin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": pipelineServer, "go.mod": "module server\n\ngo 1.24\n"} {
		if err := os.WriteFile(filepath.Join(origin, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const identity = "git config user.email a@example.org; git config user.name a\n"
	run(origin, "git init -q -b main; "+identity+"git add .; git commit -qm base")
	run(folder, "git clone -q origin clone; cd clone; "+identity+"git checkout -qb change; echo '// a change' >>main.go; git commit -qam head")

	steps := pipelineSteps(t)
	if len(steps) != 3 {
		t.Fatalf("found the recipes %v, want three", steps)
	}
	port := "PORT=" + quietPort(t)
	for _, name := range []string{"github ab", "gitlab"} {
		const budget = "--budget 1m"
		if !strings.Contains(steps[name], budget) {
			t.Errorf("the recipe %s has no %s to shorten", name, budget)
		}
		steps[name] = strings.ReplaceAll(steps[name], budget, "--repeat 3 -z 300ms")
	}
	run(clone, steps["github ab"])
	run(clone, "rm -r ab; "+steps["gitlab"])
	run(clone, steps["github load"], port)
	run(clone, "rm -r run; "+steps["github load"], port) // with a baseline

	summary, err := os.ReadFile(filepath.Join(folder, "summary.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#### Head (127.0.0.1:", "| mean>+20% |", "#### Since baseline", "| mean>+50% |"} {
		if !strings.Contains(string(summary), want) {
			t.Errorf("the summary lacks %q:\n%s", want, summary)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "#### Head (127.0.0.1:") {
		t.Errorf("the merge request has the notes %q", notes)
	}
}

// goVariable returns a setting of go, for a shell with another home.
func goVariable(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}

// quietPort returns a free port that the kernel does not give to other tests meanwhile: it is below
// the ports that the kernel chooses.
func quietPort(t *testing.T) string {
	t.Helper()
	const lowest, ports = 20_000, 10_000
	for range 100 {
		port := strconv.Itoa(lowest + rand.IntN(ports))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
