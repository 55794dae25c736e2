package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
)

// Each job answers, with and without its fault.
func TestJobs(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(list))
	defer backend.Close()
	for name, begin := range jobs(backend.URL) {
		for _, fault := range []bool{false, true} {
			if _, err := exec.LookPath("true"); err != nil && name == "thumbnail" && fault {
				t.Log("not tested: the fault of thumbnail starts the program true, which is not installed")
				continue
			}
			answer := httptest.NewRecorder()
			begin(fault)(answer, httptest.NewRequest(http.MethodGet, "/?n=3", http.NoBody))
			if answer.Code != http.StatusOK || answer.Body.Len() == 0 {
				t.Errorf("%s, fault %t: status %d and %d B", name, fault, answer.Code, answer.Body.Len())
			}
		}
	}
}

// The back end is asked once for ten items without the fault, and ten times with it.
func TestItems(t *testing.T) {
	calls := 0
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		list(w, r)
	}))
	defer backend.Close()
	for fault, want := range map[bool]int{false: 1, true: 10} {
		calls = 0
		items(backend.URL, fault)(httptest.NewRecorder(), nil)
		if calls != want {
			t.Errorf("fault %t: %d calls, want %d", fault, calls, want)
		}
	}
}
