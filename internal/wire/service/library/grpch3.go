package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/call/wire"
)

// callGRPC makes a call of gRPC as a request of HTTP.
func (c *httpClient) callGRPC(ctx context.Context, request *service.Request, answer *service.Answer) error {
	var body []byte
	for _, m := range request.Messages {
		body = wire.AppendMessage(body, m)
	}
	sent, err := c.request(ctx, request, bytes.NewReader(body))
	if err != nil {
		return err
	}
	sent.Header.Set("Content-Type", "application/grpc")
	sent.Header.Set("Te", "trailers")
	response, err := c.Do(sent)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	c.plan.Dialer.UsedProtocol(fmt.Sprintf("h%d", response.ProtoMajor))
	*answer = service.Answer{Body: answer.Body[:0]}
	if response.StatusCode != http.StatusOK {
		return failure.As(failure.Application, fmt.Errorf("an answer of HTTP with status %d, and not of gRPC", response.StatusCode))
	}
	if err := readMessages(response.Body, answer); err != nil {
		return err
	}
	if c.plan.Keep {
		answer.Header = response.Header.Clone()
		for name, values := range response.Trailer {
			answer.Header[name] = append(answer.Header[name], values...)
		}
	}
	return readStatus(response, answer)
}

// readMessages reads an answer's messages, and keeps the last one.
func readMessages(from io.Reader, answer *service.Answer) error {
	for {
		_, length, err := wire.ReadPrefix(from)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if length > mostKept {
			return fmt.Errorf("a message of %d bytes: at most %d are read", length, mostKept)
		}
		message := bytes.NewBuffer(answer.Body[:0])
		if _, err := io.CopyN(message, from, int64(length)); err != nil {
			return fmt.Errorf("the answer ended within a message: %w", err)
		}
		answer.Body = message.Bytes()
		answer.Messages++
		answer.Bytes += int64(length)
	}
}

// readStatus reads the status from the trailers, or from a header that is the whole answer.
func readStatus(response *http.Response, answer *service.Answer) error {
	fields := response.Trailer
	if fields.Get("Grpc-Status") == "" {
		fields = response.Header
	}
	code, err := strconv.Atoi(fields.Get("Grpc-Status"))
	if err != nil {
		return fmt.Errorf("the answer has the status %q, which is none of gRPC", fields.Get("Grpc-Status"))
	}
	answer.Status = code
	if codes.Code(code) != codes.OK {
		answer.Message = wire.DecodeStatusMessage(fields.Get("Grpc-Message"))
	}
	return nil
}
