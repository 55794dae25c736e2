// Package chanpool is a pool of gRPC channels that finds its own size.
//
// No program knows in advance how many connections are best. With two CPUs and no distance between
// the ends, one connection is faster than many, because one write sends the calls of many callers.
// More connections are better with many CPUs, with a limit of streams per connection, or on a link
// where a lost packet delays all later calls. A [Pool] finds the number by trials: it opens another
// connection, and keeps that connection if calls then take measurably less time.
//
//	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) {
//		return grpc.NewClient("dns:///host:443", grpc.WithTransportCredentials(creds))
//	})
//	reply, err := pb.NewGreeterClient(pool).Hello(ctx, request)
//
// A channel implements grpc.ClientConnInterface and io.Closer, as the channels of grpc-go,
// wirelab.dev/rpc/fastgrpc and wirelab.dev/rpc/creditrpc do.
//
// # How it decides
//
// While calls are made, the pool divides time into epochs of 50 ms ([Epoch]), or longer ones if
// calls take longer. A trial compares two sizes in turns (small, large, large, small, …), because
// the load itself varies. In each pair of epochs, it compares the mean time of the unary calls that
// began and ended in an epoch. If there are only streams, it compares the rate of their messages. A
// trial has 4 to 60 pairs. The pool keeps more channels if they are better by at least 3 % and by
// two standard errors. Otherwise it gives them up, after only two pairs if they are worse by a
// fifth. With noise of 12 %, a trial takes one to six seconds.
//
// The pool tries more channels only while more calls are in flight than there are channels. Each
// trial adds 50 %. One second after the pool has kept more channels, it tries fewer. After a trial
// that changed nothing, the pool waits for one second, then two, four, up to two minutes, unless
// the load grows by half. The next trial then takes a larger step, because many more channels may
// help even if a few more did not.
//
// # What it cannot know
//
//   - If calls have very different lengths, no difference can be proven. The pool keeps its size.
//   - The pool measures the time of calls, not their CPU time. It keeps a connection that makes
//     calls 4 % faster, even if that connection costs 20 % more CPU time.
//   - All channels must lead to the same service. The pool balances calls over connections, not
//     servers: a channel may balance over servers itself.
//   - An idle pool has no timers and measures nothing. Its connections stay open.
//
// # Calls
//
// A call goes to the channel with the fewest calls in flight, and equal channels get calls in turn. If there are more than four channels,
// the pool chooses two at random, and the call goes to the better one. If a channel's call fails
// with Unavailable, the channel gets no calls for 100 ms, unless all channels have failed.
// Otherwise a broken channel, which ends its calls fast, would get all calls. A stream counts until
// it ends: with an error, with its last message, or with its context, as package grpc requires.
//
// A channel that the pool gives up takes no new calls. It is closed when its last call has ended,
// so callers lose no call.
//
// # What it costs
//
// Per call, the pool reads the clock twice and makes some atomic additions, which takes 150 ns and
// no memory. [Fixed] pools measure nothing. During a trial, half of the calls run with the worse of
// the two sizes. After some minutes of constant load, trials take less than 1 % of the time.
//
// # Errors
//
// Calls return the errors of their channel, and [ErrClosed] after Close. New fails if one of the
// first channels cannot be opened, or if an option is wrong. If a later channel cannot be opened, no call fails: the pool
// ends the trial, and State and Logger give the reason.
//
// # Versions
//
// Versions follow semantic versioning. Before 1.0.0, a minor version may change the API;
// CHANGELOG.md describes each change. How a pool decides may change with any version.
package chanpool
