package versions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"wirelab.dev/internal/base/system"
)

// A Checkout holds the worktrees of two revisions of a git repository. The repository's own files,
// also those with changes, stay as they are.
type Checkout struct {
	Folders [2]string // where to build and start each revision: the worktree's folder that matches the current one
	Commits [2]string // abbreviated names of the commits

	root      string
	worktrees []string
}

// NewCheckout makes worktrees of two revisions below root, an existing folder. Call Remove also
// after an error.
func NewCheckout(ctx context.Context, root string, revisions [2]string) (*Checkout, error) {
	c := &Checkout{root: root}
	inside, err := git(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return c, fmt.Errorf("--git: %w: run wirelab in the repository of the service", err)
	}
	for i, name := range [2]string{"base", "head"} {
		commit, err := git(ctx, "rev-parse", "--short", "--verify", "--end-of-options", revisions[i]+"^{commit}")
		if err != nil {
			return c, fmt.Errorf("--git %s: %w: name a branch, a tag or a commit; fetch it first if only a remote has it (git fetch origin)", revisions[i], err)
		}
		c.Commits[i] = commit
		worktree := filepath.Join(root, name)
		c.worktrees = append(c.worktrees, worktree)
		if _, err := git(ctx, "worktree", "add", "--detach", worktree, commit); err != nil {
			return c, fmt.Errorf("--git %s: make a worktree: %w", revisions[i], err)
		}
		c.Folders[i] = filepath.Join(worktree, filepath.FromSlash(inside))
	}
	return c, nil
}

// Build runs a shell command in the folder of each revision.
func (c *Checkout) Build(ctx context.Context, command string) error {
	for i, folder := range c.Folders {
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("--git: commit %s does not have this folder: start wirelab in a folder that both revisions have", c.Commits[i])
		}
		build := exec.CommandContext(ctx, "sh", "-c", command) //nolint:gosec // the user's own command
		build.Dir = folder
		system.OwnGroup(build)
		build.Cancel = func() error { return system.KillGroup(build.Process.Pid) } // with all that it started
		build.WaitDelay = time.Second
		if output, err := build.CombinedOutput(); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("--build of commit %s: %w: it must succeed in a fresh worktree of the commit, without files that git ignores%s", c.Commits[i], err, lastLinesOf(string(output)))
		}
	}
	return nil
}

// Remove removes the worktrees, and what git keeps about them.
func (c *Checkout) Remove() {
	ctx := context.Background() // also after Ctrl-C
	for _, worktree := range c.worktrees {
		_, _ = git(ctx, "worktree", "remove", "--force", worktree) // it may not exist
		_ = os.RemoveAll(worktree)
	}
	_, _ = git(ctx, "worktree", "prune")
}

// git runs a git command in the current directory, and returns its trimmed output.
func git(ctx context.Context, arguments ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "git", arguments...).Output() //nolint:gosec // git, with arguments of this package
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		said := strings.TrimSpace(string(failed.Stderr))
		return "", errors.New("git: " + said[strings.LastIndex(said, "\n")+1:])
	}
	return strings.TrimSpace(string(output)), err
}
