package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for machines without files of time zones
)

// field returns the jobs of blind3.yaml.
func field() map[string]func(fault bool) http.HandlerFunc {
	return map[string]func(bool) http.HandlerFunc{
		"login": login, "table": table, "clocks": clocks, "release": release, "admit": admit, "export": export, "sum": sum,
	}
}

// login checks who calls: by a signed session, or by the password itself, whose key takes 10,000 rounds.
func login(fault bool) http.HandlerFunc {
	const password, session = "correct horse battery staple", "session 4711 of ann"
	salt := []byte("a salt of 16 B..")
	key, err := pbkdf2.Key(sha256.New, password, salt, 10_000, 32)
	if err != nil {
		return failing(err)
	}
	signature := sign(key, session)
	return func(w http.ResponseWriter, _ *http.Request) {
		welcome := hmac.Equal(signature, sign(key, session))
		if fault {
			derived, err := pbkdf2.Key(sha256.New, password, salt, 10_000, 32)
			welcome = err == nil && hmac.Equal(key, derived)
		}
		fmt.Fprintln(w, "welcome", welcome)
	}
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// table writes 1,000 rows into a text, by a builder or by adding each row to a string.
func table(fault bool) http.HandlerFunc {
	const row = "<tr><td>a row of the table</td></tr>\n"
	write := func() string {
		var text strings.Builder
		for range 1000 {
			text.WriteString(row)
		}
		return text.String()
	}
	if fault {
		write = func() (text string) {
			for range 1000 {
				text += row
			}
			return text
		}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, len(write()))
	}
}

// clocks tells the time of eight cities, whose time zones it loads once or in each request.
func clocks(fault bool) http.HandlerFunc {
	cities := []string{
		"America/New_York", "America/Sao_Paulo", "Europe/London", "Europe/Berlin",
		"Africa/Cairo", "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney",
	}
	load := func() (zones []*time.Location, err error) {
		for _, city := range cities {
			zone, err := time.LoadLocation(city)
			if err != nil {
				return nil, err
			}
			zones = append(zones, zone)
		}
		return zones, nil
	}
	once, err := load()
	if err != nil {
		return failing(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		zones := once
		if fault {
			if zones, err = load(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		now := time.Now()
		for _, zone := range zones {
			fmt.Fprintln(w, now.In(zone).Format(time.Kitchen))
		}
	}
}

// release computes, and with the fault forces the collector to return free memory to the system.
func release(fault bool) http.HandlerFunc {
	begin := hash(64 << 10)
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w, r)
		if fault {
			debug.FreeOSMemory()
		}
	}
}

// admit lets one request pass per 10 µs or per 5 ms. The others sleep until their turn.
func admit(fault bool) http.HandlerFunc {
	interval := 10 * time.Microsecond
	if fault {
		interval = 5 * time.Millisecond
	}
	var lock sync.Mutex
	var next time.Time
	turn := func() time.Duration {
		lock.Lock()
		defer lock.Unlock()
		now := time.Now()
		if next.Before(now) {
			next = now
		}
		wait := next.Sub(now)
		next = next.Add(interval)
		return wait
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(turn())
		fmt.Fprintln(w, "admitted")
	}
}

// export waits for a file that is ready after a millisecond. It is woken then, or looks every 10 ms.
func export(fault bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var ready atomic.Bool
		done := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() {
			ready.Store(true)
			close(done)
		})
		if fault {
			for !ready.Load() {
				time.Sleep(10 * time.Millisecond)
			}
		} else {
			<-done
		}
		fmt.Fprintln(w, "a file")
	}
}

// sum adds 2,000 numbers, in a loop or with a goroutine for each.
func sum(fault bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var total atomic.Int64
		var all sync.WaitGroup
		for i := range int64(2000) {
			if fault {
				all.Go(func() { total.Add(i) })
			} else {
				total.Add(i)
			}
		}
		all.Wait()
		fmt.Fprintln(w, total.Load())
	}
}
