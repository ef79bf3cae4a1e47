package main

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/pingcap/kvproto/pkg/errorpb"
)

// fault is something that happens to commands instead of, before or after being served.
type fault struct {
	// The command that it happens to, as BatchCommands or PD's service name it; "" is any of a store's.
	Command string `json:"command"`
	// What happens; see README.md.
	Kind string `json:"kind"`
	// Only commands about this key, in hex; "" is any.
	Key string `json:"key"`
	// Only at this address; "" is any.
	Address string `json:"address"`
	Ms      int    `json:"ms"`
	// So many commands pass before it begins to happen.
	Skip int `json:"skip"`
	// How often it happens; 0 means until it is taken away.
	Count int `json:"count"`
	// How often it has happened.
	Hits int `json:"hits"`
}

const (
	delay     = "delay"
	drop      = "drop"
	lose      = "lose"
	cut       = "cut"
	cutBefore = "cut-before"
	refuse    = "refuse"
	twoPhase  = "two-phase"
)

// regionErrors are the refusals of a store that does not serve a region as the client believes.
var regionErrors = map[string]func(region uint64) *errorpb.Error{
	"not-leader":      func(id uint64) *errorpb.Error { return &errorpb.Error{NotLeader: &errorpb.NotLeader{RegionId: id}} },
	"epoch-not-match": func(uint64) *errorpb.Error { return &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}} },
	"region-not-found": func(id uint64) *errorpb.Error {
		return &errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: id}}
	},
	"key-not-in-region": func(id uint64) *errorpb.Error {
		return &errorpb.Error{KeyNotInRegion: &errorpb.KeyNotInRegion{RegionId: id}}
	},
	"server-is-busy": func(uint64) *errorpb.Error {
		return &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{Reason: "a fault"}}
	},
	"stale-command":   func(uint64) *errorpb.Error { return &errorpb.Error{StaleCommand: &errorpb.StaleCommand{}} },
	"store-not-match": func(uint64) *errorpb.Error { return &errorpb.Error{StoreNotMatch: &errorpb.StoreNotMatch{}} },
	"merging": func(id uint64) *errorpb.Error {
		return &errorpb.Error{ProposalInMergingMode: &errorpb.ProposalInMergingMode{RegionId: id}}
	},
	"not-synced": func(uint64) *errorpb.Error {
		return &errorpb.Error{MaxTimestampNotSynced: &errorpb.MaxTimestampNotSynced{}}
	},
}

func (f *fault) check() error {
	if _, ok := regionErrors[f.Kind]; !ok && !slices.Contains([]string{delay, drop, lose, cut, cutBefore, refuse, twoPhase}, f.Kind) {
		return fmt.Errorf("%q is no kind of fault", f.Kind)
	}
	return nil
}

type faults struct {
	sync.Mutex
	list []*fault
}

func (fs *faults) add(f *fault) {
	fs.Lock()
	defer fs.Unlock()
	fs.list = append(fs.list, f)
}

func (fs *faults) clear() {
	fs.Lock()
	defer fs.Unlock()
	fs.list = nil
}

func (fs *faults) snapshot() []fault {
	fs.Lock()
	defer fs.Unlock()
	out := []fault{}
	for _, f := range fs.list {
		out = append(out, *f)
	}
	return out
}

// meet gives the fault that a command runs into, if any; the first that fits counts.
func (fs *faults) meet(command, address string, keys [][]byte) *fault {
	fs.Lock()
	defer fs.Unlock()
	for _, f := range fs.list {
		if !f.fits(command, address, keys) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Count > 0 && f.Hits >= f.Count {
			continue
		}
		f.Hits++
		met := *f
		return &met
	}
	return nil
}

func (f *fault) fits(command, address string, keys [][]byte) bool {
	if f.Command != command && (f.Command != "" || isDriverCommand(command)) {
		return false
	}
	if f.Address != "" && f.Address != address {
		return false
	}
	if f.Key == "" {
		return true
	}
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, unhex(f.Key)) })
}
