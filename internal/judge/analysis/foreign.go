package analysis

import (
	"slices"

	"wirelab.dev/internal/data/record"
)

// foreignPrograms are those that measured what wirelab only read.
func foreignPrograms(records []*record.Record) []string {
	var programs []string
	for _, r := range records {
		if r.Foreign != nil && !slices.Contains(programs, r.Foreign.Program()) {
			programs = append(programs, r.Foreign.Program())
		}
	}
	return programs
}
