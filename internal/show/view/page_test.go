package view

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The page takes a twentieth of the time at most.
func TestLivePageIsSeldomWritten(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		cost, since time.Duration
		due         bool
	}{
		{0, 400 * time.Millisecond, false},
		{0, 500 * time.Millisecond, true},
		{time.Second, 19 * time.Second, false},
		{time.Second, 20 * time.Second, true},
	} {
		l := &Page{written: now.Add(-test.since), cost: test.cost}
		if l.isDue(now) != test.due {
			t.Errorf("%v after a page that took %v: due %v, want %v", test.since, test.cost, !test.due, test.due)
		}
	}
}

// Another site's name that was made to lead to this machine shows nothing of a run.
func TestLivePageIsForThisMachine(t *testing.T) {
	page := requireLoopbackHost(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:8080": http.StatusOK, "localhost": http.StatusOK, "[::1]:80": http.StatusOK, "[::1]": http.StatusOK,
		"wirelab.example:8080": http.StatusForbidden, "10.0.0.1": http.StatusForbidden, "": http.StatusForbidden,
	} {
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		request.Host = host
		answer := httptest.NewRecorder()
		if page.ServeHTTP(answer, request); answer.Code != want {
			t.Errorf("host %q: %d, want %d", host, answer.Code, want)
		}
	}
}
