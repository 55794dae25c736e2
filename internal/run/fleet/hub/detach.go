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
	"strings"
	"syscall"
)

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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C at this terminal is not for it
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

// lastError returns why a hub in the background ended, as its log has it.
func lastError(log string, began int64) string {
	text, _ := os.ReadFile(log) // without it, what follows says where to look
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
