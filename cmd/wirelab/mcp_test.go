package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"wirelab.dev/internal/foreign/flags"
)

// The tools are the commands: a client in another process gets what the commands print, by their schemas.
func TestToolsOfMCP(t *testing.T) {
	var bodies, wrong atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		bodies.Add(1)
		if body, _ := io.ReadAll(r.Body); string(body) != "@mcp_test.go" {
			wrong.Add(1)
		}
	}))
	defer service.Close()
	kept, runs := "testdata", t.TempDir()
	reading := client(t, exec.Command("wirelab", "mcp", "--runs", kept))
	loading := client(t, exec.Command("wirelab", "mcp", "--runs", runs, "--allow-load"))
	for _, c := range []struct {
		on        *sdk.ClientSession
		tool      string
		arguments map[string]any
		schema    string // empty if the call fails
		says      string
	}{
		{reading, "runs", nil, "runs", `"directory":"kept"`},
		{reading, "report", map[string]any{"run": "kept"}, "compare", "Trust: "},
		{reading, "diff", map[string]any{"before": "kept", "after": "kept", "fail_if": []string{"mean>+10%"}}, "diff", "Exit code 4: "},
		{reading, "diff", map[string]any{"before": "kept", "after": "../.."}, "", "is outside"},
		{reading, "explain", map[string]any{"run": "kept"}, "", "has no probes"},
		{loading, "load", map[string]any{"target": service.URL, "body": "@mcp_test.go", "requests": 20, "clients": 2}, "compare", "The run is in wirelab-runs/load-"},
		{loading, "load", map[string]any{"target": "http://127.0.0.1@example.com/"}, "", "example.com is not on loopback"},
		{loading, "load", map[string]any{"target": "http://127.0.0.1:1/"}, "", "refused"},
		{loading, "compare", map[string]any{"stacks": []string{"gprc"}}, "", "did you mean grpc"},
		{loading, "compare", map[string]any{"stacks": []string{"kitex"}}, "", "this server builds no programs"},
		{loading, "runs", nil, "runs", `"name":"load"`},
	} {
		result, err := c.on.CallTool(t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: c.arguments})
		if err != nil {
			t.Fatalf("%s %v: %v", c.tool, c.arguments, err)
		}
		if text := result.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, c.says) || result.IsError != (c.schema == "") {
			t.Errorf("%s %v: found %q, error %v; want %q", c.tool, c.arguments, text, result.IsError, c.says)
		}
		if c.schema != "" {
			follows(t, c.schema, result.StructuredContent)
		}
	}
	if bodies.Load() < 20 || wrong.Load() > 0 {
		t.Errorf("the service got %d requests, %d of them with another body", bodies.Load(), wrong.Load())
	}
}

// commandInBackquotes is a command line in AGENTS.md.
var commandInBackquotes = regexp.MustCompile("`(wirelab [^`]+)`")

func TestCommandsForProgramsAreUnderstood(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "AGENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := commandInBackquotes.FindAllStringSubmatch(string(text), -1)
	for _, command := range found {
		words, err := flags.Split(command[1], func(string) (string, bool) { return "1", true })
		if err == nil {
			err = understood(words[1:])
		}
		if err != nil {
			t.Errorf("AGENTS.md: %s: %v", command[1], err)
		}
	}
	if lines := strings.Count(string(text), "\n"); len(found) < 10 || lines > 60 {
		t.Errorf("AGENTS.md has %d commands in %d lines, want at least 10, and at most 60 lines", len(found), lines)
	}
}

func client(t *testing.T, cmd *exec.Cmd) *sdk.ClientSession {
	t.Helper()
	on, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := on.Close(); err != nil {
			t.Errorf("the server ends with %v", err)
		}
	})
	return on
}

func follows(t *testing.T, name string, value any) {
	t.Helper()
	schema, err := validator.NewCompiler().Compile(schemaPath(name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := validator.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(plain); err != nil {
		t.Error(err)
	}
}
