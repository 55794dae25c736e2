// Package chanpool is a pool of gRPC channels that finds its own size.
//
// No program knows in advance how many connections are best. With two CPUs and no distance between
// the ends, one connection beats many, because the calls of many callers are written at once. More
// connections are better with many CPUs, with a limit of streams per connection, or on a link
// where a lost packet stops all calls behind it. A [Pool] finds out: it opens another connection,
// uses it in turns, and keeps it if calls take measurably less time.
//
//	pool, err := chanpool.New(func() (chanpool.Channel, error) {
//		return grpc.NewClient("dns:///host:443", grpc.WithTransportCredentials(creds))
//	})
//	reply, err := pb.NewGreeterClient(pool).Hello(ctx, request)
//
// A channel implements grpc.ClientConnInterface and io.Closer, as the channels of grpc-go,
// wirelab.dev/rpc/fastgrpc and wirelab.dev/rpc/creditrpc do.
//
// # How it decides
//
// While calls are made, the pool cuts time into epochs of 50 ms ([Epoch]), or longer ones if calls
// take longer. A trial compares two sizes in turns (small, large, large, small, …), because the
// load itself varies. It takes the ratio of the two in each pair of epochs, over at least 4 and at
// most 60 pairs. It compares the mean time of the unary calls that began and ended in an epoch or,
// if there are only streams, the rate of their messages. More channels are kept if they are better
// by at least 3 % and by two standard errors. Otherwise they are given up, after only two pairs if
// they are worse by a fifth. With noise of 12 % a trial takes one to six seconds.
//
// More channels are tried only while more calls are in flight than there are channels. Each trial
// adds 50 %. One second after more channels were kept, fewer are tried. After a trial that changed
// nothing, the pool waits for one second, then two, four, up to two minutes, unless the load grows
// by half. The next trial then takes a larger step, because many more channels may help where a few
// did not.
//
// # What it cannot know
//
//   - With calls of very different lengths, no difference is proven. The pool then keeps its size.
//   - It measures the time of calls, and not their CPU time: a connection that makes calls 4 %
//     faster for 20 % more CPU time is kept.
//   - All channels must lead to the same service. It balances calls over connections, not
//     servers: a channel may do that itself.
//   - An idle pool has no timers and learns nothing; its connections stay until calls come.
//
// # Calls
//
// A call goes to the channel with the fewest calls in flight. If there are more than four
// channels, it goes to the better of two that are chosen at random. A channel whose call has
// just failed with Unavailable gets no calls for 100 ms, unless all have failed: a broken one
// ends its calls fast, and would get all of them. A stream counts until it ends: with an error,
// with its last message, or with its context. Package grpc demands one of these anyway.
//
// A channel that is given up takes no new calls, and is closed when its last one has ended. So
// callers lose no call.
//
// # What it costs
//
// Per call it reads the clock twice and makes some atomic additions: about 150 ns, and no memory.
// [Fixed] pools measure nothing. During a trial half of the calls get the worse of the two sizes.
// After some minutes of an unchanging load, trials take less than 1 % of the time.
//
// # Errors
//
// Calls return the errors of their channel, and [ErrClosed] after Close. New fails if a first
// channel cannot be opened. If a further one cannot be opened, no call fails: the trial is given
// up, and State and Logger say why.
//
// # Versions
//
// Versions follow semantic versioning. Until 1.0.0 a minor version may change the API, and
// CHANGELOG.md says how. How a pool decides may change with any version.
package chanpool
