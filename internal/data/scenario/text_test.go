package scenario

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]string{
		"64": "64 B", "0": "0 B", "512B": "512 B", "512 B": "512 B", "1024": "1 KiB", "4KiB": "4 KiB",
		"4 KiB": "4 KiB", "64KB": "64 KiB", "1536": "1536 B", "1MiB": "1 MiB", "1025KiB": "1025 KiB", "16MB": "16 MiB",
	} {
		size, err := parseSize(text)
		if err != nil || size.String() != want {
			t.Errorf("parseSize(%q) = %v, %v; want %s", text, size, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "1.5KiB", "4kb", "4GiB", "64 B x", "2048MiB", "99999999999999999999", " 64"} {
		if size, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %v, want an error", text, size)
		}
	}
}

func TestParsePayload(t *testing.T) {
	for text, want := range map[string]string{
		"64": "64 B", "64/64B": "64 B", "64/4KiB": "64 B/4 KiB", "1MiB / 0": "1 MiB/0 B", "4KB/64": "4 KiB/64 B",
	} {
		p, err := ParsePayload(text)
		if err != nil || p.String() != want {
			t.Errorf("ParsePayload(%q) = %v, %v; want %s", text, p, err, want)
		}
	}
	for _, text := range []string{"", "/", "64/", "/64", "64/64/64", "64-4KiB", "64/x"} {
		if p, err := ParsePayload(text); err == nil {
			t.Errorf("ParsePayload(%q) = %v, want an error", text, p)
		}
	}
}

func TestParseWorkload(t *testing.T) {
	w, err := ParseWorkload("users:work=0s,mix=get-user*8+create-small*1")
	if err != nil || w.String() != "users:mix=get-user*8+create-small*1,work=0s" {
		t.Errorf("%v, %v", w, err)
	}
	if _, err := ParseWorkload("Users"); err == nil || !strings.Contains(err.Error(), `workload "Users": a workload's name`) {
		t.Errorf("the error for Users: %v", err)
	}
}

func TestParseVariant(t *testing.T) {
	for text, want := range map[string]string{
		"tcp":                         "tcp",
		"tcp:inflight=50":             "tcp:inflight=50",
		"tcp:inflight=5,buffers=a":    "tcp:buffers=a,inflight=5",
		"grpc-h3:key=a=b":             "grpc-h3:key=a=b",
		"tcp:buffers=pooled,size=4:5": "tcp:buffers=pooled,size=4:5",
	} {
		v, err := ParseVariant(text)
		if err != nil || v.String() != want {
			t.Errorf("ParseVariant(%q) = %v, %v; want %s", text, v, err, want)
		}
	}
	for _, text := range []string{"", ":", "TCP", "tcp:", "tcp:a", "tcp:=1", "tcp:a=", "tcp:a=1,a=2", "tcp:a=1,", "a=1"} {
		if v, err := ParseVariant(text); err == nil {
			t.Errorf("ParseVariant(%q) = %v, want an error", text, v)
		}
	}
}

func TestParseVariants(t *testing.T) {
	variants, err := ParseVariants("tcp:buffers=pooled,inflight=50, rest,grpc:inflight=2")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range variants {
		got = append(got, v.String())
	}
	if want := "tcp:buffers=pooled,inflight=50 rest grpc:inflight=2"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, text := range []string{"", "tcp,,rest", "inflight=50,tcp"} {
		if v, err := ParseVariants(text); err == nil {
			t.Errorf("ParseVariants(%q) = %v, want an error", text, v)
		}
	}
}

func TestConnection(t *testing.T) {
	for _, test := range []struct {
		text string
		want Connection
		of10 int
	}{
		{text: "shared", want: Connection{Mode: Shared}, of10: 1},
		{text: "per-worker", want: Connection{Mode: PerWorker}, of10: 10},
		{text: "pool", want: Connection{Mode: Pool}, of10: 10},
		{text: "pool:4", want: Connection{Mode: Pool, Size: 4}, of10: 4},
	} {
		c, err := ParseConnection(test.text)
		if err != nil || c != test.want || c.String() != test.text {
			t.Errorf("ParseConnection(%q) = %+v (%s), %v", test.text, c, c, err)
		}
		if got := c.ConnectionCount(10); got != test.of10 {
			t.Errorf("%s wants %d connections for 10 clients, want %d", test.text, got, test.of10)
		}
	}
	for _, text := range []string{"", "pool:0", "pool:", "pool:-1", "pool:x", "shared:2", "new:2", "fresh"} {
		if c, err := ParseConnection(text); err == nil {
			t.Errorf("ParseConnection(%q) = %v, want an error", text, c)
		}
	}
	var c Connection
	if err := c.UnmarshalText(nil); err != nil || c != (Connection{}) {
		t.Errorf("no text gave %v, %v; want the default", c, err)
	}
}
