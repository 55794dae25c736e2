package probe

import "testing"

// TestMeanBegunInTurns plants calls of 1 and of 40 ms that a probe does not change. Its turns are twice
// as long as its pauses.
func TestMeanBegunInTurns(t *testing.T) {
	const ms = 1_000_000
	var calls [][2]int64
	var on, off []Span
	for cycle := int64(0); cycle < 30_000*ms; cycle += 300 * ms {
		on = append(on, Span{BeginNS: cycle, EndNS: cycle + 200*ms - 1})
		off = append(off, Span{BeginNS: cycle + 200*ms, EndNS: cycle + 300*ms - 1})
	}
	for begin := int64(0); begin < 30_000*ms; begin += 2 * ms {
		calls = append(calls, [2]int64{begin, ms}, [2]int64{begin + ms, 40 * ms})
	}
	traced, bare := MeanBegunInTurns(calls, on, off)
	if *traced != 20.5*ms || *bare != 20.5*ms {
		t.Errorf("the means are %v and %v ns, want 20.5 ms", *traced, *bare)
	}
	if traced, bare := MeanInTurns(calls, on, off); *traced <= *bare {
		t.Errorf("of whole calls, the means are %v and %v ns, want the longer one in the longer spans", *traced, *bare)
	}
	if traced, bare := MeanBegunInTurns(calls[:10], off, nil); traced != nil || bare != nil {
		t.Errorf("without calls, the means are %v and %v", traced, bare)
	}
}
