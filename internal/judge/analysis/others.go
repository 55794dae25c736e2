package analysis

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
)

// OtherPrograms holds the CPU time that other programs used during the trials.
type OtherPrograms struct {
	Share    float64        `json:"share"`    // share of the machine's CPU time, as a mean over the trials
	Programs []OtherProgram `json:"programs"` // at most three programs, the largest share first
}

// An OtherProgram is a program with its share of the machine's CPU time.
type OtherProgram struct {
	Name  string  `json:"name"` // the kernel's name of the process, at most 15 bytes
	Share float64 `json:"share"`
}

// maxOtherPrograms is the number of programs that a report names.
const maxOtherPrograms = 3

// otherProgramsOf adds up other programs' CPU time. It leaves out trials whose server may be one of
// these programs. It returns nil if no trial measured it.
func otherProgramsOf(records []*record.Record) *OtherPrograms {
	var all OtherPrograms
	trials := 0.0
	shares := map[string]float64{}
	for _, r := range records {
		if r.Host.OthersShare == nil || r.ServerMayBeOther() {
			continue
		}
		trials++
		all.Share += r.Host.TakenByOthers()
		for _, n := range r.Host.Takers() {
			shares[n.Name] += n.Share
		}
	}
	if trials == 0 {
		return nil
	}
	all.Share /= trials
	for name, share := range shares {
		if share /= trials; share >= all.Share/10 {
			all.Programs = append(all.Programs, OtherProgram{name, share})
		}
	}
	slices.SortFunc(all.Programs, func(a, b OtherProgram) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name)) })
	all.Programs = all.Programs[:min(len(all.Programs), maxOtherPrograms)]
	return &all
}
