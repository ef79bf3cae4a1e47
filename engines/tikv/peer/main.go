// The reference client, client-go, doing what bench/tikv has ours do; it prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var (
	pd       = flag.String("pd", "127.0.0.1:2379", "placement drivers, separated by commas")
	op       = flag.String("op", "get", "get, scan or put")
	inFlight = flag.Int("in-flight", 1, "operations at a time")
	seconds  = flag.Float64("seconds", 2, "of measuring, as long goes to warming up")
	keys     = flag.Int("keys", 10000, "keys that are there, bench/00000000 and on")
	page     = flag.Int("page", 1000, "entries of a scan")
)

func keyOf(i int) []byte { return []byte(fmt.Sprintf("bench/%08d", i)) }

func main() {
	flag.Parse()
	c, err := txnkv.NewClient(strings.Split(*pd, ","))
	must(err)
	step := map[string]func(*txnkv.Client, *rand.Rand){"get": get, "scan": scan, "put": put}[*op]
	run(c, step, *seconds)
	before := cpu()
	began := time.Now()
	took := run(c, step, *seconds)
	spent, elapsed := cpu()-before, time.Since(began)
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	micros := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Nanoseconds()) / 1e3
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"perSecond": float64(len(took)) / elapsed.Seconds(),
		"p50":       micros(0.5), "p99": micros(0.99),
		"cpu": spent.Seconds() * 1e6 / float64(len(took)),
	}))
}

func run(c *txnkv.Client, step func(*txnkv.Client, *rand.Rand), seconds float64) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for i := range *inFlight {
		wg.Add(1)
		go func() {
			defer wg.Done()
			random := rand.New(rand.NewSource(int64(i)))
			var took []time.Duration
			for time.Now().Before(until) {
				b := time.Now()
				step(c, random)
				took = append(took, time.Since(b))
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		}()
	}
	wg.Wait()
	return all
}

func get(c *txnkv.Client, random *rand.Rand) {
	_, err := c.GetSnapshot(math.MaxUint64).Get(context.Background(), keyOf(random.Intn(*keys)))
	must(err)
}

func scan(c *txnkv.Client, random *rand.Rand) {
	ts, err := c.CurrentTimestamp("global")
	must(err)
	s := c.GetSnapshot(ts)
	s.SetScanBatchSize(*page)
	it, err := s.Iter(keyOf(random.Intn(*keys-*page)), nil)
	must(err)
	for n := 1; n < *page; n++ {
		must(it.Next())
	}
}

func put(c *txnkv.Client, random *rand.Rand) {
	t, err := c.Begin()
	must(err)
	t.SetPessimistic(true)
	key := []byte(fmt.Sprintf("put/%016x", random.Uint64()))
	must(t.LockKeys(context.Background(), kv.NewLockCtx(t.StartTS(), 5000, time.Now()), key))
	must(t.Set(key, make([]byte, 300)))
	must(t.Commit(context.Background()))
}

func cpu() time.Duration {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
