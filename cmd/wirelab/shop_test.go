package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// shop is a service for scripts that load one: items behind a login.
type shop struct {
	mu     sync.Mutex
	tokens map[string]string // to whom each was given
	sold   atomic.Int64
	asked  atomic.Int64 // of all paths
}

// openShop starts one, says where it is in $SHOP, and puts the example of the docs beside the
// script as shop.yaml: shop.
func openShop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: shop")
	}
	server := httptest.NewServer((&shop{tokens: map[string]string{}}).routes())
	ts.Defer(server.Close)
	ts.Setenv("SHOP", server.URL)
	writeJourney(ts)
}

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ok", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Shop", "open")
		fmt.Fprint(w, `{"ok":true,"items":[{"id":"a"}]}`)
	})
	mux.HandleFunc("GET /every-third", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"ok":%t}`, s.asked.Add(1)%3 != 0)
	})
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("GET /items", s.behindLogin(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"id":"pear"},{"id":"plum"}]}`)
	}))
	mux.HandleFunc("GET /items/pear", s.behindLogin(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"pear","price":3}`)
	}))
	mux.HandleFunc("POST /items", s.behindLogin(func(w http.ResponseWriter, _ *http.Request) {
		s.sold.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	return mux
}

func (s *shop) login(w http.ResponseWriter, r *http.Request) {
	var who struct{ User string }
	if err := json.NewDecoder(r.Body).Decode(&who); err != nil || who.User == "" {
		http.Error(w, "who?", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	token := fmt.Sprint("token-", len(s.tokens))
	s.tokens[token] = who.User
	s.mu.Unlock()
	fmt.Fprintf(w, `{"token":%q}`, token)
}

func (s *shop) behindLogin(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		_, known := s.tokens[token]
		s.mu.Unlock()
		if !is || !known {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		serve(w, r)
	}
}
