// real PD server + unistore (TiKV-protocol server) in one process, both from Go modules
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	plog "github.com/pingcap/log"
	uconf "github.com/pingcap/tidb/store/mockstore/unistore/config"
	upd "github.com/pingcap/tidb/store/mockstore/unistore/pd"
	userver "github.com/pingcap/tidb/store/mockstore/unistore/server"
	"github.com/tikv/pd/server"
	"github.com/tikv/pd/server/api"
	"github.com/tikv/pd/server/config"
	_ "github.com/tikv/pd/server/schedulers"
	"google.golang.org/grpc"
)

func must(err error) {
	if err != nil {
		log.Fatalf("%+v", err)
	}
}

func main() {
	pd := flag.String("pd", "127.0.0.1:2379", "where the placement driver listens, gRPC and HTTP")
	peer := flag.String("peer", "127.0.0.1:2380", "where it listens to others of its kind")
	storeAddr := flag.String("store", "127.0.0.1:20160", "where the store listens")
	dataDir := flag.String("data", "", "data directory")
	flag.Parse()
	store, data := *storeAddr, *dataDir
	cfg := config.NewConfig()
	must(cfg.Parse([]string{"--name=pd", "--data-dir=" + data + "/pd", "--client-urls=http://" + *pd, "--peer-urls=http://" + *peer, "-L=warn"}))
	must(cfg.SetupLogger())
	plog.ReplaceGlobals(cfg.GetZapLogger(), cfg.GetZapLogProperties())
	ctx, cancel := context.WithCancel(context.Background())
	svr, err := server.CreateServer(ctx, cfg, api.NewHandler)
	must(err)
	must(svr.Run())
	cli, err := upd.NewClient(strings.Split(*pd, ","), "")
	must(err)
	c := uconf.DefaultConf
	c.Server.StoreAddr, c.Server.PDAddr, c.Server.Raft = store, *pd, false
	c.Engine.DBPath = data + "/kv"
	must(os.MkdirAll(c.Engine.DBPath+"/kv", 0o755))
	kv, err := userver.New(&c, cli)
	must(err)
	gs := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	serving := &fixed{Server: kv}
	tikvpb.RegisterTikvServer(gs, serving)
	l, err := net.Listen("tcp", store)
	must(err)
	go func() { must(gs.Serve(l)) }()
	// PD turns profiles of mutexes on; to unwind the stacks for them, today's Go trusts frame pointers that its old code does not keep.
	runtime.SetMutexProfileFraction(0)
	runtime.SetBlockProfileRate(0)
	log.Print("ready")
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR2)
	if <-ch == syscall.SIGUSR2 {
		serving.dieBetweenTransactions()
	}
	gs.Stop()
	kv.Stop()
	cancel()
	time.Sleep(100 * time.Millisecond)
	svr.Close()
	os.Exit(0)
}
