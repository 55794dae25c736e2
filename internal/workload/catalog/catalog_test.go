package catalog

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for _, w := range Workloads() {
		found, err := Find(w.Name())
		if err != nil || found != w {
			t.Errorf("Find(%q) = %v, %v", w.Name(), found, err)
		}
		if w.Describe() == "" || w.Operations() < 1 {
			t.Errorf("%s says of itself %q and has %d operations", w.Name(), w.Describe(), w.Operations())
		}
	}
	if _, err := Find("ehco"); err == nil || !strings.Contains(err.Error(), "echo") {
		t.Errorf("the error for ehco does not say what there is: %v", err)
	}
}
