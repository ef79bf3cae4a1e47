package main

import (
	"bytes"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/tikvrpc"
)

type answered = tikvpb.BatchCommandsResponse_Response

// command is one request out of a batch.
type command struct {
	name    string
	request *tikvrpc.Request
	keys    [][]byte
	// Wraps an answer for the batch.
	answer func(*tikvrpc.Response) *answered
}

func commandOf(rq *tikvpb.BatchCommandsRequest_Request) (command, bool) {
	of := func(name string, typ tikvrpc.CmdType, q interface{}, c *kvrpcpb.Context, keys ...[]byte) command {
		if c == nil {
			c = &kvrpcpb.Context{}
		}
		return command{name: name, request: &tikvrpc.Request{Type: typ, Req: q, Context: *c}, keys: keys, answer: wrap}
	}
	switch c := rq.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		return of("Get", tikvrpc.CmdGet, c.Get, c.Get.Context, c.Get.Key), true
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		return of("BatchGet", tikvrpc.CmdBatchGet, c.BatchGet, c.BatchGet.Context, c.BatchGet.Keys...), true
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		return of("Scan", tikvrpc.CmdScan, c.Scan, c.Scan.Context, c.Scan.StartKey), true
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		return of("Prewrite", tikvrpc.CmdPrewrite, c.Prewrite, c.Prewrite.Context, keysOf(c.Prewrite.Mutations)...), true
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		return of("Commit", tikvrpc.CmdCommit, c.Commit, c.Commit.Context, c.Commit.Keys...), true
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		q := c.PessimisticLock
		return of("PessimisticLock", tikvrpc.CmdPessimisticLock, q, q.Context, keysOf(q.Mutations)...), true
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		q := c.PessimisticRollback
		return of("PessimisticRollback", tikvrpc.CmdPessimisticRollback, q, q.Context, q.Keys...), true
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		q := c.CheckTxnStatus
		return of("CheckTxnStatus", tikvrpc.CmdCheckTxnStatus, q, q.Context, q.PrimaryKey), true
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		q := c.TxnHeartBeat
		return of("TxnHeartBeat", tikvrpc.CmdTxnHeartBeat, q, q.Context, q.PrimaryLock), true
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		q := c.BatchRollback
		return of("BatchRollback", tikvrpc.CmdBatchRollback, q, q.Context, q.Keys...), true
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		q := c.ResolveLock
		return of("ResolveLock", tikvrpc.CmdResolveLock, q, q.Context, q.Keys...), true
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		q := c.ScanLock
		return of("ScanLock", tikvrpc.CmdScanLock, q, q.Context, q.StartKey), true
	}
	return command{}, false
}

func keysOf(mutations []*kvrpcpb.Mutation) [][]byte {
	var keys [][]byte
	for _, m := range mutations {
		keys = append(keys, m.Key)
	}
	return keys
}

func wrap(r *tikvrpc.Response) *answered {
	switch x := r.Resp.(type) {
	case *kvrpcpb.GetResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_Get{Get: x}}
	case *kvrpcpb.BatchGetResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_BatchGet{BatchGet: x}}
	case *kvrpcpb.ScanResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_Scan{Scan: x}}
	case *kvrpcpb.PrewriteResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_Prewrite{Prewrite: x}}
	case *kvrpcpb.CommitResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_Commit{Commit: x}}
	case *kvrpcpb.PessimisticLockResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_PessimisticLock{PessimisticLock: x}}
	case *kvrpcpb.PessimisticRollbackResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_PessimisticRollback{PessimisticRollback: x}}
	case *kvrpcpb.CheckTxnStatusResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_CheckTxnStatus{CheckTxnStatus: x}}
	case *kvrpcpb.TxnHeartBeatResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_TxnHeartBeat{TxnHeartBeat: x}}
	case *kvrpcpb.BatchRollbackResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_BatchRollback{BatchRollback: x}}
	case *kvrpcpb.ResolveLockResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_ResolveLock{ResolveLock: x}}
	case *kvrpcpb.ScanLockResponse:
		return &answered{Cmd: &tikvpb.BatchCommandsResponse_Response_ScanLock{ScanLock: x}}
	}
	return nil
}

// mend makes of the test store's answer what TiKV's would be.
func (c command) mend(r *tikvrpc.Response) *tikvrpc.Response {
	switch x := r.Resp.(type) {
	case *kvrpcpb.GetResponse:
		x.NotFound = x.Error == nil && x.RegionError == nil && len(x.Value) == 0
	case *kvrpcpb.ScanResponse:
		if c.request.Req.(*kvrpcpb.ScanRequest).KeyOnly {
			for _, p := range x.Pairs {
				p.Value = nil
			}
		}
	case *kvrpcpb.ScanLockResponse:
		q := c.request.Req.(*kvrpcpb.ScanLockRequest)
		kept := x.Locks[:0]
		for _, l := range x.Locks {
			isInside := bytes.Compare(l.Key, q.StartKey) >= 0 && (len(q.EndKey) == 0 || bytes.Compare(l.Key, q.EndKey) < 0)
			if isInside && (q.Limit == 0 || uint32(len(kept)) < q.Limit) {
				kept = append(kept, l)
			}
		}
		x.Locks = kept
	}
	return r
}
