package matrix

import (
	"slices"

	"wirelab.dev/internal/data/record"
)

// has reports whether a trial has figures of a kind: it came to a measurement, and no check spoils
// them.
func (t Trial) has(kind record.FigureKind) bool { return t.Failure == "" && t.SpoilerOf(kind) == nil }

// usable holds the measured trials of a cell, and those with figures of each kind. If no trial has a
// kind, it holds all trials as refused.
type usable struct{ all, times, cpu, bytes []Trial }

func newUsable(measured []Trial) usable {
	of := func(kind record.FigureKind) []Trial {
		kept := Filter(measured, func(t Trial) bool { return t.has(kind) })
		if len(kept) == 0 {
			return refuse(measured)
		}
		return kept
	}
	from := usable{measured, of(record.Times), of(record.CPUTime), of(record.Bytes)}
	if disturbed := Filter(from.times, func(t Trial) bool { return !t.has(record.AbsoluteTimes) }); 2*len(disturbed) >= len(from.times) {
		from.times = refuse(from.times)
	}
	return from
}

func refuse(trials []Trial) []Trial {
	refused := slices.Clone(trials)
	for i := range refused {
		refused[i].refused = true
	}
	return refused
}

// KindOf returns the kind of faults that spoil a metric of [Metrics].
func KindOf(metric string) record.FigureKind { return kindOf[metric] }

// WhyRefused returns the reason why a check refuses a metric of a repeat's trial, or "".
func (p *Point) WhyRefused(metric string, repeat int) string {
	for _, t := range p.MeasuredTrials() {
		if kind := kindOf[metric]; t.Repeat == repeat && kind != noKind && !t.has(kind) {
			return "refused, because " + t.SpoilerOf(kind).Detail
		}
	}
	return ""
}
