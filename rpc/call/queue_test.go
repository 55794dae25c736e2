package rpccall

import "testing"

// TestQueue checks the order, that one message takes no memory of its own, and that a read
// message is not kept.
func TestQueue(t *testing.T) {
	var q Queue[*int]
	if _, ok := q.Take(); ok || q.Last() != nil {
		t.Error("an empty queue has a message")
	}
	numbers := []int{0, 1, 2, 3}
	for i := range numbers {
		q.Put(&numbers[i])
	}
	if **q.First() != 0 || **q.Last() != 3 || q.Len() != 4 {
		t.Errorf("%d messages from %d to %d, want 4 from 0 to 3", q.Len(), **q.First(), **q.Last())
	}
	for want := range numbers {
		if got, ok := q.Take(); !ok || *got != want {
			t.Fatalf("took %v, %v; want %d", got, ok, want)
		}
	}
	if q.first[0] != nil || q.items != nil {
		t.Error("an empty queue keeps memory")
	}
	if n := testing.AllocsPerRun(100, func() {
		q.Put(&numbers[0])
		q.Take()
	}); n != 0 {
		t.Errorf("one message allocates %v times", n)
	}
}
