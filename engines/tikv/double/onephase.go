package main

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// commitAtOnce prewrites and commits, which the test store does not know: one after the other. What keeps the commit away
// leaves the keys prewritten, for the client to commit.
func (s *store) commitAtOnce(ctx context.Context, c command) *tikvrpc.Response {
	q := c.request.Req.(*kvrpcpb.PrewriteRequest)
	q.TryOnePc = false
	r := s.once(ctx, c.request)
	answer := r.Resp.(*kvrpcpb.PrewriteResponse)
	if answer.RegionError != nil || len(answer.Errors) > 0 {
		return r
	}
	for {
		now := s.world.clock.draw(1)
		at := max(uint64(now.Physical)<<18+uint64(now.Logical), q.MinCommitTs)
		commit := &kvrpcpb.CommitRequest{Context: q.Context, StartVersion: q.StartVersion, Keys: c.keys, CommitVersion: at}
		committed := s.once(ctx, &tikvrpc.Request{Type: tikvrpc.CmdCommit, Req: commit, Context: c.request.Context}).Resp.(*kvrpcpb.CommitResponse)
		if committed.RegionError == nil && committed.Error == nil {
			answer.OnePcCommitTs = at
			return r
		}
		// A reader went by in between: once more, behind it.
		if committed.RegionError != nil || committed.Error.CommitTsExpired == nil {
			return r
		}
	}
}
