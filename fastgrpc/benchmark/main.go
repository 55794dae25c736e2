// Command benchmark compares fastgrpc with grpc-go's defaults on this machine.
//
// For every cell it starts a server and a client as processes of their own, pinned
// apart with taskset, so that each end's CPU time can be told from the other's. The
// cells of all pairs are interleaved, repeated, and their medians printed with the
// ratio to grpc-go on both ends. Only ratios within one run mean anything.
//
// The program runs itself: with -role it is one of the two ends. It must not know
// how either library works; both are driven through the same stubs.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"
)

// spec is one end's or one cell's work.
type spec struct {
	Cell    string
	Work    string // unary, put or get
	Client  string // grpc, fast or tcp, or a yardstick
	Server  string
	Size    int
	Callers int
	Conns   int
	Window  time.Duration
	Address string
	PID     int // of the server
}

// result is what a client measured in its window.
type result struct {
	PerSecond            float64 // calls, or for streams GB
	ClientCPU, ServerCPU float64 // seconds a call, or a GB
	Mean, P50, P99       time.Duration
}

func main() {
	role := flag.String("role", "", "server or client: one end of a cell, described on standard input")
	repeats := flag.Int("repeats", 3, "how often each cell runs")
	window := flag.Duration("window", time.Second, "how long each cell is measured")
	only := flag.String("cells", ".", "regular expression of the cells and ends to run, such as \"64B.* fast-fast\"")
	others := flag.Bool("yardsticks", false, "hold h2load, ghz and Caddy against the libraries too, where they are installed")
	serverCPU := flag.String("server-cpu", "1", "CPUs of the server, as taskset takes them")
	clientCPU := flag.String("client-cpu", "0", "CPUs of the client")
	flag.Parse()
	if *role != "" {
		var s spec
		if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
			log.Fatal(err)
		}
		if err := runRole(*role, s); err != nil {
			log.Fatalf("%s of %s: %v", *role, s.Cell, err)
		}
		return
	}
	run := &run{window: *window, serverCPU: *serverCPU, clientCPU: *clientCPU, results: map[string][]result{}}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		log.Fatalf("-cells: %v", err)
	}
	cells := allCells()
	if *others {
		cells = append(cells, yardsticks()...)
	}
	cells = slices.DeleteFunc(cells, func(s spec) bool {
		if !pattern.MatchString(s.key()) {
			return true
		}
		program := s.missing()
		if program != "" {
			fmt.Fprintf(os.Stderr, "%s is left out: there is no %s in PATH\n", s.key(), program)
		}
		return program != ""
	})
	for i := range *repeats {
		for _, cell := range cells {
			fmt.Fprintf(os.Stderr, "repeat %d: %s %s-%s\n", i+1, cell.Cell, cell.Client, cell.Server)
			if err := run.measure(cell); err != nil {
				log.Fatalf("%s %s-%s: %v", cell.Cell, cell.Client, cell.Server, err)
			}
		}
	}
	run.print(os.Stdout, cells)
}

// allCells lists the work of the table in the package's documentation.
func allCells() []spec {
	var cells []spec
	add := func(s spec, pairs ...[2]string) {
		for _, p := range pairs {
			s.Client, s.Server = p[0], p[1]
			cells = append(cells, s)
		}
	}
	grpcBoth, fastBoth := [2]string{"grpc", "grpc"}, [2]string{"fast", "fast"}
	mixed := [][2]string{grpcBoth, fastBoth, {"fast", "grpc"}, {"grpc", "fast"}}
	unary := func(name string, size, callers int, pairs ...[2]string) {
		add(spec{Cell: name, Work: "unary", Size: size, Callers: callers, Conns: 1}, pairs...)
	}
	unary("unary-64B-50", 64, 50, mixed...)
	unary("unary-4KiB-50", 4<<10, 50, mixed...)
	unary("unary-1KiB-500", 1<<10, 500, grpcBoth, fastBoth)
	unary("unary-64B-1", 64, 1, grpcBoth, fastBoth)
	unary("unary-64KiB-500", 64<<10, 500, grpcBoth, fastBoth)
	for _, n := range []int{1, 4, 16, 48} {
		unary(fmt.Sprintf("in-flight-%d", n), 64, n, fastBoth)
	}
	for _, n := range []int{2, 4} {
		add(spec{Cell: fmt.Sprintf("in-flight-48-pool-%d", n), Work: "unary", Size: 64, Callers: 48, Conns: n}, fastBoth)
	}
	for _, work := range []string{"put", "get"} {
		add(spec{Cell: work + "-16KiB", Work: work, Size: 16 << 10, Callers: 1, Conns: 1},
			grpcBoth, fastBoth, [2]string{"tcp", "tcp"})
	}
	return cells
}

// run is one run of the program and what it has measured.
type run struct {
	window               time.Duration
	serverCPU, clientCPU string
	results              map[string][]result
}

func (s spec) key() string { return s.Cell + " " + s.Client + "-" + s.Server }

// measure runs one cell once.
func (r *run) measure(s spec) error {
	s.Window = r.window
	if s.Callers*s.Size > manyBytes {
		s.Window *= 4 // one of grpc-go's calls may take seconds
	}
	server, err := r.startServer(&s)
	if err != nil {
		return err
	}
	defer server.stop()
	s.PID = server.cmd.Process.Pid
	if s.foreignClient() {
		res, err := r.measureForeign(s)
		r.results[s.key()] = append(r.results[s.key()], res)
		return err
	}
	client, err := r.start("client", r.clientCPU, s)
	if err != nil {
		return err
	}
	defer client.stop()
	var res result
	if err := json.NewDecoder(client.out).Decode(&res); err != nil {
		return fmt.Errorf("client measured nothing: %w", err)
	}
	r.results[s.key()] = append(r.results[s.key()], res)
	return nil
}

// manyBytes under way at once make calls slow.
const manyBytes = 16 << 20

type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out io.Reader
}

func (r *run) start(role, cpus string, s spec) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("taskset", "-c", cpus, self, "-role", role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	return &process{cmd, in, out}, json.NewEncoder(in).Encode(s)
}

// stop closes the process's input, at which it ends.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

func (r *run) print(w io.Writer, cells []spec) {
	const form = "%-22s %-10s %11s %10s %10s %10s %9s %9s | %s\n"
	fmt.Fprintf(w, form, "cell", "ends", "per second", "CPU/client", "CPU/server", "mean", "p99/p50", "CPU both", "against grpc-grpc")
	for _, s := range cells {
		res := r.results[s.key()]
		base := s
		base.Client, base.Server = "grpc", "grpc"
		mid := func(of []result, f func(result) float64) float64 { return median(of, f) }
		rate := func(x result) float64 { return x.PerSecond }
		both := func(x result) float64 { return x.ClientCPU + x.ServerCPU }
		mean := func(x result) float64 { return float64(x.Mean) }
		client := func(x result) float64 { return x.ClientCPU }
		server := func(x result) float64 { return x.ServerCPU }
		tail := func(x result) float64 { return float64(x.P99) / max(1, float64(x.P50)) }
		against := ""
		if b := r.results[base.key()]; len(b) > 0 && base.key() != s.key() {
			against = fmt.Sprintf("rate %.2fx  cpu %.3f (client %.3f server %.3f)  mean %.2f",
				mid(res, rate)/mid(b, rate), mid(res, both)/mid(b, both),
				mid(res, client)/mid(b, client), mid(res, server)/mid(b, server), mid(res, mean)/max(1, mid(b, mean)))
		}
		unit, scale := "us", 1e6
		if s.Work != "unary" {
			unit, scale = "s/GB", 1
		}
		fmt.Fprintf(w, form, s.Cell, s.Client+"-"+s.Server, fmt.Sprintf("%.4g", mid(res, rate)),
			fmt.Sprintf("%.2f%s", mid(res, client)*scale, unit), fmt.Sprintf("%.2f%s", mid(res, server)*scale, unit),
			time.Duration(mid(res, mean)).Round(time.Microsecond/10).String(), fmt.Sprintf("%.2f", mid(res, tail)),
			fmt.Sprintf("%.2f", mid(res, both)*scale), against)
	}
}

func median(of []result, f func(result) float64) float64 {
	values := make([]float64, len(of))
	for i, r := range of {
		values[i] = f(r)
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}
