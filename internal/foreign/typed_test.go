package foreign

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/foreign/flags"
)

// What is typed behind wirelab load, and what it becomes; empty: it stays.
func TestHabits(t *testing.T) {
	for _, test := range []struct{ typed, want, told string }{
		// wirelab's own stays.
		{typed: "-c 10 -z 5s http://a/"},
		{typed: "--rps 100 --arrivals poisson -m POST -d @body.json -T application/json -k https://a/"},
		{typed: "--insecure grpcs://a:1/p.S/M"},
		{typed: "--plaintext --call p.S/M a:1"},
		{typed: "--from curl 'curl -X POST http://a/'"},
		{typed: ""},
		{typed: "--help"},
		{typed: "-n 5 --json --no-sav http://a/"}, // a typing error is no data

		{typed: "-e gzip --binary --call p.S/M a:1"},

		// One letter, several senses.
		{"-e -B m.bin --call p.S.M a:1", "-e gzip --binary -D m.bin --call p.S/M a:1", "-e is read as -e gzip"},
		{"-d 30s http://a/", "-z 30s http://a/", "-d 30s is read as -z 30s"},
		{"-t12 -c400 -d30s --latency http://a/", "-c 400 -z 30s http://a/", "-t is left out"},
		{"-z 30s -c 50 -q 10 http://a/", "-z 30s -c 50 --rps 10 http://a/", "as a command of hey it means --rps 500"},
		{"-z 30s -c 50 -q 10 -h2 http://a/", "-z 30s -c 50 --http 2 --rps 500 http://a/", "-q 10 is the rate of each client: with 50 clients that is --rps 500"},
		{"-z 30s -c 50 -q 10 -t 20 http://a/", "-z 30s -c 50 --timeout 20s --rps 500 http://a/", "-t 20 is read as --timeout 20s"},
		{"-z 30s -c 50 -q 10 -t 20s http://a/", "-z 30s -c 50 --rps 10 --timeout 20s http://a/", "-q 10 is read as --rps 10"},
		{"-q 3 -h2 http://a/", "--http 2 --rps 30 http://a/", "with 10 clients that is --rps 30"},
		{"-c 8 -t 60s -qps 100 http://a/", "-c 8 -z 60s --rps 100 http://a/", "-t 60s is read as -z"},
		{"-n 10k -c 5 http://a/", "-n 10000 -c 5 http://a/", "-n 10k is read as -n 10000"},
		{"-n 5000 -c 10 -p 4 --http2 http://a/", "-n 5000 --http 2 -c 40 --conn pool:10 http://a/", "10 connections with 4 calls in flight"},
		{"-x 10s --call p.S.M a:1", "--call p.S/M -z 10s a:1", "--call p.S.M is read as"},
		{"-a joe:secret -A application/json http://a/", "--user joe:secret -H 'Accept: application/json' http://a/", "-a … is read as --user …"},
		{`-m '{"X-Secret":"s3"}' --call p.S/M a:1`, "-H 'X-Secret: s3' --call p.S/M a:1", "is read as -H 'X-Secret: …'"},
		{`-m '{"Proxy-Authorization":"s3"}' --call p.S/M a:1`, "-H 'Proxy-Authorization: s3' --call p.S/M a:1", "is read as -H 'Proxy-Authorization: …'"},
		{"-A curl/8 http://a/", "-H 'User-Agent: curl/8' http://a/", "-A curl/8 is read as -H"},
		{"-o json -c 2 http://a/", "--json -c 2 http://a/", "-o json is read as --json"},
		{"-disable-keepalive -cpus 2 -host b http://a/", "--conn new --host b http://a/", "-cpus is left out"},
		{"--http-version 2 --no-tui --latency-correction http://a/", "--http 2 http://a/", "--no-tui is left out"},
		{"--insecure --http2 https://a/", "-k --http 2 https://a/", "--insecure is read as -k"},
		{"-r 50 --call p.S/M a:1", "--rps 50 --call p.S/M a:1", "-r 50 is read as --rps 50"},
		{"-r 50 http://a/", "--rps 50 http://a/", "-r 50 is read as --rps 50"},

		// A whole command behind wirelab's own flags, which mean what they mean to wirelab.
		{"--no-save -c 20 wrk -t2 -c4 -d5s http://a/", "-c 4 -z 5s --conn per-worker http://a/ --no-save -c 20", "-t is left out"},
		{"-o curl curl -s http://a/", "http://a/ -o curl", "-s is left out"},
		{typed: "-d curl http://a/"},

		// ghz: cleartext, metadata, streams.
		{"--insecure --call p.S.M a:1", "grpc://a:1/p.S/M", "--insecure means cleartext, as in ghz"},
		{"--insecure --proto x.proto --call p.S/M -c 3 a:1", "--proto x.proto -c 3 grpc://a:1/p.S/M", "cleartext"},
		{"--skipTLS --call p.S.M a:1", "-k --call p.S/M a:1", "--skipTLS is read as -k"},
		{`-m '{"b":"2","a":"1"}' --call p.S/M a:1`, "-H 'a: 1' -H 'b: 2' --call p.S/M a:1", "is read as -H"},
		{"--stream-interval 5ms --stream-call-count 3 --call p.S/M a:1", "--pace 5ms --messages 3 --call p.S/M a:1", "--stream-interval 5ms is read as --pace 5ms"},
		{"-i a,b --cname n --authority n --call p.S/M a:1", "--import-path a --import-path b --host n --call p.S/M a:1", ""},
		{"-c 10 --call p.S.M grpc://a:1", "-c 10 --call p.S/M grpc://a:1", ""},
		{"--config load.json -c 3", "--from ghz load.json -c 3", "--config load.json is read as --from ghz"},
		{"-O json --call p.S/M a:1", "--call p.S/M --json a:1", ""},

		// curl, where wirelab's own sense of a letter stays.
		{"-X POST -D body.json http://a/", "-m POST -D body.json http://a/", "-X POST is read as -m POST"},
		{"-X POST -T text/plain -d x -o run http://a/", "-m POST -T text/plain -o run -d x http://a/", ""},
		{"-b a=b 127.0.0.1:8080", "-H 'Cookie: a=b' http://127.0.0.1:8080", "-b a=b is read as"},
		{"-sSL -k -XPUT https://a/", "-k -m PUT https://a/", "-L is left out"},
		{"-u joe:secret -G -d a=1 http://a/", "--user joe:secret 'http://a/?a=1'", "-u … is read as --user …"},

		// With flags that no tool has, the rest is read, and those stay.
		{"-q 5 --live=:9000 http://a/", "--rps 5 --live=:9000 http://a/", "-q 5 is read as --rps 5"},
		{"-q 5 --live http://a/", "--rps 5 --live http://a/", "-q 5 is read as --rps 5"},
		{"-q 5 --expect status==200 --nonsense http://a/", "--rps 5 --expect status==200 --nonsense http://a/", ""},
	} {
		words, err := flags.Split(test.typed, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, told, err := Commands.TranslateArguments(words)
		if err != nil {
			t.Errorf("%s: %v", test.typed, err)
			continue
		}
		if test.want == "" {
			if !slices.Equal(got, words) || len(told) > 0 {
				t.Errorf("%s: %q %q, want it as it is", test.typed, got, told)
			}
			continue
		}
		want, err := flags.Split(test.want, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got  %q\nwant %q", test.typed, got, want)
		}
		if len(told) == 0 || !strings.Contains(strings.Join(told, "\n"), test.told) {
			t.Errorf("%s: told %q, want %q", test.typed, told, test.told)
		}
		if strings.Contains(strings.Join(told, "\n"), "secret") {
			t.Errorf("%s: a message shows a password: %q", test.typed, told)
		}
	}
}

// What cannot be honoured says what to write.
func TestHabitsRefuses(t *testing.T) {
	for typed, want := range map[string]string{
		"-x proxy:80 -c 5 http://a/":                "load the proxy as http://PROXY",
		"-s post.lua -d 5s http://a/":               "Lua scripts are not supported",
		"-o csv http://a/":                          "wirelab export DIR --format csv",
		"--rand-regex-url http://a/[a-z]":           "--rows FILE.csv",
		"--async --call p.S.M a:1":                  "give --rps N",
		"-O html --call p.S/M a:1":                  "wirelab report DIR",
		"-M md.json --call p.S/M a:1":               "-H 'name: value'",
		"--load-schedule step --call p.S/M a:1":     "--load-schedule step has no end",
		"-T file.txt -d x http://a/":                "two bodies",
		"--cname a --authority b --call p.S/M a:1":  "wirelab uses one name for --cname and --authority",
		"--stream-call-duration 1s --call p.S/M a:": "--messages N",
	} {
		words, err := flags.Split(typed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := Commands.TranslateArguments(words); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error with %q", typed, got, err, want)
		}
	}
}

// What is written for one tool is wirelab's own: it comes back as it is.
func TestTranslationsAreOwn(t *testing.T) {
	for _, typed := range []string{
		"-z 30s -c 50 -q 10 -h2 http://a/", "-t12 -c400 -d30s http://a/", "--insecure --call p.S.M a:1",
		"-X POST -d a=b -d c=d -u joe:pw http://a/", "-n 10k -p 4 --http2 http://a/", "--json '{}' http://a/",
	} {
		words, _ := flags.Split(typed, nil)
		once, _, err := Commands.TranslateArguments(words)
		if err != nil {
			t.Fatal(err)
		}
		twice, told, err := Commands.TranslateArguments(once)
		if err != nil || len(told) > 0 || !slices.Equal(once, twice) {
			t.Errorf("%s: %q becomes %q, told %q, %v", typed, once, twice, told, err)
		}
	}
}
