package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/tikvrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const messageBytesMax = 64 << 20

// store serves one address; commands come over BatchCommands, as every client of today sends them.
type store struct {
	tikvpb.UnimplementedTikvServer
	world *world
	id    uint64
	addr  string

	mu     sync.Mutex
	server *grpc.Server
}

func (s *store) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	l, err := listen(s.addr, s.world.secure)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(messageBytesMax), grpc.MaxSendMsgSize(messageBytesMax))
	tikvpb.RegisterTikvServer(server, s)
	s.server = server
	go func() { _ = server.Serve(l) }()
	return nil
}

// stop ends its connections and refuses new ones.
func (s *store) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		s.server.Stop()
		s.server = nil
	}
}

func (s *store) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server != nil
}

// errCut ends a stream, answered or not.
var errCut = status.Error(codes.Unavailable, "a fault")

func (s *store) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	out := make(chan *tikvpb.BatchCommandsResponse, 256)
	go func() {
		for {
			select {
			case m := <-out:
				if stream.Send(gather(m, out)) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		for {
			in, err := stream.Recv()
			if err != nil {
				end(err)
				return
			}
			for i, rq := range in.Requests {
				go s.serve(ctx, end, in.RequestIds[i], rq, out)
			}
		}
	}()
	<-ctx.Done()
	if err := context.Cause(ctx); err != io.EOF {
		return err
	}
	return nil
}

// gather adds what else is ready to be told, as TiKV does.
func gather(m *tikvpb.BatchCommandsResponse, out <-chan *tikvpb.BatchCommandsResponse) *tikvpb.BatchCommandsResponse {
	for len(m.RequestIds) < 128 {
		select {
		case more := <-out:
			m.RequestIds = append(m.RequestIds, more.RequestIds...)
			m.Responses = append(m.Responses, more.Responses...)
		default:
			return m
		}
	}
	return m
}

func (s *store) serve(ctx context.Context, end context.CancelCauseFunc, id uint64, rq *tikvpb.BatchCommandsRequest_Request, out chan<- *tikvpb.BatchCommandsResponse) {
	c, ok := commandOf(rq)
	if !ok {
		end(status.Errorf(codes.Unimplemented, "%T", rq.Cmd))
		return
	}
	f := s.world.faults.meet(c.name, s.addr, c.keys)
	answer, isAnswered := s.withFault(ctx, c, f)
	if f != nil && (f.Kind == cut || f.Kind == cutBefore) {
		end(errCut)
	}
	if !isAnswered {
		return
	}
	select {
	case out <- &tikvpb.BatchCommandsResponse{RequestIds: []uint64{id}, Responses: []*tikvpb.BatchCommandsResponse_Response{answer}}:
	case <-ctx.Done():
	}
}

func (s *store) withFault(ctx context.Context, c command, f *fault) (*tikvpb.BatchCommandsResponse_Response, bool) {
	if f == nil {
		return c.answer(s.run(ctx, c)), true
	}
	if e := regionErrors[f.Kind]; e != nil {
		return c.answer(refused(c.request, e(c.request.RegionId))), true
	}
	switch f.Kind {
	case delay:
		time.Sleep(time.Duration(f.Ms) * time.Millisecond)
		return c.answer(s.run(ctx, c)), true
	case drop, cutBefore:
		return nil, false
	case twoPhase:
		if q, ok := c.request.Req.(*kvrpcpb.PrewriteRequest); ok {
			q.TryOnePc = false
		}
	case lose, cut:
		s.run(ctx, c)
		return nil, false
	}
	return c.answer(s.run(ctx, c)), true
}

// run executes a command. A lock is waited for here, as TiKV does; the test store would wait holding its one mutex.
func (s *store) run(ctx context.Context, c command) *tikvrpc.Response {
	if len(c.keys) > 0 {
		s.world.seen.add(c.keys[0])
	}
	if q, ok := c.request.Req.(*kvrpcpb.PrewriteRequest); ok && q.TryOnePc {
		return s.commitAtOnce(ctx, c)
	}
	lock, isLock := c.request.Req.(*kvrpcpb.PessimisticLockRequest)
	if !isLock {
		return c.mend(s.once(ctx, c.request))
	}
	until := time.Now().Add(waitOf(lock))
	lock.WaitTimeout = -1
	// Each try takes the one mutex of the test store: many waiters must not take the time of those who hold locks.
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r := s.once(ctx, c.request)
		answer := r.Resp.(*kvrpcpb.PessimisticLockResponse)
		if len(answer.Errors) == 0 || answer.Errors[0].Locked == nil || time.Now().After(until) || ctx.Err() != nil {
			return r
		}
		time.Sleep(pause)
	}
}

func waitOf(q *kvrpcpb.PessimisticLockRequest) time.Duration {
	wait := time.Duration(q.WaitTimeout) * time.Millisecond
	if q.WaitTimeout == 0 || wait > time.Second {
		return time.Second
	}
	return wait
}

// once runs a command on the test store, whose panic over a key that lies elsewhere is a region error.
func (s *store) once(ctx context.Context, q *tikvrpc.Request) (r *tikvrpc.Response) {
	defer func() {
		if p := recover(); p != nil {
			r = refused(q, &errorpb.Error{Message: fmt.Sprint(p), KeyNotInRegion: &errorpb.KeyNotInRegion{RegionId: q.RegionId}})
		}
	}()
	r, err := s.world.client.SendRequest(ctx, s.addr, q, time.Minute)
	if err != nil {
		return refused(q, &errorpb.Error{Message: err.Error(), StaleCommand: &errorpb.StaleCommand{}})
	}
	return r
}

func refused(q *tikvrpc.Request, e *errorpb.Error) *tikvrpc.Response {
	r, err := tikvrpc.GenRegionErrorResp(q, e)
	must(err)
	return r
}
