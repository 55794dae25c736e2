package users

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// handler implements the service. It validates a request before it simulates work.
type handler struct {
	userspb.UnimplementedUserServiceServer
	work  time.Duration
	store *store
	named atomic.Int64 // number of users that got an id from the handler
}

// GetUser returns one user.
func (h *handler) GetUser(ctx context.Context, in *userspb.GetUserRequest) (*userspb.User, error) {
	if !isID(in.Id) {
		var f invalidFields
		f.add("id", "must be up to %d letters, digits and dashes, not %.80q", maxIDBytes, in.Id)
		return nil, f.err()
	}
	if err := workload.Pause(ctx, h.work); err != nil {
		return nil, err
	}
	user := h.store.find(in.Id)
	if user == nil {
		return nil, userError(codes.NotFound, in.Id, fmt.Sprintf("there is no user %q", in.Id))
	}
	return user, nil
}

// GetUsers returns a page of users.
func (h *handler) GetUsers(ctx context.Context, in *userspb.GetUsersRequest) (*userspb.GetUsersResponse, error) {
	var f invalidFields
	if in.Limit < 0 || in.Limit > maxLimit {
		f.add("limit", "must be 1 to %d, not %d", maxLimit, in.Limit)
	}
	if in.Offset < 0 {
		f.add("offset", "must be 0 or more, not %d", in.Offset)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := workload.Pause(ctx, h.work); err != nil {
		return nil, err
	}
	limit := int(in.Limit)
	if limit == 0 {
		limit = defaultLimit
	}
	users, total := h.store.page(int(in.Offset), limit)
	return &userspb.GetUsersResponse{Users: users, Total: int32(total)}, nil
}

// CreateUser adds a user.
func (h *handler) CreateUser(ctx context.Context, in *userspb.CreateUserRequest) (*userspb.User, error) {
	if err := checkCreateUser(in); err != nil {
		return nil, err
	}
	if err := workload.Pause(ctx, h.work); err != nil {
		return nil, err
	}
	user := userOf(in, time.Now().Unix())
	if user.Id == "" {
		user.Id = fmt.Sprintf("u-%d", h.named.Add(1))
	}
	switch field := h.store.add(user); field {
	case "":
		return user, nil
	case "email":
		return nil, userError(codes.AlreadyExists, user.Id, fmt.Sprintf("the email %q belongs to another user", user.Email))
	default:
		return nil, userError(codes.AlreadyExists, user.Id, fmt.Sprintf("the %s %q belongs to another user", field, user.Id))
	}
}

// userOf returns the user that a request describes. It shares the request's memory.
func userOf(in *userspb.CreateUserRequest, createdAt int64) *userspb.User {
	return &userspb.User{
		Id: in.Id, Name: in.Name, Email: in.Email, Age: in.Age, Address: in.Address,
		Tags: in.Tags, Biography: in.Biography, PaidPlan: in.PaidPlan, CreatedAt: createdAt,
	}
}

// The limits of a user's fields. users.proto documents them.
const (
	maxIDBytes        = 64
	maxNameRunes      = 100
	maxEmailBytes     = 254 // RFC 5321, section 4.5.3.1.3, without the angle brackets
	maxAge            = 150
	maxTags           = 50
	maxTagRunes       = 50
	maxAddressRunes   = 100
	maxBiographyBytes = 64 << 10

	defaultLimit = 20
	maxLimit     = 1000
)

type invalidFields []*errdetails.BadRequest_FieldViolation

func (f *invalidFields) add(field, format string, args ...any) {
	*f = append(*f, &errdetails.BadRequest_FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// err returns a status that lists all invalid fields, or nil if there are none.
func (f invalidFields) err() error {
	if len(f) == 0 {
		return nil
	}
	var text strings.Builder
	for i, fault := range f {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(fault.Field + " " + fault.Description)
	}
	return errorWithDetail(codes.InvalidArgument, text.String(), &errdetails.BadRequest{FieldViolations: f})
}

func errorWithDetail(code codes.Code, message string, detail protoadapt.MessageV1) error {
	st, err := status.New(code, message).WithDetails(detail)
	if err != nil {
		panic("users: a detail that cannot be encoded: " + err.Error())
	}
	return st.Err()
}

func userError(code codes.Code, id, message string) error {
	return errorWithDetail(code, message, &errdetails.ResourceInfo{ResourceType: "user", ResourceName: id, Description: message})
}

func checkCreateUser(in *userspb.CreateUserRequest) error {
	var f invalidFields
	if in.Id != "" && !isID(in.Id) {
		f.add("id", "must be up to %d letters, digits and dashes, not %.80q", maxIDBytes, in.Id)
	}
	switch n := utf8.RuneCountInString(in.Name); {
	case strings.TrimSpace(in.Name) == "":
		f.add("name", "is missing")
	case n > maxNameRunes:
		f.add("name", "has %d characters; the maximum is %d", n, maxNameRunes)
	}
	switch {
	case in.Email == "":
		f.add("email", "is missing")
	case !isEmail(in.Email):
		f.add("email", "is not an address like ada@example.com: %.80q", in.Email)
	}
	if in.Age < 0 || in.Age > maxAge {
		f.add("age", "must be 0 to %d, not %d", maxAge, in.Age)
	}
	if len(in.Tags) > maxTags {
		f.add("tags", "have %d entries; the maximum is %d", len(in.Tags), maxTags)
	}
	for i, tag := range in.Tags {
		if n := utf8.RuneCountInString(tag); n < 1 || n > maxTagRunes {
			f.add(fmt.Sprintf("tags[%d]", i), "has %d characters; it needs 1 to %d", n, maxTagRunes)
			break // report only the first invalid tag
		}
	}
	for _, line := range []struct{ field, text string }{
		{"street", in.GetAddress().GetStreet()},
		{"city", in.GetAddress().GetCity()},
		{"postcode", in.GetAddress().GetPostcode()},
		{"country", in.GetAddress().GetCountry()},
	} {
		if n := utf8.RuneCountInString(line.text); n > maxAddressRunes {
			f.add("address."+line.field, "has %d characters; the maximum is %d", n, maxAddressRunes)
		}
	}
	if len(in.Biography) > maxBiographyBytes {
		f.add("biography", "has %d bytes; the maximum is %d", len(in.Biography), maxBiographyBytes)
	}
	return f.err()
}

// isID reports whether a text is a valid id. All its characters must need no escape in a URL path.
func isID(id string) bool {
	for i := range len(id) {
		letter := id[i] | 0x20
		if (letter < 'a' || letter > 'z') && (id[i] < '0' || id[i] > '9') && id[i] != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxIDBytes
}

// isEmail reports whether a text looks like an email address. It proves no more than that.
func isEmail(text string) bool {
	local, domain, found := strings.Cut(text, "@")
	return found && local != "" && len(text) <= maxEmailBytes &&
		strings.Contains(strings.Trim(domain, "."), ".") && !strings.ContainsAny(text, " \t\r\n<>\"") && !strings.Contains(domain, "@")
}

// maxCreatedUsers limits the created users in the store, because thousands per second would fill
// the memory. At the limit, the store drops the oldest created user, which may then be created
// again.
const maxCreatedUsers = 1000

// store holds all users, by id and in the order of creation. Nothing changes a user in the store.
// Any goroutine may use the store.
type store struct {
	mu      sync.RWMutex
	byID    map[string]*userspb.User
	emails  map[string]bool
	initial []*userspb.User // created before the first call
	created []*userspb.User // a ring buffer once it is full
	oldest  int             // index of the oldest user in the ring buffer
}

func newStore(initialUsers []*userspb.User) *store {
	b := &store{
		byID:    make(map[string]*userspb.User, len(initialUsers)+maxCreatedUsers),
		emails:  make(map[string]bool, len(initialUsers)+maxCreatedUsers),
		initial: initialUsers,
	}
	for _, u := range initialUsers {
		b.byID[u.Id], b.emails[u.Email] = u, true
	}
	return b
}

func (b *store) find(id string) *userspb.User {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byID[id]
}

// page returns up to limit users, beginning at offset, and the number of all users.
func (b *store) page(offset, limit int) (users []*userspb.User, total int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	total = len(b.initial) + len(b.created)
	for i := offset; i < min(total, offset+limit); i++ {
		users = append(users, b.userAt(i))
	}
	return users, total
}

func (b *store) userAt(i int) *userspb.User {
	if i < len(b.initial) {
		return b.initial[i]
	}
	return b.created[(b.oldest+i-len(b.initial))%len(b.created)]
}

// add stores a user. If another user has the same id or email, add returns the name of that field.
func (b *store) add(u *userspb.User) (taken string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.byID[u.Id] != nil:
		return "id"
	case b.emails[u.Email]:
		return "email"
	}
	b.byID[u.Id], b.emails[u.Email] = u, true
	if len(b.created) < maxCreatedUsers {
		b.created = append(b.created, u)
		return ""
	}
	leaves := b.created[b.oldest]
	delete(b.byID, leaves.Id)
	delete(b.emails, leaves.Email)
	b.created[b.oldest] = u
	b.oldest = (b.oldest + 1) % maxCreatedUsers
	return ""
}
