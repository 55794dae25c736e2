package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// The report of a load that is written again later is the same, since the records have all
// that it shows.
func TestTheReportOfALoadIsTheSameLater(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%10 == 0 {
			http.Error(w, "the database is away", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	run := filepath.Join(t.TempDir(), "run")
	measured, err := exec.Command("wirelab", "load", "-n", "300", "-c", "4", "-o", run, server.URL+"/items").CombinedOutput()
	page := filepath.Join(run, "report.html")
	first, unread := os.ReadFile(page)
	if unread != nil {
		t.Fatalf("%v, %v:\n%s", err, unread, measured)
	}
	for _, has := range []string{`"said":"GET /items over HTTP/1.1"`, `"name":"500 Internal Server Error"`, `"spread":[{`} {
		if !bytes.Contains(first, []byte(has)) {
			t.Errorf("the page does not have %s", has)
		}
	}
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("wirelab", "report", run).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	again, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, again) {
		t.Error("the page that was written later is another one")
	}
}
