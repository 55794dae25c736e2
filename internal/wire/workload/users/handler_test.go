package users

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/workload/users/userspb"
)

func good() *userspb.CreateUserRequest {
	return &userspb.CreateUserRequest{Id: "ada-1", Name: "Ada Lovelace", Email: "ada@example.com", Age: 36}
}

func TestRules(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, test := range []struct {
		what  string
		spoil func(*userspb.CreateUserRequest)
		field string
	}{
		{"nothing", func(*userspb.CreateUserRequest) {}, ""},
		{"no id", func(r *userspb.CreateUserRequest) { r.Id = "" }, ""},
		{"umlauts", func(r *userspb.CreateUserRequest) { r.Name = strings.Repeat("ü", maxNameRunes) }, ""},
		{"a slash", func(r *userspb.CreateUserRequest) { r.Id = "a/b" }, "id"},
		{"a long id", func(r *userspb.CreateUserRequest) { r.Id = long }, "id"},
		{"no name", func(r *userspb.CreateUserRequest) { r.Name = "" }, "name"},
		{"spaces for a name", func(r *userspb.CreateUserRequest) { r.Name = "  " }, "name"},
		{"a long name", func(r *userspb.CreateUserRequest) { r.Name = long }, "name"},
		{"no e-mail", func(r *userspb.CreateUserRequest) { r.Email = "" }, "email"},
		{"no domain", func(r *userspb.CreateUserRequest) { r.Email = "ada@" }, "email"},
		{"no dot", func(r *userspb.CreateUserRequest) { r.Email = "ada@example." }, "email"},
		{"no one", func(r *userspb.CreateUserRequest) { r.Email = "@example.com" }, "email"},
		{"two at", func(r *userspb.CreateUserRequest) { r.Email = "ada@b@example.com" }, "email"},
		{"a space", func(r *userspb.CreateUserRequest) { r.Email = "a da@example.com" }, "email"},
		{"unborn", func(r *userspb.CreateUserRequest) { r.Age = -1 }, "age"},
		{"too old", func(r *userspb.CreateUserRequest) { r.Age = 151 }, "age"},
		{"many tags", func(r *userspb.CreateUserRequest) { r.Tags = make([]string, 51) }, "tags"},
		{"an empty tag", func(r *userspb.CreateUserRequest) { r.Tags = []string{"a", ""} }, "tags[1]"},
		{"a long street", func(r *userspb.CreateUserRequest) { r.Address = &userspb.Address{Street: long} }, "address.street"},
		{"a long life", func(r *userspb.CreateUserRequest) { r.Biography = long }, "biography"},
	} {
		request := good()
		test.spoil(request)
		err := checkCreateUser(request)
		if test.field == "" {
			if err != nil {
				t.Errorf("%s: %v", test.what, err)
			}
			continue
		}
		st := status.Convert(err)
		details := st.Details()
		if st.Code() != codes.InvalidArgument || len(details) != 1 || len(st.Message()) > 500 {
			t.Errorf("%s: %v", test.what, st)
			continue
		}
		fields := details[0].(*errdetails.BadRequest).GetFieldViolations()
		if fields[0].Field != test.field || fields[0].Description == "" || !strings.HasPrefix(st.Message(), test.field+" ") {
			t.Errorf("%s: %v, want a word about %s first", test.what, st.Message(), test.field)
		}
	}
	everything := &userspb.CreateUserRequest{Age: -1}
	if fields := status.Convert(checkCreateUser(everything)).Message(); fields != "name is missing; email is missing; age must be 0 to 150, not -1" {
		t.Errorf("all faults at once: %s", fields)
	}
}

func TestNewcomersAndConflicts(t *testing.T) {
	h := &handler{store: newStore(initialUsers(3))}
	ctx := t.Context()
	created, err := h.CreateUser(ctx, good())
	if err != nil {
		t.Fatal(err)
	}
	if found, err := h.GetUser(ctx, &userspb.GetUserRequest{Id: created.Id}); err != nil || found != created {
		t.Errorf("the new user is found as %v, %v", found, err)
	}
	sameID, sameEmail := good(), good()
	sameID.Email, sameEmail.Id = "else@example.com", "ada-2"
	for says, request := range map[string]*userspb.CreateUserRequest{
		`the id "ada-1" belongs`: sameID, `the email "ada@example.com" belongs`: sameEmail,
	} {
		_, err := h.CreateUser(ctx, request)
		if status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), says) {
			t.Errorf("a conflict ended with %v, want %q", err, says)
		}
	}
	_, err = h.GetUser(ctx, &userspb.GetUserRequest{Id: "nobody"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), `no user "nobody"`) {
		t.Errorf("nobody is found: %v", err)
	}
	nameless := good()
	nameless.Id, nameless.Email = "", "other@example.com"
	if made, err := h.CreateUser(ctx, nameless); err != nil || made.Id != "u-1" {
		t.Errorf("a user without an id became %v, %v", made, err)
	}
	for _, wrong := range []*userspb.GetUsersRequest{{Limit: -1}, {Limit: 1001}, {Offset: -1}} {
		if _, err := h.GetUsers(ctx, wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	page, err := h.GetUsers(ctx, &userspb.GetUsersRequest{Offset: 2})
	if err != nil || page.Total != 5 || len(page.Users) != 3 || page.Users[1] != created {
		t.Errorf("the page is %v, %v", page, err)
	}
	if page, err := h.GetUsers(ctx, &userspb.GetUsersRequest{Offset: 1 << 30, Limit: 1000}); err != nil || len(page.Users) != 0 {
		t.Errorf("beyond the end is %v, %v", page, err)
	}
}

// TestBookForgetsTheOldest keeps memory bounded, and the order whole.
func TestBookForgetsTheOldest(t *testing.T) {
	b := newStore(initialUsers(2))
	user := func(i int) *userspb.User {
		return &userspb.User{Id: fmt.Sprint("n", i), Email: fmt.Sprint(i, "@example.com")}
	}
	const extra = 10
	for i := range maxCreatedUsers + extra {
		if field := b.add(user(i)); field != "" {
			t.Fatalf("user %d: the %s is taken", i, field)
		}
	}
	if b.find("n9") != nil || b.find("n10") == nil || len(b.byID) != 2+maxCreatedUsers || len(b.emails) != 2+maxCreatedUsers {
		t.Errorf("the store holds %d ids and %d addresses", len(b.byID), len(b.emails))
	}
	users, total := b.page(1, 3)
	if total != 2+maxCreatedUsers || users[1].Id != "n10" || users[2].Id != "n11" {
		t.Errorf("of %d, the page is %v", total, users)
	}
	if last, _ := b.page(total-1, 5); len(last) != 1 || last[0].Id != fmt.Sprint("n", maxCreatedUsers+extra-1) {
		t.Errorf("the last page is %v", last)
	}
	if field := b.add(user(0)); field != "" {
		t.Errorf("a forgotten user cannot come again: the %s is taken", field)
	}
}

// TestManyAtOnce is for the race detector, and for the count.
func TestManyAtOnce(t *testing.T) {
	h := &handler{store: newStore(initialUsers(10))}
	var all sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for worker := range 8 {
		all.Go(func() {
			for i := range 100 {
				request := good()
				request.Id, request.Email = fmt.Sprint("id-", i), fmt.Sprintf("%d-%d@example.com", worker, i)
				if _, err := h.CreateUser(context.Background(), request); err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				}
				_, _ = h.GetUsers(context.Background(), &userspb.GetUsersRequest{Limit: 50})
			}
		})
	}
	all.Wait()
	if won != 100 {
		t.Errorf("%d of 100 ids were created: each can be once", won)
	}
}

func TestWorkIsSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{work: 10 * time.Millisecond, store: newStore(initialUsers(1))}
		request := &userspb.GetUserRequest{Id: initialUsers(1)[0].Id}
		begin := time.Now()
		if _, err := h.GetUser(t.Context(), request); err != nil || time.Since(begin) != 10*time.Millisecond {
			t.Errorf("it took %v, %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		begin = time.Now()
		if _, err := h.GetUser(ctx, request); status.Code(err) != codes.DeadlineExceeded || time.Since(begin) != 3*time.Millisecond {
			t.Errorf("a caller who gives up waits %v, %v", time.Since(begin), err)
		}
	})
}
