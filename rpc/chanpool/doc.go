// Package chanpool is a pool of gRPC channels that finds its own size.
//
// How many connections are best depends on what no program knows beforehand. With two CPUs and
// no distance one connection beats many, because the calls of many callers are written at once.
// With many CPUs, a limit of streams a connection, or a link on which a lost packet stops
// everybody behind it, more are better. A [Pool] tries it out: it opens a connection more,
// uses it by turns, and keeps it if calls were seen to take less time.
//
//	pool, err := chanpool.New(func() (chanpool.Channel, error) {
//		return grpc.NewClient("dns:///host:443", grpc.WithTransportCredentials(creds))
//	})
//	reply, err := pb.NewGreeterClient(pool).Hello(ctx, request)
//
// Its channels are what implements grpc.ClientConnInterface and io.Closer: those of grpc-go,
// of wirelab.dev/rpc/fastgrpc, of wirelab.dev/rpc/creditrpc.
//
// # How it decides
//
// While calls are made, time is cut into epochs of 50 ms ([Epoch]), longer where calls are.
// A trial compares two sizes by turns (small, large, large, small, …), because the load
// itself varies: what counts is the ratio of the two in each pair, over at least 4 and at most
// 60 pairs. The figure is the mean time of the unary calls that began and ended in an epoch; where
// there are streams alone, the rate of their messages. More channels are kept if they are
// better by 3 % at least and by two standard errors, and else given up again; at a loss of
// a fifth, after two pairs. With noise of 12 % a trial takes one to six seconds.
//
// More are tried only while more calls are in flight than there are channels; by half as many
// again each time. Fewer are tried a second after more were kept. What changed nothing is not
// tried again for a second, then two, four, up to two minutes, unless the load has grown by half,
// and then by larger steps, since a gain may lie beyond what did not help.
//
// # What it cannot know
//
//   - Calls of very different kinds make its figure noisy, and it then keeps what it has.
//   - It sees the time of calls, and not what they cost: a connection that makes calls 4 %
//     faster for 20 % more CPU time is kept.
//   - All channels must lead to the same service. It balances calls over connections, not
//     servers: a channel may do that itself.
//   - An idle pool has no timers and learns nothing; its connections stay until calls come.
//
// # Calls
//
// A call goes to the channel with the fewest in flight (of more than four, to the better of two
// drawn by chance). A channel whose call has just failed with Unavailable is left alone for
// 100 ms, unless all have: a broken one ends its calls fast, and would get them all. A stream
// counts until it ends: by an error, by its last message, or with its context, one of which
// package grpc demands anyway.
//
// A channel that is given up takes no new calls, and is closed when its last one has ended. So
// callers lose no call.
//
// # What it costs
//
// Two looks at the clock and some atomic additions a call, and no memory: some 150 ns. [Fixed]
// pools measure nothing. During a trial half of the calls take the worse of the two sizes; after
// some minutes of an unchanging load trials take less than a hundredth of the time.
//
// # Options
//
//	what     default  why
//	Min      1        the least that works
//	Max      16       what servers and proxies bear from one client without a thought
//	Fixed    -        for who knows better; it measures and tries nothing
//	Epoch    50 ms    ten calls of 5 ms, one after the other
//	Logger   none     a line a decision; State has the last 16 as well
//
// # Errors
//
// Calls fail as their channel fails them, and after Close with [ErrClosed]. New fails if a first
// channel cannot be opened. That a further one cannot be opened fails no call: the trial is given
// up, and State and Logger say why.
//
// # Moving from one channel, and back
//
//	cc, err := grpc.NewClient(target, opts...)   pool, err := chanpool.New(func() (chanpool.Channel, error) {
//	                                                 return grpc.NewClient(target, opts...)
//	                                             })
//	pb.NewGreeterClient(cc)                      pb.NewGreeterClient(pool)
//	cc.Close()                                   pool.Close()
//
// # Versions
//
// Versions follow semantic versioning. Until 1.0.0 a minor version may change the API, and
// CHANGELOG.md says how. How a pool decides may change with any version.
package chanpool
