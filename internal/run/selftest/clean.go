package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"wirelab.dev/internal/machine/host"
)

// clean removes what a stage leaves on the machine when its input ends: with the stage, or when
// wirelab was killed. Unlike other disturbers it outlives wirelab.
type clean struct {
	Folder string   `json:"folder"`
	Groups []string `json:"groups"` // control groups; those that were not made are passed over
}

func (c *clean) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	err := patiently(func() error { return os.RemoveAll(c.Folder) })
	for _, group := range c.Groups {
		err = errors.Join(err, removeGroup(group))
	}
	return err
}

// groupName returns the name of this process's control group.
func groupName() string { return fmt.Sprintf("wirelab-selftest-%d", os.Getpid()) }

// removeGroup removes a control group, if it is there.
func removeGroup(folder string) error {
	return patiently(func() error {
		if err := os.Remove(folder); !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}

// patiently repeats an action that fails while killed processes have not ended yet.
func patiently(do func() error) (err error) {
	for range 50 {
		if err = do(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// errNoStage means that no situation can be staged.
var errNoStage = errors.New("nothing can be staged")

// newFolder makes the stage's folder, and starts what removes it.
func (s *Stage) newFolder() (err error) {
	if s.directory, err = os.MkdirTemp("", "wirelab-selftest-"); err != nil {
		return fmt.Errorf("%w: %w", errNoStage, err)
	}
	if _, err = s.start(&clean{Folder: s.directory, Groups: host.QuotaGroupFolders(groupName())}, host.Surroundings{}); err != nil {
		return fmt.Errorf("%w: %w", errNoStage, errors.Join(err, os.RemoveAll(s.directory)))
	}
	return nil
}
