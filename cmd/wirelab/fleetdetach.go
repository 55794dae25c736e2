package main

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

	"wirelab.dev/internal/run/fleet"
)

// upDetached starts the same command in the background, and returns when agents can join it.
// What it says then, it says on standard output, once; errors go to its log.
func (a *app) upDetached(ctx context.Context, f *upFlags) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find wirelab's own program: %w", err)
	}
	stateDir, err := fleet.StateDir(f.name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the fleet's state: %w", err)
	}
	log, err := os.OpenFile(fleet.LogFile(stateDir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	began, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	cmd := exec.Command(program, f.arguments()...)
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
	var r upReport
	if err := json.NewDecoder(output).Decode(&r); err != nil {
		_ = cmd.Wait()
		return errors.New(lastError(fleet.LogFile(stateDir), began))
	}
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	return a.printUp(f, r)
}

// arguments are the same flags, for a hub that says in JSON when it is up.
func (f *upFlags) arguments() []string {
	args := []string{"fleet", "up", "--json", "--name=" + f.name, "--listen=" + f.listen}
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				args = append(args, flag+"="+value)
			}
		}
	}
	add("--advertise", f.advertise...)
	add("--agent", f.agents...)
	add("--hub", f.cluster.Name)
	add("--cluster", f.cluster.Listen)
	add("--route", f.cluster.Routes...)
	add("--keys", f.keys)
	if f.noTLS {
		args = append(args, "--no-tls")
	}
	return args
}

// lastError is what a hub in the background said of why it ended.
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
