package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	pdc "github.com/tikv/pd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const clusterID = 7_000_000_000_000_000_001

var driverCommands = map[string]bool{
	"GetMembers": true, "Tso": true, "GetRegion": true, "GetPrevRegion": true, "GetStore": true,
	"UpdateGCSafePoint": true, "UpdateServiceGCSafePoint": true,
}

func isDriverCommand(name string) bool { return driverCommands[name] }

// driver is one placement driver; only the one that leads says more than who does.
type driver struct {
	pdpb.UnimplementedPDServer
	world *world
	addr  string
	grpc  *grpc.Server
	http  *http.Server
}

func (d *driver) start() error {
	l, err := listen(d.addr, d.world.secure)
	if err != nil {
		return err
	}
	h2, h1 := byProtocol(l)
	d.grpc, d.http = grpc.NewServer(), &http.Server{Handler: d.world.control()}
	pdpb.RegisterPDServer(d.grpc, d)
	go func() { _ = d.grpc.Serve(h2) }()
	go func() { _ = d.http.Serve(h1) }()
	return nil
}

// stop ends its connections and refuses new ones.
func (d *driver) stop() {
	d.grpc.Stop()
	_ = d.http.Close()
}

func header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: clusterID} }

func (w *world) member(addr string) *pdpb.Member {
	scheme := "http://"
	if w.secure != nil {
		scheme = "https://"
	}
	for i, d := range w.drivers {
		if d.addr == addr {
			return &pdpb.Member{Name: addr, MemberId: uint64(i + 1), PeerUrls: []string{scheme + addr}, ClientUrls: []string{scheme + addr}}
		}
	}
	return nil
}

func (d *driver) GetMembers(ctx context.Context, _ *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	if err := d.meet(ctx, "GetMembers"); err != nil {
		return nil, err
	}
	var all []*pdpb.Member
	for _, each := range d.world.drivers {
		all = append(all, d.world.member(each.addr))
	}
	leader := d.world.member(d.world.leading())
	return &pdpb.GetMembersResponse{Header: header(), Members: all, Leader: leader, EtcdLeader: leader}, nil
}

// meet applies faults, and refuses what is not for a follower.
func (d *driver) meet(ctx context.Context, command string) error {
	if f := d.world.faults.meet(command, d.addr, nil); f != nil {
		switch f.Kind {
		case delay:
			time.Sleep(time.Duration(f.Ms) * time.Millisecond)
		case drop, lose:
			<-ctx.Done()
			return ctx.Err()
		default:
			return status.Error(codes.Unavailable, "a fault")
		}
	}
	if command != "GetMembers" && d.world.leading() != d.addr {
		return status.Error(codes.Unavailable, "not leader")
	}
	return nil
}

func (d *driver) Tso(stream pdpb.PD_TsoServer) error {
	for {
		q, err := stream.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := d.meet(stream.Context(), "Tso"); err != nil {
			return err
		}
		ts := d.world.clock.draw(int64(q.Count))
		if err := stream.Send(&pdpb.TsoResponse{Header: header(), Count: q.Count, Timestamp: ts}); err != nil {
			return err
		}
	}
}

// region also waits for a change of regions that is under way.
func (d *driver) region(ctx context.Context, command string, find func(context.Context) (*pdc.Region, error)) (*pdpb.GetRegionResponse, error) {
	if err := d.meet(ctx, command); err != nil {
		return nil, err
	}
	d.world.Lock()
	defer d.world.Unlock()
	r, err := find(ctx)
	if err != nil || r == nil || r.Meta == nil {
		return &pdpb.GetRegionResponse{Header: header()}, err
	}
	return &pdpb.GetRegionResponse{Header: header(), Region: r.Meta, Leader: r.Leader}, nil
}
func (d *driver) GetRegion(ctx context.Context, q *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return d.region(ctx, "GetRegion", func(ctx context.Context) (*pdc.Region, error) { return d.world.pd.GetRegion(ctx, q.RegionKey) })
}
func (d *driver) GetPrevRegion(ctx context.Context, q *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return d.region(ctx, "GetPrevRegion", func(ctx context.Context) (*pdc.Region, error) {
		return d.world.pd.GetPrevRegion(ctx, q.RegionKey)
	})
}

func (d *driver) GetStore(ctx context.Context, q *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	if err := d.meet(ctx, "GetStore"); err != nil {
		return nil, err
	}
	if s := d.world.cluster.GetStore(q.StoreId); s != nil {
		return &pdpb.GetStoreResponse{Header: header(), Store: s}, nil
	}
	h := header()
	h.Error = &pdpb.Error{Type: pdpb.ErrorType_UNKNOWN, Message: "no such store"}
	return &pdpb.GetStoreResponse{Header: h}, nil
}

func (d *driver) UpdateGCSafePoint(ctx context.Context, q *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	if err := d.meet(ctx, "UpdateGCSafePoint"); err != nil {
		return nil, err
	}
	n, err := d.world.pd.UpdateGCSafePoint(ctx, q.SafePoint)
	return &pdpb.UpdateGCSafePointResponse{Header: header(), NewSafePoint: n}, err
}

func (d *driver) UpdateServiceGCSafePoint(ctx context.Context, q *pdpb.UpdateServiceGCSafePointRequest) (*pdpb.UpdateServiceGCSafePointResponse, error) {
	if err := d.meet(ctx, "UpdateServiceGCSafePoint"); err != nil {
		return nil, err
	}
	n, err := d.world.pd.UpdateServiceGCSafePoint(ctx, string(q.ServiceId), q.TTL, q.SafePoint)
	return &pdpb.UpdateServiceGCSafePointResponse{Header: header(), ServiceId: q.ServiceId, TTL: q.TTL, MinSafePoint: n}, err
}
