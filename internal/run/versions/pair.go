package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// A Pair holds the two versions of a comparison, the base and the head, and how to start them.
type Pair struct {
	FromGit      bool          // the versions are revisions of a git repository, not commands
	StartCommand string        // of revisions
	Build        string        // of revisions; empty means that nothing is built
	StartWithin  time.Duration // longest time until a version listens
	Keeper       []string      // the command of a keeper (see Keep)
	In           host.StartOptions
	Notes        io.Writer // says what is started

	Versions [2]Version

	folder   string // a temporary folder for logs and worktrees
	checkout *Checkout
	servers  []*Server
}

// Check checks the arguments of a command line: base, head and target. other is a target in place of
// the one in the file that the third argument names, or empty.
func (p *Pair) Check(arguments []string, other string) error {
	const usage = "wirelab ab './old --port $PORT' './new --port $PORT' -- 'http://127.0.0.1:$PORT/'"
	switch {
	case len(arguments) != 3:
		return fmt.Errorf("found %d arguments: give the base, the head and the target, as in %s", len(arguments), usage)
	case p.FromGit && p.StartCommand == "":
		return errors.New("--git: the command that starts the service is missing: add --start, as in --start './server --port $PORT'")
	case !p.FromGit && p.StartCommand+p.Build != "":
		return errors.New("--start and --build are about revisions of a git repository: add --git, or leave them out")
	}
	target := cmp.Or(other, arguments[2])
	if (Version{Port: 1}).Expand(target) == target {
		return fmt.Errorf("the target %s has no $%[2]s, so both versions would be called at one address: write it in single quotes, as in 'http://127.0.0.1:$%[2]s/'; for a file of users, give --target", target, PortVariable)
	}
	return nil
}

// Prepare makes the versions of two commands or revisions. Call Stop also after an error.
func (p *Pair) Prepare(ctx context.Context, base, head string) (err error) {
	if p.folder, err = os.MkdirTemp("", "wirelab-ab-"); err != nil {
		return err
	}
	if p.FromGit {
		return p.checkOut(ctx, [2]string{base, head})
	}
	return p.use([2]string{base, head})
}

// use makes the versions from two commands.
func (p *Pair) use(commands [2]string) error {
	ports, err := FreePorts()
	if err != nil {
		return err
	}
	for i, name := range [2]string{record.BaseVersion, record.HeadVersion} {
		p.Versions[i] = Version{Name: name, Command: commands[i], Port: ports[i], Log: filepath.Join(p.folder, name+".log")}
	}
	return nil
}

// checkOut makes the versions from two revisions, which it builds.
func (p *Pair) checkOut(ctx context.Context, revisions [2]string) (err error) {
	if err := p.use([2]string{p.StartCommand, p.StartCommand}); err != nil {
		return err
	}
	if p.checkout, err = NewCheckout(ctx, p.folder, revisions); err != nil {
		return err
	}
	for i := range p.Versions {
		p.Versions[i].Folder = p.checkout.Folders[i]
		fmt.Fprintf(p.Notes, "%s: %s, commit %s\n", p.Versions[i].Name, revisions[i], p.checkout.Commits[i])
	}
	return p.checkout.Build(ctx, p.Build)
}

// Start starts both versions on the same CPUs, and waits until they listen on the host of the URL.
func (p *Pair) Start(ctx context.Context, on string) error {
	for _, v := range p.Versions {
		s, err := Start(p.Keeper, v, p.In)
		if err != nil {
			return err
		}
		p.servers = append(p.servers, s)
		for _, warning := range s.Warnings {
			fmt.Fprintf(p.Notes, "warning: %s: %s\n", v.Name, warning)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.StartWithin, fmt.Errorf("nothing listened within %v of --start-within", p.StartWithin))
	defer cancel()
	for _, s := range p.servers {
		if err := s.Await(ctx, net.JoinHostPort(on, strconv.Itoa(s.Port))); err != nil {
			return err
		}
	}
	return nil
}

// Ended returns an error if a version has ended by itself.
func (p *Pair) Ended() error {
	var err error
	for _, s := range p.servers {
		err = cmp.Or(err, s.Ended())
	}
	return err
}

// keptLogBytes is the length of each version's output that a run keeps: the end of it.
const keptLogBytes = 1 << 20

// KeepLogs copies the end of the versions' output into a directory.
func (p *Pair) KeepLogs(directory string) error {
	var errs []error
	for _, v := range p.Versions {
		text, err := ReadEnd(v.Log, keptLogBytes)
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, v.Name+".log"), text, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Stop ends the versions, and removes their worktrees and logs.
func (p *Pair) Stop() {
	for _, s := range p.servers {
		s.Stop()
	}
	if p.checkout != nil {
		p.checkout.Remove()
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder) // it lies in the system's own folder for such files
	}
}
