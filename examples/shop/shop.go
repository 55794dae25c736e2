// Package shop is a small service, as any project may have it. Nothing in it knows of wirelab.
package shop

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/shop/shoppb"
)

// A Server answers for the shop.
type Server struct {
	shoppb.UnimplementedShopServer
	articles map[int64]*shoppb.Article
}

// NewServer returns the server of a shop with two articles.
func NewServer() *Server {
	return &Server{articles: map[int64]*shoppb.Article{
		1: {Id: 1, Name: "cup", Description: strings.Repeat("It holds coffee. ", 20), PriceCents: 890},
		2: {Id: 2, Name: "pot", Description: strings.Repeat("It makes coffee. ", 20), PriceCents: 4550},
	}}
}

// Get returns an article.
func (s *Server) Get(_ context.Context, in *shoppb.GetRequest) (*shoppb.Article, error) {
	article, found := s.articles[in.GetId()]
	if !found {
		return nil, status.Errorf(codes.NotFound, "there is no article %d", in.GetId())
	}
	return article, nil
}

// Order sells articles.
func (s *Server) Order(ctx context.Context, in *shoppb.OrderRequest) (*shoppb.Receipt, error) {
	receipt := &shoppb.Receipt{}
	for _, id := range in.GetIds() {
		article, err := s.Get(ctx, &shoppb.GetRequest{Id: id})
		if err != nil {
			return nil, err
		}
		receipt.TotalCents += article.PriceCents
	}
	return receipt, nil
}
