package main

import (
	"context"
	"math/rand"
	"time"
)

// regionsMax keeps merges as frequent as splits once there are that many.
const regionsMax = 24

// chaos splits and merges regions and moves their leaders, at keys that commands were about, until it is ended.
func (w *world) chaos(ctx context.Context, seed int64, every time.Duration) {
	random := rand.New(rand.NewSource(seed))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		key := w.seen.pick(random.Intn(1 << 30))
		if key == nil {
			continue
		}
		switch dice := random.Intn(4); {
		case dice < 2:
			_ = w.lead(key, 0)
		case dice == 2 || len(w.regions()) > regionsMax:
			w.merge(key)
		default:
			w.split(key)
		}
	}
}
