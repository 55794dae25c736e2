package foreign

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign/fortio"
	"wirelab.dev/internal/foreign/ghz"
	"wirelab.dev/internal/foreign/k6"
	"wirelab.dev/internal/foreign/oha"
	"wirelab.dev/internal/foreign/summary"
)

// pathOf returns the path of a report, by the tool in its name.
func pathOf(name string) string {
	tool, _, _ := strings.Cut(strings.TrimSuffix(name, ".json"), "-")
	if tool == "refused" {
		tool = "oha"
	}
	return filepath.Join(tool, "testdata", name)
}

func readFile(t *testing.T, name string) *summary.Result {
	t.Helper()
	data, err := os.ReadFile(pathOf(name + ".json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Summaries.Read(data)
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
		{"fortio", "fortio 1.65.0 127.0.0.1:39413 /users?limit=2 c=4 closed 0/s: 1200 calls, 0 failed, 4601394702 ns; mean 15298491, 10169608 to 326425589; 50: 11032967, 75: 12620690, 90: 18516129, 99: 85000000, 99.9: 318497912"},
		{"fortio-errors", "fortio 1.65.0 127.0.0.1:39413 /nope c=2 closed 0/s: 1200 calls, 1200 failed, 930818289 ns; mean 1535089, 70245 to 176844279; 50: 578387, 75: 832882, 90: 985579, 99: 36666667, 99.9: 166737712"},
		{"fortio-grpc", "fortio 1.65.0 127.0.0.1:39414 GRPC Ping c=2 closed 0/s: 200 calls, 200 failed, 63104125 ns; mean 609077, 47858 to 20580159; 50: 557383, 75: 814718, 90: 969120, 99: 9000000, 99.9: 20464127"},
		{"fortio-paced", "fortio 1.65.0 127.0.0.1:39413 /users?limit=2 c=4 paced 300/s: 199 calls, 0 failed, 1114788072 ns; mean 21138958, 10423070 to 136590765; 50: 13653846, 90: 34678571, 99: 120082954, 99.9: 134939984"},
		{"k6", "k6  http_req_duration c=4 unknown 0/s: 1200 calls, 0 failed, 3535690598 ns; mean 11403529, 10212584 to 60975246; 50: 11157423, 90: 11763363, 95: 12217378, 99: 14042326"},
		{"k6-handle", "k6  http_req_duration c=4 unknown 0/s: 1200 calls, 0 failed, 3395060482 ns; mean 11221438, 10112314 to 20290396; 50: 11067590, 90: 11699865, 95: 12377824"},
		{"k6-legacy", "k6  http_req_duration c=4 unknown 0/s: 1200 calls, 0 failed, 3470650989 ns; mean 11406910, 10146917 to 68123974; 50: 11132529, 90: 12093698, 95: 13102466"},
		{"k6-open", "k6  http_req_duration c=2 open 0/s: 1404 calls, 1404 failed, 1001195743 ns; mean 275372, 56435 to 7154203; 50: 207216, 90: 379431, 95: 572510"},
		{"oha", "oha  untold c=0 unknown 0/s: 1200 calls, 0 failed, 4016601724 ns; mean 13314704, 10230452 to 45542679; 10: 10594377, 25: 10782861, 50: 11366950, 75: 13035615, 90: 17470030, 95: 24128370, 99: 41441555, 99.9: 45459616, 99.99: 45542679"},
		{"oha-corrected", "oha  untold c=0 unknown 0/s: 188 calls, 0 failed, 1000855118 ns; mean 110914696, 10198515 to 409347687; 10: 10485041, 25: 11119087, 50: 12537934, 75: 210498735, 90: 387498138, 95: 397012808, 99: 405922081, 99.9: 409347687, 99.99: 409347687"},
		{"oha-errors", "oha  untold c=0 unknown 0/s: 200 calls, 200 failed, 30651036 ns; mean 215603, 25199 to 4643838; 10: 28966, 25: 35267, 50: 46848, 75: 145591, 90: 436650, 95: 991064, 99: 4554719, 99.9: 4643838, 99.99: 4643838"},
	} {
		if got := brief(readFile(t, test.file)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.file, got, test.want)
		}
	}
}

// brief is a result in a line.
func brief(r *summary.Result) string {
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
		{"fortio", "closed loop"},
		{"fortio", "within its own buckets, which are at least 1 ms wide"},
		{"fortio-grpc", "at least 1 ms (the default) wide"},
		{"fortio-paced", "held a rate with clients that wait"},
		{"fortio-paced", "sent faster to catch up"},
		{"oha", "does not say whether oha held a rate"},
		{"oha", "the number of clients is not in the file either"},
		{"oha-corrected", "oha cut off"},
		{"k6", "does not say whether k6 ran a closed loop or a schedule"},
		{"k6", "does not say what k6 called"},
		{"k6", "connecting, TLS and waiting for a free connection are not included"},
		{"k6-open", "skipped 599 iterations because no client was free"},
	} {
		if all := strings.Join(readFile(t, test.file).Remarks, "\n"); !strings.Contains(all, test.says) {
			t.Errorf("%s: want %q in:\n%s", test.file, test.says, all)
		}
	}
}

func TestFilesOfOneCellAreRepeats(t *testing.T) {
	var files []summary.File
	for _, name := range []string{"ghz", "ghz-paced", "ghz-2", "ghz-3"} {
		files = append(files, summary.File{Result: readFile(t, name), Name: name})
	}
	var got []string
	for _, r := range summary.Records(files) {
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
		{"Summary:\n  Count: 200", "found invalid JSON: line 1"},
		{"{\n\"a\": 1,\n}", "found invalid JSON: line 3"},
		{"[1]", "found JSON other than an object"},
		{"{}", "found a JSON object with no members"},
		{`{"b":1,"a":2,"c":3,"d":4,"e":5,"f":6}`, `found a JSON object with the members "a", "b", "c", "d", "e" and 1 more`},
	} {
		_, err := Summaries.Read([]byte(test.data))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v, want %q", test.data, err, test.says)
			continue
		}
		for _, tool := range Summaries {
			if !strings.Contains(err.Error(), tool.Tool+" ("+tool.Makes+")") {
				t.Errorf("%q: %v does not say that %s is read", test.data, err, tool.Tool)
			}
		}
	}
}

// A file whose figures contradict each other is refused, not read in part.
func TestContradictionsAreRefused(t *testing.T) {
	for _, test := range []struct{ file, old, replacement, says string }{
		{"ghz", `"count": 1200`, `"count": 0`, "the report holds no calls"},
		{"ghz", `"OK": 1200`, `"Unavailable": 1300`, "the report counts 1300 failures among 1200 calls"},
		{"ghz", `"total": 1996515134`, `"total": 0`, "the report lacks the duration of the run"},
		{"ghz", `"average": 5222557`, `"average": 9223372036854775807`, "ns in total"},
		{"ghz", `"fastest": 79269`, `"fastest": 179269000`, "the call times in the report are impossible"},
		{"ghz", `"latency": 213402`, `"latency": 13402`, "percentile 25 in the report is 13402 ns, which contradicts the other percentiles"},
		{"fortio", `"RequestedQPS": "max"`, `"RequestedQPS": "fast"`, `RequestedQPS in the report is "fast"`},
		{"fortio", `"Count": 1200`, `"Count": -1`, "the report holds no calls"},
		{"fortio", `"Max": 0.326425589`, `"Max": 1e300`, "the call times in the report are impossible"},
		{"refused-oha", `"totalData": 0`, `"totalData": 1`, `no request was answered: "Connection refused`},
		{"oha", `"200": 1200`, `"200": -1200`, "the report counts -1200 requests for one status or error"},
		{"oha", `"total": 4.016601724`, `"total": -4`, "the report lacks the duration of the run"},
		{"k6", `"http_req_duration"`, `"mine"`, "no call was timed"},
		{"k6", `"avg": 11.403528871666664`, `"mean": 11.403528871666664`, "has no avg: run k6 with --summary-trend-stats"},
		{"ghz", `"concurrency": 4`, `"concurrency": "4"`, "cannot unmarshal string"},
	} {
		data, err := os.ReadFile(pathOf(test.file + ".json"))
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), test.old, test.replacement, 1)
		if changed == string(data) {
			t.Fatalf("%s has no %s", test.file, test.old)
		}
		if _, err := Summaries.Read([]byte(changed)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %s: %v, want %q", test.file, test.replacement, err, test.says)
		}
	}
}

// k6 counts no gRPC calls unless it is asked to.
func TestK6SaysHowItCountsGRPCCalls(t *testing.T) {
	const times = `"avg": 1, "min": 0.5, "max": 3, "med": 0.9`
	form := `{"root_group": {}, "metrics": {"iterations": {"count": 40, "rate": 20}, "grpc_req_duration": {%s}}}`
	if _, err := Summaries.Read(fmt.Appendf(nil, form, times)); err == nil || !strings.Contains(err.Error(), "run k6 with --summary-trend-stats") {
		t.Errorf("without a count: %v", err)
	}
	r, err := Summaries.Read(fmt.Appendf(nil, form, times+`, "count": 80`))
	if err != nil || r.Calls != 80 || r.Window.Seconds() != 2 {
		t.Errorf("%+v, %v; want 80 calls in 2 s", r, err)
	}
}

func FuzzGhz(f *testing.F)    { fuzz(f, ghz.Summary) }
func FuzzOha(f *testing.F)    { fuzz(f, oha.Summary) }
func FuzzK6(f *testing.F)     { fuzz(f, k6.Summary) }
func FuzzFortio(f *testing.F) { fuzz(f, fortio.Summary) }

// fuzz wants whatever is read of a tool to be figures that a record can have.
func fuzz(f *testing.F, format summary.Format) {
	files, err := filepath.Glob(filepath.Join(format.Tool, "testdata", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no files of %s: %v", format.Tool, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Summaries.Read(data)
		if err != nil {
			return
		}
		one := summary.Records([]summary.File{{Result: r}})[0]
		if one.Service.Sum < 0 || one.Failed() > one.Requests || one.WindowNS <= 0 || one.Cell.Tool == "" || one.Foreign == nil {
			t.Fatalf("read %+v", one)
		}
		if rate := one.ThroughputPerSecond(); math.IsNaN(rate) || math.IsInf(rate, 0) {
			t.Fatalf("%v calls per second", rate)
		}
		if one.Response != nil || one.Client.UserNS != nil || one.Server.UserNS != nil || !slices.Contains([]string{"closed", "open", record.Paced, record.UnknownLoad}, one.Cell.Load.Model) {
			t.Fatalf("invented %+v", one)
		}
	})
}
