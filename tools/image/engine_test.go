package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"

	"wirelab.dev/tools/container"
)

// engineHere gives a program images and settings of this test alone, in a folder. It may read from a
// registry without TLS.
func engineHere(t *testing.T, program, folder, insecure string) {
	t.Helper()
	for variable, text := range map[string]string{
		"CONTAINERS_STORAGE_CONF":    fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = \"%[1]s/images\"\nrunroot = \"%[1]s/run\"\n", folder),
		"CONTAINERS_REGISTRIES_CONF": fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", insecure),
	} {
		path := filepath.Join(folder, variable)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, path)
	}
	if said, err := exec.CommandContext(t.Context(), program, "info").CombinedOutput(); err != nil {
		t.Skipf("no image is run here, since %s does not work: %v %s", program, err, said)
	}
}

// imageHere builds wirelab, and makes an image of it.
func imageHere(t *testing.T) v1.Image {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "wirelab")
	compile := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/wirelab")
	compile.Dir, compile.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, said)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	made, err := container.Program{Text: text, Arch: runtime.GOARCH, Version: "test", Time: time.Unix(1e9, 0)}.Image(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The real image is pushed, a hub and two agents run in it, and the digest is the registry's.
func TestImageRuns(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	engineHere(t, "buildah", t.TempDir(), host)
	digest, err := push(t.Context(), host+"/team/wirelab:test", imageHere(t))
	if err != nil {
		t.Fatal(err)
	}
	runFleet(t, host+"/team/wirelab@"+digest)
}

func TestPushIsExplained(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	_, err := push(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/wirelab:test", empty.Image)
	if err == nil || !strings.Contains(err.Error(), "nothing was written into deploy: log in to the registry") {
		t.Errorf("a registry that refuses: found %v", err)
	}
}

// inContainer returns a command of wirelab in a container. The container is a changed root: it needs
// no rights that this test does not have.
func inContainer(t *testing.T, container string, arguments ...string) *exec.Cmd {
	t.Helper()
	run := []string{"run", "--isolation", "chroot", "--env", "WIRELAB_TOKEN=" + os.Getenv("WIRELAB_TOKEN"), container, "--", "/usr/local/bin/wirelab"}
	command := exec.CommandContext(t.Context(), "buildah", append(run, arguments...)...)
	command.Stderr = t.Output()
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second // then it is killed
	return command
}

// start starts wirelab in a new container until the test ends, and returns its output.
func start(t *testing.T, image, container string, arguments ...string) io.Reader {
	t.Helper()
	if said, err := exec.CommandContext(t.Context(), "buildah", "from", "--name", container, image).CombinedOutput(); err != nil {
		t.Fatalf("buildah from: %v: %s", err, said)
	}
	command := inContainer(t, container, arguments...)
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() }) // t.Context has asked it to end
	return out
}

// runFleet runs a hub and two agents, each in a container of the image, until the hub lists both.
func runFleet(t *testing.T, image string) {
	t.Helper()
	var up struct {
		URLs []string `json:"urls"`
	}
	if err := json.NewDecoder(start(t, image, "hub", "fleet", "up", "--listen", "127.0.0.1:0", "--json")).Decode(&up); err != nil || len(up.URLs) != 1 {
		t.Fatalf("the hub is not up: %v, %v", up, err)
	}
	token, err := inContainer(t, "hub", "fleet", "token", "--agents", "0", "--valid", "0").Output()
	if err != nil {
		t.Fatalf("wirelab fleet token: %v", err)
	}
	t.Setenv("WIRELAB_TOKEN", strings.TrimSpace(string(token)))
	_ = start(t, image, "server", "agent", "--nats", up.URLs[0], "--name", "s1", "--labels", "role=server")
	_ = start(t, image, "client", "agent", "--nats", up.URLs[0], "--name", "c1", "--labels", "role=client")
	t.Setenv("WIRELAB_TOKEN", "")
	const patience = 2 * time.Minute // on a busy machine; it takes a second
	for began := time.Now(); ; {
		text, err := inContainer(t, "hub", "fleet", "list", "--json").Output()
		var agents []struct {
			Name string `json:"name"`
		}
		if err == nil {
			err = json.Unmarshal(text, &agents)
		}
		switch {
		case err == nil && len(agents) == 2 && agents[0].Name == "c1" && agents[1].Name == "s1":
			return
		case time.Since(began) > patience:
			t.Fatalf("after %v, the hub does not have both agents: %v, %v", patience, agents, err)
		}
	}
}
