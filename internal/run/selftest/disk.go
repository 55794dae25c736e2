package selftest

import (
	"context"
	"errors"
	"os"
	"time"
)

// disk is a process that writes to a file and syncs it.
type disk struct {
	File  string        `json:"file"`
	Bytes int           `json:"bytes"`
	Every time.Duration `json:"every,omitempty"` // 0: without a pause
}

func (d *disk) play(ctx context.Context, ready func(string)) (err error) {
	file, err := os.Create(d.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content := make([]byte, d.Bytes)
	ready("")
	for ctx.Err() == nil {
		if _, err := file.WriteAt(content, 0); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(d.Every):
		}
	}
	return nil
}
