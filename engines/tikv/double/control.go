package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

func unhex(s string) []byte {
	b, _ := hex.DecodeString(s)
	return b
}

func (w *world) leading() string {
	w.Lock()
	defer w.Unlock()
	return w.leader
}

// stopChaos ends the chaos that is going on, if any.
var stopChaos context.CancelFunc = func() {}

// control is what PD says by HTTP, and the faults: see ../README.md.
func (w *world) control() http.Handler {
	m := http.NewServeMux()
	show := func(path string, of func() (any, error)) {
		m.HandleFunc("GET "+path, func(out http.ResponseWriter, _ *http.Request) {
			v, err := of()
			if err != nil {
				http.Error(out, err.Error(), http.StatusInternalServerError)
				return
			}
			out.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(out).Encode(v)
		})
	}
	do := func(path string, work func(*http.Request) error) {
		m.HandleFunc("POST "+path, func(out http.ResponseWriter, r *http.Request) {
			if err := work(r); err != nil {
				http.Error(out, err.Error(), http.StatusBadRequest)
			}
		})
	}
	show("/pd/api/v1/stores", func() (any, error) { return w.storeList(), nil })
	show("/dev/locks", func() (any, error) { return w.locks() })
	show("/dev/regions", func() (any, error) { return w.regions(), nil })
	show("/dev/faults", func() (any, error) { return w.faults.snapshot(), nil })
	do("/dev/faults", func(r *http.Request) error {
		f := &fault{}
		if err := json.NewDecoder(r.Body).Decode(f); err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		w.faults.add(f)
		return nil
	})
	m.HandleFunc("DELETE /dev/faults", func(http.ResponseWriter, *http.Request) { w.faults.clear() })
	do("/dev/split", func(r *http.Request) error { w.split(unhex(r.FormValue("key"))); return nil })
	do("/dev/merge", func(r *http.Request) error { w.merge(unhex(r.FormValue("key"))); return nil })
	do("/dev/leader", func(r *http.Request) error { return w.lead(unhex(r.FormValue("key")), number(r, "store")) })
	do("/dev/store", w.controlStore)
	do("/dev/driver", w.controlDriver)
	do("/dev/chaos", func(r *http.Request) error {
		stopChaos()
		every := time.Duration(number(r, "ms")) * time.Millisecond
		if every == 0 {
			return nil
		}
		ctx, stop := context.WithCancel(context.Background())
		stopChaos = stop
		go w.chaos(ctx, int64(number(r, "seed")), every)
		return nil
	})
	return m
}

func number(r *http.Request, name string) uint64 {
	n, _ := strconv.ParseUint(r.FormValue(name), 10, 64)
	return n
}

// controlStore ends or starts a store: id, up=0|1, and with handover=1 others lead what it led.
func (w *world) controlStore(r *http.Request) error {
	s := w.store(number(r, "id"))
	if s == nil {
		return fmt.Errorf("no such store")
	}
	if r.FormValue("up") == "1" {
		return s.start()
	}
	s.stop()
	if r.FormValue("handover") == "1" {
		return w.handOver(s.id)
	}
	return nil
}

// controlDriver ends or starts a placement driver (up=0|1), or makes it the leader (lead=1); the one that is asked can
// only be ended by another, whose answer arrives.
func (w *world) controlDriver(r *http.Request) error {
	d := w.driver(r.FormValue("address"))
	if d == nil {
		return fmt.Errorf("no such driver")
	}
	switch r.FormValue("up") {
	case "0":
		d.stop()
	case "1":
		if err := d.start(); err != nil {
			return err
		}
	}
	if r.FormValue("lead") == "1" {
		w.Lock()
		w.leader = d.addr
		w.Unlock()
	}
	return nil
}

func (w *world) storeList() any {
	leads, holds := map[uint64]int{}, map[uint64]int{}
	for _, r := range w.regions() {
		for _, peer := range r.Meta.Peers {
			holds[peer.StoreId]++
		}
		leads[r.Leader.GetStoreId()]++
	}
	out := []any{}
	for _, s := range w.stores {
		state := "Up"
		if !s.isUp() {
			state = "Down"
		}
		out = append(out, map[string]any{
			"store":  map[string]any{"id": s.id, "address": s.addr, "version": "double", "state_name": state},
			"status": map[string]any{"leader_count": leads[s.id], "region_count": holds[s.id]},
		})
	}
	return map[string]any{"count": len(out), "stores": out}
}

// locks are all that stand, of any transaction.
func (w *world) locks() ([]*kvrpcpb.LockInfo, error) {
	locks, err := w.client.MvccStore.ScanLock(nil, nil, 1<<63)
	if locks == nil {
		locks = []*kvrpcpb.LockInfo{}
	}
	return locks, err
}
