package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"sort"
	"sync"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/testutils"
	pdc "github.com/tikv/pd/client"
)

// world is the cluster and what may be done to it. Its lock is held while regions change or are listed: the test store
// guards its map of regions only against itself.
type world struct {
	sync.Mutex
	client  *testutils.MockClient
	cluster *testutils.MockCluster
	pd      pdc.Client
	faults  *faults
	secure  *tls.Config
	clock   clock

	drivers []*driver
	stores  []*store
	// The address of the placement driver that leads.
	leader string
	seen   seenKeys
}

func (w *world) bootstrap(drivers, stores []string) {
	ids := w.cluster.AllocIDs(len(stores))
	for i, addr := range stores {
		w.cluster.AddStore(ids[i], addr)
	}
	peers := w.cluster.AllocIDs(len(stores))
	w.cluster.Bootstrap(w.cluster.AllocID(), ids, peers, peers[0])
	w.leader = drivers[0]
	for i, addr := range stores {
		s := &store{world: w, id: ids[i], addr: addr}
		w.stores = append(w.stores, s)
		must(s.start())
	}
	for _, addr := range drivers {
		d := &driver{world: w, addr: addr}
		w.drivers = append(w.drivers, d)
		must(d.start())
	}
}

// split makes a region begin at a key; one that does already stays as it is.
func (w *world) split(key []byte) {
	w.Lock()
	defer w.Unlock()
	encoded := encodeKey(key)
	region, leader, _ := w.cluster.GetRegionByKey(encoded)
	if region == nil || bytes.Equal(region.StartKey, encoded) {
		return
	}
	peers := w.cluster.AllocIDs(len(region.Peers))
	lead := peers[0]
	for i, peer := range region.Peers {
		if leader != nil && peer.StoreId == leader.StoreId {
			lead = peers[i]
		}
	}
	w.cluster.SplitRaw(region.Id, w.cluster.AllocID(), encoded, peers, lead)
}

// merge lets the region of a key swallow the next one.
func (w *world) merge(key []byte) {
	w.Lock()
	defer w.Unlock()
	region, _, _ := w.cluster.GetRegionByKey(encodeKey(key))
	if region == nil || len(region.EndKey) == 0 {
		return
	}
	if next, _, _ := w.cluster.GetRegionByKey(region.EndKey); next != nil {
		w.cluster.Merge(region.Id, next.Id)
	}
}

// lead moves the leader of a key's region to a store, or with 0 to the next one that is up.
func (w *world) lead(key []byte, storeID uint64) error {
	w.Lock()
	defer w.Unlock()
	region, leader, _ := w.cluster.GetRegionByKey(encodeKey(key))
	if region == nil {
		return fmt.Errorf("no region has this key")
	}
	return w.leadRegion(region, leader, storeID)
}

func (w *world) leadRegion(region *metapb.Region, leader *metapb.Peer, storeID uint64) error {
	at := 0
	for i, peer := range region.Peers {
		if leader != nil && peer.Id == leader.Id {
			at = i
		}
	}
	for i := 1; i <= len(region.Peers); i++ {
		peer := region.Peers[(at+i)%len(region.Peers)]
		if peer.StoreId == storeID || (storeID == 0 && w.store(peer.StoreId).isUp()) {
			w.cluster.ChangeLeader(region.Id, peer.Id)
			return nil
		}
	}
	return fmt.Errorf("store %d has no peer of region %d that could lead", storeID, region.Id)
}

// handOver gives what a store leads to others, as an election does when it is gone.
func (w *world) handOver(storeID uint64) error {
	for _, r := range w.regions() {
		if r.Leader == nil || r.Leader.StoreId != storeID {
			continue
		}
		w.Lock()
		err := w.leadRegion(r.Meta, r.Leader, 0)
		w.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// regions are all of them in key order, as they are now.
func (w *world) regions() []*pdc.Region {
	w.Lock()
	defer w.Unlock()
	rs := w.cluster.ScanRegions(nil, nil, 0)
	sort.Slice(rs, func(i, j int) bool { return bytes.Compare(rs[i].Meta.StartKey, rs[j].Meta.StartKey) < 0 })
	return rs
}

func (w *world) store(id uint64) *store {
	for _, s := range w.stores {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (w *world) driver(addr string) *driver {
	for _, d := range w.drivers {
		if d.addr == addr {
			return d
		}
	}
	return nil
}

// encodeKey is TiKV's memcomparable encoding: groups of eight bytes, each followed by how many of them count.
func encodeKey(k []byte) []byte {
	var o []byte
	for i := 0; i <= len(k); i += 8 {
		n := min(8, len(k)-i)
		o = append(o, k[i:i+n]...)
		o = append(o, make([]byte, 8-n)...)
		o = append(o, byte(0xff-(8-n)))
	}
	return o
}

// seenKeys remembers some keys that commands were about: where random splits are worth their while.
type seenKeys struct {
	sync.Mutex
	keys [1024][]byte
	n    int
}

func (s *seenKeys) add(key []byte) {
	s.Lock()
	defer s.Unlock()
	s.keys[s.n%len(s.keys)] = bytes.Clone(key)
	s.n++
}

func (s *seenKeys) pick(random int) []byte {
	s.Lock()
	defer s.Unlock()
	if s.n == 0 {
		return nil
	}
	return s.keys[random%min(s.n, len(s.keys))]
}
