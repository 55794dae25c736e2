package plan

import (
	"fmt"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

func checkVariant(v scenario.Variant, p scenario.Part) error {
	if err := catalog.Check(v); err != nil {
		return err
	}
	if err := catalog.CheckConnection(v, p.Connection); err != nil {
		return err
	}
	if err := catalog.CheckNetwork(v, p.Network); err != nil {
		return err
	}
	if err := CheckCarries(v, p.Workload); err != nil {
		return err
	}
	return catalog.CheckLoad(v, p)
}

// IsSized reports whether a workload takes sizes. It is true for unknown workloads, which
// CheckWorkload reports.
func IsSized(text string) bool {
	w, _, err := workloads.Find(text)
	return err != nil || w.Info().Sized
}

func checkPayload(p scenario.Part, payload scenario.Payload) error {
	w, settings, err := workloads.Find(p.Workload)
	if err != nil {
		return err
	}
	return w.Check(workload.Parameters{
		RequestBytes: int(payload.Request), ResponseBytes: int(payload.Response), Settings: settings, Definition: p.Definition,
	})
}

// CheckCarries checks that a variant has the kinds of call that a workload makes.
func CheckCarries(v scenario.Variant, text string) error {
	s, err := catalog.Find(v.Stack)
	if err != nil {
		return err
	}
	w, settings, err := workloads.Find(text)
	if err != nil {
		return err
	}
	if _, pools := w.(workload.Pooling); catalog.PoolsMessages(v) && !pools {
		return fmt.Errorf("variant %s: %s has no messages to use again: set messages=pooled only with workloads that stream bulk, as store does", v, w.Info().Name)
	}
	streaming, ok := w.(workload.Streaming)
	if !ok {
		return stack.CheckKind(s, v, stack.Unary)
	}
	for _, desc := range streaming.Streams(workload.Parameters{Settings: settings}) {
		if err := stack.CheckKind(s, v, stack.KindOf(desc)); err != nil {
			return fmt.Errorf("%s calls by %s: %w", text, stack.KindOf(desc), err)
		}
	}
	return nil
}
