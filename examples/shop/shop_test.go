package shop_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"example.com/shop"
	"example.com/shop/shoppb"
	"wirelab.dev/wirelabtest"
)

func register(r grpc.ServiceRegistrar) { shoppb.RegisterShopServer(r, shop.NewServer()) }

func get(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := shoppb.NewShopClient(conn).Get(ctx, &shoppb.GetRequest{Id: 2})
	return err
}

func order(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := shoppb.NewShopClient(conn).Order(ctx, &shoppb.OrderRequest{Ids: []int64{1, 2, 2}})
	return err
}

// options say what to measure and what fails the test: with -short only for a moment, to see that all
// works.
func options() []wirelabtest.Option {
	stacks := wirelabtest.Stacks("grpc", "fastgrpc", "grpc-h3")
	if testing.Short() {
		return []wirelabtest.Option{stacks, wirelabtest.Repeats(1), wirelabtest.FailIf("errors > 0")}
	}
	return []wirelabtest.Option{stacks, wirelabtest.Budget(20 * time.Second), wirelabtest.FailIf("errors > 0", "p99 > 20ms")}
}

func TestShopIsFast(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(context.Context, grpc.ClientConnInterface) error
	}{{"get", get}, {"order", order}} {
		t.Run(c.name, func(t *testing.T) { wirelabtest.Compare(t, register, c.call, options()...) })
	}
}

func BenchmarkShop(b *testing.B) { wirelabtest.Compare(b, register, get, options()...) }
