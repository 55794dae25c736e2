package foreign

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/record"
)

func readFile(t *testing.T, name string) *Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// The figures are those that stand in the files.
func TestFiguresAreTheTools(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"ghz", "ghz 127.0.0.1:39411 wirelab.echo.v1.EchoService/Echo c=4 closed 0/s: 1200 calls, 0 failed, 1996515134 ns; mean 5222557, 79269 to 139901151; 10: 168292, 25: 213402, 50: 296113, 75: 2035805, 90: 11946689, 95: 29751930, 99: 84658841"},
		{"ghz-paced", "ghz 127.0.0.1:39411 wirelab.echo.v1.EchoService/Echo c=4 paced 200/s: 200 calls, 0 failed, 1450091965 ns; mean 3632772, 100812 to 155416564; 10: 216313, 25: 252662, 50: 419640, 75: 1148819, 90: 2647854, 95: 4527247, 99: 150898964"},
		{"ghz-open", "ghz 127.0.0.1:39411 wirelab.echo.v1.EchoService/Echo c=20 open 200/s: 200 calls, 0 failed, 1001424127 ns; mean 4690055, 104752 to 22356865; 10: 230709, 25: 285623, 50: 644831, 75: 8348661, 90: 21734068, 95: 21900100, 99: 22132842"},
	} {
		if got := brief(readFile(t, test.file)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.file, got, test.want)
		}
	}
}

// brief is a result in a line.
func brief(r *Result) string {
	failed := int64(0)
	for _, e := range r.Errors {
		failed += e.Count
	}
	var percentiles []string
	for _, p := range r.Times.Percentiles {
		percentiles = append(percentiles, fmt.Sprintf("%.4g: %d", 100*p.Quantile, p.Duration))
	}
	tool := strings.TrimSpace(r.Tool + " " + r.Version)
	return fmt.Sprintf("%s %s %s c=%d %s %g/s: %d calls, %d failed, %d ns; mean %.0f, %d to %d; %s",
		tool, r.Target, r.Workload, r.Clients, r.Load.Model, r.Load.RatePerSecond, r.Calls, failed, r.Window,
		float64(r.Times.Sum)/float64(r.Times.Count), r.Times.Min, r.Times.Max, strings.Join(percentiles, ", "))
}

// What a file's figures leave out is said.
func TestRemarksSayHowItWasMeasured(t *testing.T) {
	for _, test := range []struct{ file, says string }{
		{"ghz", "closed loop"},
		{"ghz-paced", "held a rate with clients that wait"},
		{"ghz-open", "without waiting for answers"},
	} {
		if all := strings.Join(readFile(t, test.file).Remarks, "\n"); !strings.Contains(all, test.says) {
			t.Errorf("%s: want %q in:\n%s", test.file, test.says, all)
		}
	}
}

func TestFilesOfOneCellAreRepeats(t *testing.T) {
	var files []File
	for _, name := range []string{"ghz", "ghz-paced", "ghz-2", "ghz-3"} {
		files = append(files, File{Result: readFile(t, name), Name: name})
	}
	var got []string
	for _, r := range Records(files) {
		got = append(got, fmt.Sprintf("%d %s %s %d", r.Trial, r.Foreign.File, r.Cell.Load.Model, r.Repeat))
	}
	want := []string{"0 ghz closed 1", "1 ghz-paced paced 1", "2 ghz-2 closed 2", "3 ghz-3 closed 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A file that is none of them is refused with what was found in it and what is read.
func TestOtherFilesAreRefused(t *testing.T) {
	for _, test := range []struct{ data, says string }{
		{"", "found an empty file"},
		{"Summary:\n  Count: 200", "found no JSON: line 1"},
		{"{\n\"a\": 1,\n}", "found no JSON: line 3"},
		{"[1]", "found JSON that is no object"},
		{"{}", "found a JSON object with no members"},
		{`{"b":1,"a":2,"c":3,"d":4,"e":5,"f":6}`, `found a JSON object with the members "a", "b", "c", "d", "e" and 1 more`},
	} {
		_, err := Read([]byte(test.data))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v, want %q", test.data, err, test.says)
			continue
		}
		for _, tool := range Tools {
			if !strings.Contains(err.Error(), tool.Name+" ("+tool.Makes+")") {
				t.Errorf("%q: %v does not say that %s is read", test.data, err, tool.Name)
			}
		}
	}
}

// A file whose figures contradict each other is refused, not read in part.
func TestContradictionsAreRefused(t *testing.T) {
	for _, test := range []struct{ file, old, replacement, says string }{
		{"ghz", `"count": 1200`, `"count": 0`, "it holds no calls"},
		{"ghz", `"OK": 1200`, `"Unavailable": 1300`, "it counts 1300 failures of 1200 calls"},
		{"ghz", `"total": 1996515134`, `"total": 0`, "it does not say how long the run took"},
		{"ghz", `"average": 5222557`, `"average": 9223372036854775807`, "ns together"},
		{"ghz", `"fastest": 79269`, `"fastest": 179269000`, "its calls take from"},
		{"ghz", `"latency": 213402`, `"latency": 13402`, "its percentile 25 is 13402 ns, which contradicts the others"},
		{"ghz", `"concurrency": 4`, `"concurrency": "4"`, "cannot unmarshal string"},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", test.file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), test.old, test.replacement, 1)
		if changed == string(data) {
			t.Fatalf("%s has no %s", test.file, test.old)
		}
		if _, err := Read([]byte(changed)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %s: %v, want %q", test.file, test.replacement, err, test.says)
		}
	}
}

func FuzzGhz(f *testing.F) { fuzz(f, ghz) }

// fuzz wants whatever is read of a tool to be figures that a record can have.
func fuzz(f *testing.F, tool Tool) {
	files, err := filepath.Glob(filepath.Join("testdata", tool.Name+"*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no files of %s: %v", tool.Name, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(data)
		if err != nil {
			return
		}
		one := Records([]File{{Result: r}})[0]
		if one.Service.Sum < 0 || one.Failed() > one.Requests || one.WindowNS <= 0 || one.Cell.Tool == "" || one.Foreign == nil {
			t.Fatalf("read %+v", one)
		}
		if rate := one.ThroughputPerSecond(); math.IsNaN(rate) || math.IsInf(rate, 0) {
			t.Fatalf("%v calls a second", rate)
		}
		if one.Response != nil || one.Client.UserNS != nil || one.Server.UserNS != nil || !slices.Contains([]string{"closed", "open", record.Paced, record.UnknownLoad}, one.Cell.Load.Model) {
			t.Fatalf("invented %+v", one)
		}
	})
}
