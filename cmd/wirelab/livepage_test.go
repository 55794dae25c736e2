package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestLivePage follows a run as a browser does: the page before the first trial, one after a
// trial, and the last one, which waits for no other.
func TestLivePage(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds; the full tests do")
	}
	command := exec.Command("wirelab", "compare", "--live", "--stack", "tcp", "--size", "64", "-c", "1", "-z", "300ms", "--repeat", "4",
		"--warm-up", "100ms", "-o", filepath.Join(t.TempDir(), "run"))
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() { // ends when the run says nothing more
		link := regexp.MustCompile(`^live: (http://\S+)$`)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if found := link.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	}()
	get := func(url string) io.Reader {
		t.Helper()
		response, err := http.Get(url) //nolint:gosec // the test's own server
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.Body
	}
	var url string
	select {
	case url = <-address:
	case <-time.After(time.Minute):
		t.Fatal("no address was told")
	}
	whole := func() string {
		t.Helper()
		text, err := io.ReadAll(get(url))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var pages []string
	const waits = `new EventSource("events")`
	events := bufio.NewScanner(get(url + "events"))
	// A browser that loads the last page hears no more events; this reader may have some left.
	for pages = append(pages, whole()); events.Scan() && strings.Contains(pages[len(pages)-1], waits); {
		if events.Text() == "data: changed" {
			pages = append(pages, whole())
		}
	}
	var exit *exec.ExitError
	if err := command.Wait(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitInvalid) {
		t.Errorf("the run ended with %v", err)
	}
	last := pages[len(pages)-1]
	if len(pages) < 3 || !strings.Contains(pages[0], waits) || !strings.Contains(pages[1], waits) || strings.Contains(last, waits) {
		t.Errorf("%d pages; the last waits for another: %v", len(pages), strings.Contains(last, waits))
	}
	if !strings.Contains(pages[1], `connect-src 'self'`) || strings.Contains(last, "connect-src") || !strings.Contains(last, `"variant":"tcp"`) {
		t.Error("a page may connect, and the last one may not and has the figures")
	}
}
