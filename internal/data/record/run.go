package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"wirelab.dev/internal/base/system"
)

// The files of this package in a run directory. docs/records.md lists the other files.
const (
	manifestFile = "manifest.json"
	recordsFile  = "records.jsonl"
	samplesDir   = "samples"
)

var errLocked = errors.New("another process is writing this run: wait for it, or stop it")

// errNoRun means that the directory lacks a file that Create writes.
var errNoRun = errors.New("not a run directory: want both " + manifestFile + " and " + recordsFile + " in it")

func explainMissingFile(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errNoRun
	}
	return err
}

// A Run is a run directory. After Create or Resume, one goroutine at a time can write the run, and
// Finish must end it. After Open, the run can only be read.
type Run struct {
	Dir string
	// Manifest describes the plan of the run. Warnings, Until and Anchor may grow until Finish.
	Manifest Manifest
	// Warnings lists faults of the directory that Open found. The run can be read in spite of these
	// faults.
	Warnings []string

	records journal // locked; has no file if the run is only read
	done    map[int]bool
	memory  *memory // nil if the run is only on disk
}

// Create begins a run in a directory that has no run yet. It makes the directory if necessary.
func Create(dir string, m Manifest) (*Run, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create a run: %w", err)
	}
	r := &Run{Dir: dir, Manifest: m, done: map[int]bool{}}
	if err := r.openForWriting(os.O_RDWR | os.O_CREATE); err != nil {
		return nil, fmt.Errorf("create a run: %w", err)
	}
	if err := r.startWriting(); err != nil {
		return nil, errors.Join(fmt.Errorf("create a run: %w", err), r.records.close())
	}
	return r, nil
}

const maxNumberedNames = 1000

// CreateFree begins a run in a new directory. Its name is dir, or the first free one of dir-2,
// dir-3, … if dir exists. Concurrent processes get different names.
func CreateFree(dir string, m Manifest) (*Run, error) {
	name, err := MakeFree(dir)
	if err != nil {
		return nil, fmt.Errorf("create a run: %w", err)
	}
	return Create(name, m)
}

// MakeFree makes the first free one of the directories dir, dir-2, dir-3, …, with its parents.
func MakeFree(dir string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	name := dir
	for n := 2; ; n++ {
		err := os.Mkdir(name, 0o755) // fails if the directory exists
		if err == nil || !errors.Is(err, fs.ErrExist) || n > maxNumberedNames {
			return name, err
		}
		name = fmt.Sprintf("%s-%d", dir, n)
	}
}

func (r *Run) startWriting() error {
	info, err := r.records.file.Stat()
	if err != nil {
		return err
	}
	_, err = os.Stat(r.path(manifestFile))
	if info.Size() > 0 || err == nil {
		return fmt.Errorf("%s already holds a run: choose another directory, or continue it with `wirelab run --resume %s`", r.Dir, r.Dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Manifest.Status = Running
	return r.writeManifest()
}

// Open reads a run, finished or not, and checks every line of it. Meanwhile another process may
// write the run.
func Open(dir string) (*Run, error) {
	r := &Run{Dir: dir, done: map[int]bool{}}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("open run %s: %w", dir, err)
	}
	return r, nil
}

// Resume opens a run to append the trials that are not Done. It removes an incomplete last line,
// which a killed process may have left.
func Resume(dir string) (*Run, error) {
	r := &Run{Dir: dir, done: map[int]bool{}}
	if err := r.openForWriting(os.O_RDWR); err != nil {
		return nil, fmt.Errorf("resume run %s: %w", dir, err)
	}
	if err := r.continueRun(); err != nil {
		return nil, errors.Join(fmt.Errorf("resume run %s: %w", dir, err), r.records.close())
	}
	return r, nil
}

func (r *Run) continueRun() error {
	if err := r.read(); err != nil {
		return err
	}
	if err := r.records.file.Truncate(r.records.end); err != nil {
		return err
	}
	r.Manifest.Status, r.Manifest.Ended = Running, nil
	return r.writeManifest()
}

// Done reports whether a trial has a record.
func (r *Run) Done(trial int) bool { return r.done[trial] }

// SamplesFile returns the name of the file for a trial's samples, relative to the directory. The
// caller must make the folder.
func (r *Run) SamplesFile(trial int) string {
	return filepath.ToSlash(filepath.Join(samplesDir, fmt.Sprintf("%05d.parquet", trial)))
}

// Records yields the records in the order in which the trials ended. It keeps only one record in
// memory. It ends with an error at a damaged line, or at a trial that is not in the plan.
func (r *Run) Records() iter.Seq2[Record, error] {
	if r.memory != nil {
		return r.memory.all
	}
	return func(yield func(Record, error) bool) {
		file, err := os.Open(r.path(recordsFile))
		if err != nil {
			yield(Record{}, fmt.Errorf("read records: %w", err))
			return
		}
		defer file.Close() //nolint:errcheck // it was only read
		planned := r.planned()
		for l, err := range readLines(file) {
			var torn *tornError
			if errors.As(err, &torn) {
				// an incomplete last line: another process may be writing this line
				return
			}
			if err == nil {
				err = planned.check(l)
			}
			if err != nil {
				err = fmt.Errorf("read records: %s: %w", file.Name(), err)
			}
			if !yield(l.record, err) {
				return
			}
		}
	}
}

// A plan holds the planned trials of a run.
type plan map[PlannedTrial]bool

func (r *Run) planned() plan {
	all := plan{}
	for _, trial := range r.Manifest.Order {
		trial.Block = 0                    // a record's block may lack trials that were measured before a kill
		trial.Cell = afterPath(trial.Cell) // earlier plans had GET //c=1
		all[trial] = true
	}
	return all
}

func (p plan) check(l line) error {
	r := &l.record
	if len(p) == 0 || p[PlannedTrial{Trial: r.Trial, Repeat: r.Repeat, Cell: r.Cell.Key()}] {
		return nil
	}
	return fmt.Errorf("line %d holds trial %d, repeat %d of %s, which is not in this run's plan: the line belongs to another run, or the run used a peer or wirelab's source, which are not here: resume it where it began",
		l.number, r.Trial, r.Repeat, r.Cell.Key())
}

// Append writes a complete record. If it returns nil, the record is on disk. If it returns an
// error, the file is unchanged.
func (r *Run) Append(record Record) error {
	record.Version = Version
	err := r.mayAppend(record)
	if err == nil {
		err = r.write(record)
	}
	if err != nil {
		return fmt.Errorf("append the record of trial %d: %w", record.Trial, err)
	}
	r.done[record.Trial] = true
	return nil
}

func (r *Run) write(record Record) error {
	if enough, err := r.memory.keep(record); enough || err != nil || r.Dir == "" {
		return err
	}
	return r.survive(r.records.append(record))
}

func (r *Run) mayAppend(record Record) error {
	switch {
	case r.records.file == nil && r.Dir != "":
		return fmt.Errorf("run %s is not open for writing", r.Dir)
	case record.Trial < 0:
		return errors.New("want a trial number of 0 or more")
	case r.done[record.Trial]:
		return errors.New("the trial already has a record")
	}
	return nil
}

// Replan replaces the plan by a longer plan. It also writes other changes of the manifest. If it
// returns nil, the manifest is on disk.
func (r *Run) Replan(order []PlannedTrial) error {
	r.Manifest.Order, r.Manifest.Trials = order, len(order)
	if err := r.writeManifest(); err != nil {
		return fmt.Errorf("write the longer plan: %w", err)
	}
	return nil
}

// Finish ends the writing of a run. It stores the final status and releases the lock.
func (r *Run) Finish(status Status) error {
	if r.records.file == nil && r.Dir != "" {
		return fmt.Errorf("finish run %s: it is not open for writing", r.Dir)
	}
	ended := time.Now()
	r.Manifest.Status, r.Manifest.Ended = status, &ended
	err := errors.Join(r.writeManifest(), r.survive(r.records.close()))
	if err != nil {
		return fmt.Errorf("finish run %s: %w", r.Dir, err)
	}
	return nil
}

func (r *Run) path(name string) string { return filepath.Join(r.Dir, name) }

// openForWriting opens and locks the records. On a system without locks it adds a warning, because
// other processes could write the run too.
func (r *Run) openForWriting(flags int) error {
	file, err := os.OpenFile(r.path(recordsFile), flags|os.O_APPEND, 0o644)
	if err != nil {
		return explainMissingFile(err)
	}
	err = lock(file)
	if errors.Is(err, errors.ErrUnsupported) {
		r.Warnings = append(r.Warnings, err.Error())
		err = nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", file.Name(), err), file.Close())
	}
	r.records.file = file
	return nil
}

// read reads the manifest and all records. It finds the completed trials and the end of the last
// complete line.
func (r *Run) read() error {
	if err := r.readManifest(); err != nil {
		return err
	}
	file, err := os.Open(r.path(recordsFile))
	if err != nil {
		return explainMissingFile(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	for l, err := range readLines(file) {
		var torn *tornError
		switch {
		case errors.As(err, &torn):
			r.Warnings = append(r.Warnings, recordsFile+": "+torn.Error())
		case err != nil:
			return fmt.Errorf("%s: %w", file.Name(), err)
		default:
			r.done[l.record.Trial] = true
			r.records.end = l.end
		}
	}
	return nil
}

func (r *Run) readManifest() error {
	name := r.path(manifestFile)
	file, err := os.Open(name)
	if err != nil {
		return explainMissingFile(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxLineBytes))
	if err != nil {
		return err
	}
	r.Manifest, err = decodeManifest(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeManifest replaces the manifest in one step. At any instant, a reader finds either the old
// manifest or the new one.
func (r *Run) writeManifest() error {
	if r.isOnlyInMemory() {
		return nil
	}
	return r.survive(r.replaceManifest())
}

func (r *Run) replaceManifest() error {
	r.Manifest.Version = Version
	data, err := json.MarshalIndent(r.Manifest, "", "  ")
	if err != nil {
		return err
	}
	unfinished := r.path(manifestFile + ".tmp")
	if err := writeSynced(unfinished, append(data, '\n')); err != nil {
		return err
	}
	if err := os.Rename(unfinished, r.path(manifestFile)); err != nil {
		return err
	}
	return system.SyncFolder(r.Dir)
}

// Newest returns the run directories in a folder, the latest written first. It returns at most
// maxRuns, and leaves out runs whose records exceed maxBytes. A missing folder gives an empty list.
func Newest(folder string, maxRuns int, maxBytes int64) []string {
	type dated struct {
		directory string
		written   time.Time
	}
	var runs []dated
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		directory := filepath.Join(folder, entry.Name())
		manifest, known := statFile(filepath.Join(directory, manifestFile), maxBytes)
		if _, recorded := statFile(filepath.Join(directory, recordsFile), maxBytes); !known || !recorded {
			continue
		}
		runs = append(runs, dated{directory, manifest.ModTime()})
	}
	slices.SortFunc(runs, func(a, b dated) int {
		return cmp.Or(b.written.Compare(a.written), cmp.Compare(b.directory, a.directory))
	})
	var names []string
	for _, run := range runs[:min(len(runs), maxRuns)] {
		names = append(names, run.directory)
	}
	return names
}

func statFile(name string, maxBytes int64) (info os.FileInfo, ok bool) {
	info, err := os.Stat(name)
	return info, err == nil && info.Mode().IsRegular() && info.Size() <= maxBytes
}

// ReadManifest reads only the manifest of a run directory.
func ReadManifest(dir string) (Manifest, error) {
	r := Run{Dir: dir}
	err := r.readManifest()
	return r.Manifest, err
}
