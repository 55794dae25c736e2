// Package mcp offers wirelab's commands as tools of the Model Context Protocol, on standard input and
// output.
//
//	client ── tools/call ──> arguments ── checked ──> command line ──> wirelab … --json, a child process
//	       <── result, progress ─────────────────── standard output, standard error
//
// A tool has no code of its own that measures or judges: it runs the command that a user would run, and
// hands on what that prints. This package decides only what a client may ask for: which tools there are,
// which runs they read, which servers they load, and for how long.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wirelab.dev/docs/schema"
)

// Options say what a server offers.
type Options struct {
	Version string
	Program string // wirelab's own program, which the tools start
	Runs    string // the folder whose runs the tools read, and where they write new ones

	// AllowLoad also offers the tools that measure. They load servers on loopback, and at Targets:
	// each is a HOST, or a HOST:PORT.
	AllowLoad bool
	Targets   []string

	// Address returns where a target of `wirelab load` is.
	Address func(target string) (host, port string, err error)
	// Variants returns how many variants a list has, and whether one needs a program that must be built first.
	Variants func(list string) (count int, needsBuild bool, err error)

	progressEvery time.Duration // 0 stands for two seconds
}

// A server runs the tools. Its methods may be called concurrently.
type server struct {
	Options
	folder  folder
	ended   context.Context
	calls   sync.WaitGroup
	measure sync.Mutex // held during a measurement: two at a time would disturb each other
}

const instructions = `wirelab compares RPC wire protocols and loads services, and says which differences are real.
Answers have a grade: certain, likely or open. Do not recommend anything that is open. A figure that is null
was not measured, or was refused: its reason is in the warnings. Paths of runs are relative to the server's folder;
the tool "runs" lists them. Figures are in structuredContent, and each name has its unit.`

// Serve answers a client's requests until it closes its end, or the context ends. It waits for the
// commands that it started.
func Serve(ctx context.Context, o Options, in io.ReadCloser, out io.WriteCloser) error {
	if len(o.Targets) > 0 && !o.AllowLoad {
		return errors.New("--allow-target names a server to load, but without --allow-load no tool loads: add --allow-load")
	}
	for _, target := range o.Targets {
		if strings.ContainsAny(target, "/@ ") || target == "" {
			return fmt.Errorf("--allow-target: found %q: want a host or HOST:PORT, as in shop.test or 10.0.0.7:8080", target)
		}
	}
	at, err := openFolder(o.Runs)
	if err != nil {
		return fmt.Errorf("--runs: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{Options: o, folder: at, ended: ctx}
	defer s.calls.Wait()
	defer cancel()
	offered := sdk.NewServer(&sdk.Implementation{Name: "wirelab", Title: "wirelab", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions, Capabilities: &sdk.ServerCapabilities{},
	})
	if err := s.addTools(offered); err != nil {
		return err
	}
	err = offered.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) {
		return nil // the client has gone
	}
	return err
}

// A tool describes a tool to clients.
type tool struct {
	name, title, about string
	schema             string // names the schema of the result
	measures           bool
}

// An invocation is the command line that does a tool's work.
type invocation struct {
	arguments []string
	input     string        // standard input
	limit     time.Duration // the command is interrupted after this time
}

// request is a tool's arguments, as the client gives them.
type request interface {
	// invocation checks the arguments and returns the command.
	invocation(s *server) (invocation, error)
}

func addTool[R request](s *server, to *sdk.Server, t tool) error {
	described := &sdk.Tool{Name: t.name, Description: t.about, Annotations: &sdk.ToolAnnotations{
		Title: t.title, ReadOnlyHint: !t.measures, DestructiveHint: new(false), OpenWorldHint: new(t.measures && len(s.Targets) > 0),
	}}
	text, err := schema.Read(t.schema)
	if err == nil {
		described.OutputSchema, err = outlineOf(text)
	}
	if err != nil {
		return fmt.Errorf("the tool %s: %w", t.name, err)
	}
	sdk.AddTool(to, described, func(ctx context.Context, call *sdk.CallToolRequest, asked R) (*sdk.CallToolResult, any, error) {
		s.calls.Add(1)
		defer s.calls.Done()
		what, err := asked.invocation(s)
		if err != nil {
			return nil, nil, err
		}
		if t.measures {
			if !s.measure.TryLock() {
				return nil, nil, errors.New("another measurement is running, and would disturb this one: call again when it has ended")
			}
			defer s.measure.Unlock()
		}
		return s.run(ctx, call, what)
	})
	return nil
}

// A schemaPart holds the keywords of a schema that an outline keeps.
type schemaPart struct {
	Type        any                   `json:"type,omitempty"`
	Description string                `json:"description,omitempty"`
	Properties  map[string]schemaPart `json:"properties,omitempty"`
	Required    []string              `json:"required,omitempty"`

	Address     string                `json:"$id,omitempty"`
	Ref         string                `json:"$ref,omitempty"`
	Definitions map[string]schemaPart `json:"$defs,omitempty"`
}

// outlineOf returns a schema with the members of the result, but not their members. Clients put the
// schemas of all tools into a model's context: whole ones took 175 KB. Three tools print the same
// result, so the outline has no $id: validators refuse a second schema with a known one.
func outlineOf(text []byte) (schemaPart, error) {
	var whole schemaPart
	if err := json.Unmarshal(text, &whole); err != nil {
		return whole, err
	}
	outline := schemaPart{
		Type: whole.Type, Required: whole.Required, Properties: map[string]schemaPart{},
		Description: "Outline. The whole schema is at " + whole.Address,
	}
	for name, member := range whole.Properties {
		if of, found := whole.Definitions[strings.TrimPrefix(member.Ref, "#/$defs/")]; found {
			member.Type = of.Type
		}
		outline.Properties[name] = schemaPart{Type: member.Type, Description: member.Description}
	}
	return outline, nil
}
