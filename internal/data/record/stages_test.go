package record

import (
	"strings"
	"testing"
	"time"
)

func TestStages(t *testing.T) {
	all, err := Stages("30s:100, 2m:500,30s:0").Parse(0)
	if err != nil || len(all) != 3 || all[1] != (Stage{2 * time.Minute, 100, 500}) || all[2] != (Stage{30 * time.Second, 500, 0}) || Length(all) != 3*time.Minute {
		t.Errorf("%v, %v", all, err)
	}
	if sum := all[0].Expected() + all[1].Expected() + all[2].Expected(); sum != 1500+36000+7500 {
		t.Errorf("%v requests are expected", sum)
	}
	for text, says := range map[string]string{
		"":                                    "stage 1: found \"\": want a time and a rate in requests per second, as in 30s:100",
		"30s":                                 "stage 1: found \"30s\"",
		"30s:100,2m":                          "stage 2: found \"2m\"",
		"30:100":                              "stage 1: found",
		"-1s:100":                             "stage 1: found",
		"0s:1":                                "stage 1: found",
		"1s:-1":                               "stage 1: found",
		"1s:NaN":                              "stage 1: found",
		"1s:Inf":                              "stage 1: found",
		"1s:2e9":                              "stage 1: found",
		"30s:10c":                             "a stage has a rate; for numbers of clients write --steps, as in --steps 10,50",
		"30s:0,1m:0":                          "found only rates of 0: no requests would be sent",
		"200h:1,200h:1":                       "the stages last 400h0m0s: want at most 240h0m0s",
		strings.Repeat("1s:1,", 100) + "1s:1": "found 101 stages: want at most 100",
	} {
		if all, err := Stages(text).Parse(0); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v; want an error with %q", text, all, err, says)
		}
	}
	if _, err := Stages("1s:0").Parse(5); err != nil {
		t.Errorf("a rate may fall to 0: %v", err)
	}
}

// The rate is known at each instant, also of a ramp of one stage, and of stages that were shortened.
func TestRateAt(t *testing.T) {
	ramp := Load{RatePerSecond: 100, RampTo: 300, DurationNS: int64(2 * time.Second)}
	staged := Load{Stages: "1s:100,2s:100,1s:0", DurationNS: int64(2 * time.Second)} // half as long
	for _, c := range []struct {
		load Load
		at   time.Duration
		want float64
	}{
		{ramp, -time.Second, 100},
		{ramp, 0, 100},
		{ramp, time.Second, 200},
		{ramp, 2 * time.Second, 300},
		{ramp, time.Hour, 300},
		{staged, 0, 0},
		{staged, 250 * time.Millisecond, 50},
		{staged, time.Second, 100},
		{staged, 1750 * time.Millisecond, 50},
		{staged, 3 * time.Second, 0},
		{Load{RatePerSecond: 7}, time.Second, 7},
		{Load{}, time.Second, 0},
		{Load{Stages: "damaged"}, time.Second, 0},
	} {
		if got := c.load.RateAt(c.at); got != c.want {
			t.Errorf("%+v at %v: %v/s, want %v", c.load, c.at, got, c.want)
		}
	}
	if ramp.HighestRate() != 300 || staged.HighestRate() != 100 || (Load{RatePerSecond: 5, Stages: "1s:2"}).HighestRate() != 5 {
		t.Error("the highest rate is wrong")
	}
}

// Whatever is parsed has times above 0, and rates that a schedule can have.
func FuzzStages(f *testing.F) {
	f.Add("30s:100,2m:500,30s:0", 0.0)
	f.Add("1ns:1e9", 5.0)
	f.Fuzz(func(t *testing.T, text string, from float64) {
		if !(from >= 0 && from <= maxStageRate) {
			return
		}
		all, err := Stages(text).Parse(from)
		if err != nil {
			return
		}
		for i, s := range all {
			if s.Length <= 0 || !(s.From >= 0 && s.To >= 0 && s.From <= maxStageRate && s.To <= maxStageRate) || i > 0 && s.From != all[i-1].To {
				t.Errorf("%q from %v: %+v", text, from, all)
			}
		}
	})
}
