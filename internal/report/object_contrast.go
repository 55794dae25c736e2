package report

import (
	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

// ContrastObject is what one choice changes: two variants of one stack that
// differ in one option of their connections, at the same point.
type ContrastObject struct {
	Part          string         `json:"part"`
	Stack         string         `json:"stack"`
	Option        string         `json:"option" jsonschema:"enum=conn,enum=cert,enum=group,enum=tls,enum=handshakes"` // which differs
	Base          string         `json:"base"`                                                                        // a variant
	Changed       string         `json:"changed"`                                                                     // a variant
	From          string         `json:"from"`                                                                        // the base's value of the option
	To            string         `json:"to"`                                                                          // the changed one's
	Workload      string         `json:"workload"`
	RequestBytes  int            `json:"request_bytes"`
	ResponseBytes int            `json:"response_bytes"`
	Clients       int            `json:"clients"`
	Load          record.Load    `json:"load"`
	Pairs         int            `json:"pairs"` // repeats in which both trials are valid
	Effects       []EffectObject `json:"effects"`
}

// EffectObject is one figure of the changed variant over the base's.
type EffectObject struct {
	Metric    string           `json:"metric" jsonschema:"enum=cpu,enum=throughput,enum=p99,enum=handshake,enum=first-byte,enum=server-peak"`
	Ratio     Number           `json:"ratio"`
	P         Number           `json:"p"`                                                                       // as a comparison's
	Verdict   analysis.Verdict `json:"verdict" jsonschema:"enum=more,enum=less,enum=equivalent,enum=undecided"` // more, less, equivalent or undecided
	Intervals IntervalsByField `json:"intervals"`
}

// SettingObject is one value that is not a library's default.
type SettingObject struct {
	Stack    string   `json:"stack"`
	Variants []string `json:"variants"` // that have it
	Side     string   `json:"side"`     // server, client or both
	Name     string   `json:"name"`
	Value    string   `json:"value"`
	Default  string   `json:"default"`
	Why      string   `json:"why"`
}

// MachineObject is one of the machine's limits, where the run came nearest to
// it.
type MachineObject struct {
	Name  string `json:"name"`
	Need  int64  `json:"need"`
	Have  int64  `json:"have"`
	Short bool   `json:"short"` // less was to be had than was needed
	Note  string `json:"note"`
	Cell  string `json:"cell"` // which came nearest
}

func contrastObject(c *analysis.Contrast) ContrastObject {
	return ContrastObject{
		Part: c.Part, Stack: c.Stack, Option: c.Option,
		Base: c.Base, Changed: c.Changed, From: c.From, To: c.To,
		Workload: c.Workload, RequestBytes: c.RequestBytes, ResponseBytes: c.ResponseBytes,
		Clients: c.Clients, Load: c.Load, Pairs: c.Pairs,
		Effects: each(c.Effects, func(e *analysis.Effect) EffectObject {
			intervals := IntervalsByField{}
			return EffectObject{
				Metric: e.Metric, Ratio: intervals.take("ratio", e.Ratio),
				P: Number(e.P), Verdict: e.Verdict, Intervals: intervals,
			}
		}),
	}
}

func settingObject(s *analysis.Setting) SettingObject {
	return SettingObject{
		Stack: s.Stack, Variants: listed(s.Variants),
		Side: s.Side, Name: s.Name, Value: s.Value, Default: s.Default, Why: s.Why,
	}
}

func machineObject(l *analysis.MachineLimit) MachineObject {
	return MachineObject{Name: l.Name, Need: l.Need, Have: l.Have, Short: l.Short, Note: l.Note, Cell: l.Cell}
}
