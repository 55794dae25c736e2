package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
	"wirelab.dev/studies"
)

// A Library reads scenarios: the studies that wirelab carries, and files.
type Library struct {
	CheckColumn func(name string) error // of the table that a study asks for
}

// Vocabulary returns what a scenario may name in this program.
func (l Library) Vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant: checkVariant,
		Secure:       catalog.Secure,
		CheckWorkload: func(text string) error {
			_, _, err := workloads.Find(text)
			return err
		},
		Sized:        IsSized,
		CheckPayload: checkPayload,
		Published:    published,
		CheckColumn:  l.CheckColumn,
	}
}

// published reads the figures of a study that wirelab carries, or of a CSV file.
func published(name string) (*claim.Cited, error) {
	text, err := studies.FS.ReadFile("published/" + name + ".csv")
	if err != nil {
		if text, err = ReadFile(name, maxScenarioBytes); err != nil {
			return nil, fmt.Errorf("%q is no study and no CSV file: %w", name, err)
		}
	}
	table, err := claim.ReadCited(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

// studyEnding is the ending of a study's file name.
const studyEnding = ".yaml"

// Study reads a study of the program's own by its name.
func (l Library) Study(name string) (*scenario.Scenario, error) {
	data, err := studies.FS.ReadFile(name + studyEnding)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, l.Vocabulary())
}

// StudyNames returns the studies that wirelab carries.
func StudyNames() []string {
	files, err := studies.FS.ReadDir(".")
	if err != nil {
		panic(err) // they are in the program
	}
	var names []string
	for _, f := range files {
		if !f.IsDir() { // a folder has what was published
			names = append(names, strings.TrimSuffix(f.Name(), studyEnding))
		}
	}
	return names
}

// Scenario finds a study by its name, or reads a file.
func (l Library) Scenario(name string) (*scenario.Scenario, error) {
	study, err := l.Study(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return study, err
	}
	data, err := ReadFile(name, maxScenarioBytes)
	if errors.Is(err, fs.ErrNotExist) {
		hint := ""
		if meant, found := spelling.Meant(name, StudyNames()); found {
			hint = "; did you mean " + meant + "?"
		}
		return nil, fmt.Errorf("%s is neither a study (%s) nor a file%s", name, strings.Join(StudyNames(), ", "), hint)
	}
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, l.Vocabulary())
}

// maxScenarioBytes bounds what is read as a scenario, or as the CSV file that one names:
// another's scenario may name a device that never ends.
const maxScenarioBytes = 8 << 20

// ReadFile reads a file, or what a process writes into one, up to a limit.
func ReadFile(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d MiB, which is more than such a file needs", name, most>>20)
	}
	return data, err
}
