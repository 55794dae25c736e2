package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/wire/service"
)

// The server is told the name that --host or a field of the header says.
func TestHostIsTold(t *testing.T) {
	var told sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told.Store(r.Host, true) }))
	t.Cleanup(server.Close)
	for name, flags := range map[string][]string{"a.example": {"--host", "a.example"}, "b.example": {"-H", "Host: b.example"}} {
		command := exec.Command("wirelab", append([]string{"load", "-n", "2", "-c", "1", "-o", t.TempDir() + "/run", server.URL}, flags...)...)
		said, _ := command.CombinedOutput() // that two requests are no valid measurement is not the point
		if _, is := told.LoadAndDelete(name); !is {
			t.Errorf("%v: the server did not get %s: %s", flags, name, said)
		}
		told.Range(func(other, _ any) bool { t.Errorf("%v: the server was told %v", flags, other); return true })
		told.Clear()
	}
}

// A name without an address is said when it is looked up first, and not looked up again.
func TestMissingNameIsSaidAtOnce(t *testing.T) {
	err := (&app{}).askPermission(t.Context(), &loadFlags{}, service.Target{Host: "nowhere.invalid"})
	if err == nil || !strings.Contains(err.Error(), "found no address for the host nowhere.invalid") {
		t.Errorf("found %v", err)
	}
}

// wirelab load has all flags that lines of other tools are translated to. The table of its own flags
// has all flags of wirelab load: one that it lacks would make a typed line another tool's.
func TestLoadAndItsTableHaveTheSameFlags(t *testing.T) {
	known := (&app{}).loadCommand().Flags()
	own := []string{"--help", "-h"}
	for _, option := range flags.Own.Options {
		for name := range strings.FieldsSeq(option.Names) {
			own = append(own, name)
			long, isLong := strings.CutPrefix(name, "--")
			short := strings.TrimPrefix(name, "-")
			if isLong && long != "help" && known.Lookup(long) == nil || !isLong && short != "h" && known.ShorthandLookup(short) == nil {
				t.Errorf("wirelab load has no %s", name)
			}
		}
	}
	known.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(own, "--"+flag.Name) || flag.Shorthand != "" && !slices.Contains(own, "-"+flag.Shorthand) {
			t.Errorf("flags.Own lacks --%s %s", flag.Name, flag.Shorthand)
		}
		switch flag.Value.Type() {
		case "bool":
			typed := []string{"--json", "--" + flag.Name, "http://a/"}
			if read, notes, err := foreign.Commands.TranslateArguments(typed); err != nil || len(notes) > 0 || !slices.Equal(read, typed) {
				t.Errorf("%v is read as %v: %v, %v", typed, read, notes, err)
			}
		case "stringArray":
			// -q belongs to another tool.
			typed := []string{"-q", "5", "--" + flag.Name, "a:1:b:2", "--" + flag.Name, "c:3:d:4", "http://a/"}
			if read, _, err := foreign.Commands.TranslateArguments(typed); err != nil || !slices.Contains(read, "a:1:b:2") || !slices.Contains(read, "c:3:d:4") {
				t.Errorf("%v is read as %v: %v", typed, read, err)
			}
		}
	})
}
