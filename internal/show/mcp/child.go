package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	usualProgress = 2 * time.Second
	// endWithin is the time that an interrupted command gets for its report. Then it is killed.
	endWithin = 30 * time.Second
	// maxOutput limits what is kept of a command's output, and maxWords of its other lines.
	maxOutput, maxWords = 32 << 20, 4 << 10
)

// Exit codes of wirelab that come with a result, and what they mean. `wirelab --help` has all.
var exitCodes = map[int]string{
	0:   "",
	3:   "a gate is breached",
	4:   "the measurement is invalid, or it cannot tell",
	130: "the measurement ended early: its figures cover the time until then, and what was measured is kept",
}

// run runs a command and returns its JSON output. When the call or the server ends, or the command has
// taken its time, it interrupts the command, which then reports what it has measured.
func (s *server) run(ctx context.Context, call *sdk.CallToolRequest, what invocation) (*sdk.CallToolResult, any, error) {
	ctx, cancel := context.WithTimeout(ctx, what.limit)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	var out limitedBuffer
	words := &lastLines{}
	cmd := exec.CommandContext(ctx, s.Program, what.arguments...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = string(s.folder), strings.NewReader(what.input), &out, words
	cmd.Cancel = func() error { return interrupt(cmd.Process) }
	cmd.WaitDelay = endWithin
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", s.Program, err)
	}
	stop := s.notifyProgress(call, what, words)
	err := cmd.Wait()
	stop()
	_, exited := errors.AsType[*exec.ExitError](err)
	meaning, known := exitCodes[cmd.ProcessState.ExitCode()]
	if err != nil && !exited && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) || !known || !json.Valid(out.Bytes()) {
		return nil, nil, commandFailed(what, err, words)
	}
	result := json.RawMessage(out.Bytes())
	text := summarize(result)
	if meaning != "" {
		text += fmt.Sprintf("\nExit code %d: %s.", cmd.ProcessState.ExitCode(), meaning)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, result, nil
}

func commandFailed(what invocation, err error, words *lastLines) error {
	if text := strings.TrimSpace(words.String()); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("wirelab %s printed no result: %w", what.arguments[0], err)
}

// summarize returns the sentences of a result; the result itself if it has none.
func summarize(result json.RawMessage) string {
	var said struct {
		Answer    []string `json:"answer"`
		Words     []string `json:"words"`
		Directory string   `json:"directory"`
	}
	if json.Unmarshal(result, &said) != nil || len(said.Answer)+len(said.Words) == 0 {
		var short bytes.Buffer
		if json.Compact(&short, result) != nil {
			return string(result)
		}
		return short.String()
	}
	text := strings.Join(slices.Concat(said.Answer, said.Words), "\n")
	if said.Directory != "" {
		text += "\nThe run is in " + said.Directory + "."
	}
	return text
}

// notifyProgress tells the client every two seconds how far the command is, if the client asked for that.
// The caller must call stop, which waits for the last message.
func (s *server) notifyProgress(call *sdk.CallToolRequest, what invocation, words *lastLines) (stop func()) {
	token := call.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	began, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(cmp.Or(s.progressEvery, usualProgress))
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			err := call.Session.NotifyProgress(s.ended, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: time.Since(began).Seconds(), Total: what.limit.Seconds(), Message: cmp.Or(words.last(), "wirelab "+what.arguments[0]+" is running"),
			})
			if err != nil {
				return // the client has gone
			}
		}
	}()
	return func() { close(done); <-ended }
}

// interrupt asks a process to end. Where that is not possible, it kills the process.
func interrupt(process *os.Process) error {
	if err := process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return process.Kill()
	}
	return nil
}

// A limitedBuffer refuses output beyond maxOutput.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(data []byte) (int, error) {
	if b.Len()+len(data) > maxOutput {
		return 0, fmt.Errorf("the result has more than %d MiB", maxOutput>>20)
	}
	return b.Buffer.Write(data)
}

// lastLines keeps the end of a text. It may be used concurrently.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastLines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, data...)
	if over := len(l.text) - maxWords; over > 0 {
		l.text = slices.Delete(l.text, 0, over)
	}
	return len(data), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// last returns the last line.
func (l *lastLines) last() string {
	lines := strings.FieldsFunc(l.String(), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
