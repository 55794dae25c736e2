package interop

import (
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// tooShort is the one case that fails with h2spec's defaults. It sends a HEADERS frame of
// 20,000 bytes without a look at the server's SETTINGS_MAX_FRAME_SIZE, which it must
// exceed. Here that is 128 KiB, so the server rightly answers.
const tooShort = "http2/4.2 Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE"

// unlimited is the one case that h2spec leaves out, because the server advertises no limit.
const unlimited = "http2/5.1.2 Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded"

// TestH2spec runs all cases of h2spec, generic, http2 and hpack, with its defaults, and
// the case that then is not what it means to be with fields that are long enough.
func TestH2spec(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			t.Parallel()
			port := startServer(t, "ours/server", secure)
			total, failed := h2spec(t, port, secure)
			// 145 is how many this version has, with TLS one more.
			if total < 145 {
				t.Errorf("%d cases, want 145 or more", total)
			}
			if _, ok := failed[tooShort]; !ok {
				t.Errorf("%s: passes now, so it is not to be expected to fail", tooShort)
			}
			delete(failed, tooShort)
			delete(failed, unlimited)
			for _, name := range slices.Sorted(maps.Keys(failed)) {
				t.Errorf("%s:\n%s", name, failed[name])
			}
			total, failed = h2spec(t, port, secure, "--max-header-length", "30000", "http2/4.2")
			if total == 0 || len(failed) > 0 {
				t.Errorf("with fields of 30,000 bytes, of %d cases fail: %v", total, failed)
			}
		})
	}
}

// TestH2specOfOthers lists the cases that fail with grpc-go's server. Most of its time goes
// into waiting for answers that do not come.
func TestH2specOfOthers(t *testing.T) {
	if os.Getenv("JUDGES") == "" {
		t.Skip("it takes a minute, and only make judges runs it")
	}
	t.Parallel()
	total, failed := h2spec(t, startServer(t, "theirs/server", false), false)
	t.Logf("of %d cases grpc-go's server fails %d:", total, len(failed))
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		t.Log(name)
	}
	if len(failed) == 0 {
		t.Error("none fails with grpc-go's server, so it should be held to that too")
	}
}

// h2spec runs cases. It returns their number, and h2spec's text for each case that fails or
// is left out.
func h2spec(t *testing.T, port string, secure bool, more ...string) (total int, failed map[string]string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.xml")
	args := []string{"-h", "127.0.0.1", "-p", port, "-j", report}
	if secure {
		args = append(args, "-t", "-k")
	}
	out, err := exec.CommandContext(t.Context(), program(t, "theirs/h2spec"), append(args, more...)...).CombinedOutput()
	text, readErr := os.ReadFile(report) // its exit code is 1 where a case fails
	if readErr != nil {
		t.Fatalf("h2spec: %v\n%s", err, out)
	}
	var suites struct {
		Cases []struct {
			Package string  `xml:"package,attr"`
			Name    string  `xml:"classname,attr"`
			Failure *string `xml:"failure"`
			Error   *string `xml:"error"`
			Skipped *string `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	failed = map[string]string{}
	for _, c := range suites.Cases {
		for _, said := range []*string{c.Failure, c.Error, c.Skipped} {
			if said != nil {
				failed[c.Package+" "+c.Name] = *said
			}
		}
	}
	return len(suites.Cases), failed
}
