package users

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// handler implements the service. It refuses invalid requests before it does the work.
type handler struct {
	userspb.UnimplementedUserServiceServer
	work  time.Duration
	store *store
	named atomic.Int64 // users whose id the handler made
}

// GetUser looks one user up.
func (h *handler) GetUser(ctx context.Context, in *userspb.GetUserRequest) (*userspb.User, error) {
	if !isID(in.Id) {
		var f faults
		f.add("id", "is up to %d letters, digits and dashes, not %.80q", maxIDBytes, in.Id)
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

// GetUsers lists a page of users.
func (h *handler) GetUsers(ctx context.Context, in *userspb.GetUsersRequest) (*userspb.GetUsersResponse, error) {
	var f faults
	if in.Limit < 0 || in.Limit > maxLimit {
		f.add("limit", "is 1 to %d, not %d", maxLimit, in.Limit)
	}
	if in.Offset < 0 {
		f.add("offset", "is 0 or more, not %d", in.Offset)
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

// userOf returns the user that a request describes. It keeps the request's memory,
// which the handler owns.
func userOf(in *userspb.CreateUserRequest, createdAt int64) *userspb.User {
	return &userspb.User{
		Id: in.Id, Name: in.Name, Email: in.Email, Age: in.Age, Address: in.Address,
		Tags: in.Tags, Biography: in.Biography, PaidPlan: in.PaidPlan, CreatedAt: createdAt,
	}
}
