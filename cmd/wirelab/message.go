package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/workload/message"
)

// messageFlags bring a method and a message of the user's own.
type messageFlags struct {
	proto, call string
	imports     []string
	data, reply string
}

func (m *messageFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.proto, "proto", "", "compare with a message of your own: the .proto `file` that has the service")
	f.StringArrayVar(&m.imports, "import-path", nil, "`directory` that --proto and its imports are found in (default: the file's own)")
	f.StringVar(&m.call, "call", "", "unary `method` of --proto, as in shop.v1.Shop/PlaceOrder")
	f.StringVar(&m.data, "data", "", "`file` with the request as JSON")
	f.StringVar(&m.reply, "reply", "", "`file` with the response as JSON (default: the request where both have one type, otherwise an empty message)")
}

// define sets the part's workload to the user's message, and describes it in a
// sentence. Without --proto it does nothing.
func (m *messageFlags) define(part *scenario.Part, workload string) (described string, err error) {
	if m.proto == "" {
		if m.call != "" || m.data != "" || m.reply != "" || len(m.imports) > 0 {
			return "", errors.New("--call, --data, --reply and --import-path say which message of --proto is meant: give --proto as well")
		}
		return "", nil
	}
	if m.call == "" {
		return "", errors.New("--call: which method of --proto is called? as in --call shop.v1.Shop/PlaceOrder")
	}
	if workload != "echo" {
		return "", fmt.Errorf("--workload %s: --proto brings a workload of its own; give one of the two", workload)
	}
	source := message.Source{Proto: m.proto, ImportPaths: m.imports, Call: m.call}
	for _, file := range []struct {
		flag, name string
		into       *[]byte
	}{{"--data", m.data, &source.Request}, {"--reply", m.reply, &source.Response}} {
		if file.name == "" {
			continue
		}
		if *file.into, err = os.ReadFile(file.name); err != nil {
			return "", fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	if part.Definition, err = message.Compile(context.Background(), source); err != nil {
		return "", fmt.Errorf("--proto: %w", err)
	}
	sizes, err := message.SizesOf(part.Definition)
	if err != nil {
		return "", err
	}
	part.Workload = "message:call=" + m.call
	part.Sizes = []scenario.Payload{{Request: scenario.Size(sizes.Request), Response: scenario.Size(sizes.Response)}}
	for _, v := range part.Stacks {
		if err := checkCarries(v, part.Workload); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(" %s: the request has %s, the response %s.", m.call,
		weight(sizes.Request, sizes.RequestJSON, sizes.RequestGzip), weight(sizes.Response, sizes.ResponseJSON, sizes.ResponseGzip)), nil
}

// weight is a message's size in protobuf, in JSON, and compressed.
func weight(encoded, asJSON, compressed int) string {
	if encoded == 0 {
		return fmt.Sprintf("0 bytes (%d as JSON)", asJSON)
	}
	return fmt.Sprintf("%d bytes (%d as JSON, %.2f times; %d through gzip, %.2f times)",
		encoded, asJSON, float64(asJSON)/float64(encoded), compressed, float64(compressed)/float64(encoded))
}
