package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A sampleFile is a worker's file of samples, which comes in parts.
type sampleFile struct {
	path string // empty means that no samples are wanted

	guard sync.Mutex // guards the fields below
	file  *os.File   // the parts so far; nil before the first and after the last
	sum   hash.Hash
	bytes int64
	err   error // the first failure
}

// samplesPath returns the path of the file for the samples of an agent's client.
func samplesPath(path, agent string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + "-" + agent + extension
}

func (f *sampleFile) partPath() string { return f.path + ".part" }

// add adds the next part.
func (f *sampleFile) add(data []byte) {
	f.guard.Lock()
	defer f.guard.Unlock()
	if f.path == "" || f.err != nil {
		return
	}
	if f.file == nil {
		f.sum = sha256.New()
		if f.err = os.MkdirAll(filepath.Dir(f.path), 0o755); f.err != nil {
			return
		}
		if f.file, f.err = os.Create(f.partPath()); f.err != nil {
			return
		}
	}
	if f.bytes += int64(len(data)); f.bytes > maxSampleFile {
		f.err = fmt.Errorf("the samples have more than %d bytes", maxSampleFile)
		return
	}
	_, _ = f.sum.Write(data) // never fails
	_, f.err = f.file.Write(data)
}

// finish ends the file, which must be the one that the agent has sent.
func (f *sampleFile) finish(sent *sentSamples) error {
	f.guard.Lock()
	defer f.guard.Unlock()
	switch {
	case f.err != nil:
		return f.err
	case f.file == nil || f.bytes != sent.Bytes || hex.EncodeToString(f.sum.Sum(nil)) != sent.SHA256:
		return errors.New("the samples are not those that the agent has sent: a part is missing or damaged")
	}
	err := f.file.Close()
	f.file = nil
	return errors.Join(err, os.Rename(f.partPath(), f.path))
}

// discard removes a file that was not finished.
func (f *sampleFile) discard() {
	f.guard.Lock()
	defer f.guard.Unlock()
	if f.file != nil {
		_ = f.file.Close()
		_ = os.Remove(f.partPath()) // the error matters to nobody: the trial has failed
		f.file, f.err = nil, errors.New("the worker has ended")
	}
}
