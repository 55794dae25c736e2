package body

import (
	"bufio"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

func TestControls(t *testing.T) {
	for line, want := range map[string]worker.ControlOrder{
		`{"control":"end"}`:                 {Control: worker.EndControl},
		`{"control":"pause","why":"lunch"}`: {Control: worker.PauseControl},
		" {\"control\":\"resume\"}\r\n":     {Control: worker.ResumeControl},
		`{"control":"go","at_ns":17}`:       {Control: worker.GoControl, AtNS: 17},
		`{"control":"step","at_ns":17,"step":{"number":2,"rate_per_second":300,"duration_ns":4,"best":1}}`: {
			Control: worker.StepControl, AtNS: 17, Step: &load.Step{Number: 2, RatePerSecond: 300, DurationNS: 4, Best: 1},
		},
		`{"control":"open","at_ns":"17"}`: {},
		`{"control":"faster"}`:            {},
		`{"control":7}`:                   {},
		`{"role":"end"}`:                  {},
		`end`:                             {},
		``:                                {},
	} {
		if got := parseControl([]byte(line)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is the control %v, want %v", line, got, want)
		}
	}
}

// sleeper makes calls that take a moment.
type sleeper struct{}

func (sleeper) Call(context.Context) error { time.Sleep(time.Millisecond); return nil }

// What is no control is skipped, however long it is, and what follows is read.
func TestWhatIsNoControlIsSkipped(t *testing.T) {
	for name, input := range map[string]string{
		"at once":           `{"control":"end"}` + "\n",
		"last line":         `{"control":"end"}`,
		"behind others":     "\n{}\n{\"control\":\"dance\"}\n" + `{"control":"end"}` + "\n",
		"behind a long one": strings.Repeat("x", 3*maxControlBytes+7) + "\n" + `{"control":"end"}` + "\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			controls := &load.Controls{}
			readControls(bufio.NewReader(strings.NewReader(input)), controls)
			_, err := load.Run(t.Context(), load.Plan{
				Callers: []load.Caller{sleeper{}}, Duration: time.Second, Controls: controls, WarmUp: load.WarmUp{AtMost: time.Second},
			})
			if err == nil {
				t.Errorf("%s: a load that was told to end went on", name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		controls := &load.Controls{}
		readControls(bufio.NewReader(strings.NewReader(`{"control":"end","x":"`+strings.Repeat("x", maxControlBytes)+"\"}\n{}\n")), controls)
		r, err := load.Run(t.Context(), load.Plan{Callers: []load.Caller{sleeper{}}, Duration: time.Second, Controls: controls})
		if err != nil || r.EndedEarly {
			t.Errorf("a line that is too long was obeyed: %v", err)
		}
	})
}

func FuzzControl(f *testing.F) {
	for _, seed := range []string{`{"control":"end"}`, `{"control":"pause"}`, `{"control":"resume","at":1}`, `{"control":"go","at_ns":17}`, `{"control":"open","at_ns":-9223372036854775808}`, `{"control":"step","step":{"number":-1,"duration_ns":1}}`, `{"control":"step","step":null}`, `{"control":null}`, `[`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c := parseControl(line)
		var given map[string]any
		if !reflect.DeepEqual(c, worker.ControlOrder{}) && (json.Unmarshal(line, &given) != nil || len(given) == 0) {
			t.Errorf("%q is the control %v, and no object", line, c)
		}
		readControls(bufio.NewReader(strings.NewReader(string(line))), &load.Controls{})
	})
}
