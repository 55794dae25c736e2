package format

import (
	"bytes"
	"testing"
)

func TestWordsAreWrapped(t *testing.T) {
	var out bytes.Buffer
	if err := WriteSentences(&out, []string{"one two three four five", "averyverylongwordthatstandsalone six"}, Terminal{Width: 14}); err != nil {
		t.Fatal(err)
	}
	want := "• one two\n  three four\n  five\n• averyverylongwordthatstandsalone\n  six\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Micros(0), "0"},
		{Micros(0.0421), "42.1ns"},
		{Micros(0.9994), "999ns"},
		{Micros(0.9996), "1.00µs"},
		{Micros(9.996), "10.0µs"},
		{Micros(999.4), "999µs"},
		{Micros(999.6), "1.00ms"},
		{Micros(51_500), "51.5ms"},
		{Micros(12_345_678), "12.3s"},
		{ByteSize(64), "64B"},
		{ByteSize(1000), "1000B"},
		{ByteSize(1536), "1.5KiB"},
		{ByteSize(64 << 10), "64KiB"},
		{ByteSize(20_800), "20.3KiB"},
		{Percent(1), "100%"},
		{Percent(0.99999), "99.99%"},
		{Percent(0.41), "41%"},
		{PerSecond(0.5), "0.50"},
		{PerSecond(99.96), "100"},
		{PerSecond(1234567.4), "1,234,567"},
		{PlainNumber(44.04), "44.0"},
		{PlainNumber(1081.6), "1,082"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestGrid(t *testing.T) {
	got := Grid([][]string{{"name", "size"}, {"ä", "12345"}}, func(column int) bool { return column == 0 })
	if got[0] != "name   size" || got[1] != "ä     12345" {
		t.Errorf("got %q", got)
	}
}
