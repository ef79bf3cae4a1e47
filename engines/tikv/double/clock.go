package main

import (
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
)

const logicalMax = 1 << 18

// clock is the one that all placement drivers draw timestamps from.
type clock struct {
	sync.Mutex
	physical, logical int64
}

// draw gives the last of n timestamps in a row.
func (c *clock) draw(n int64) *pdpb.Timestamp {
	c.Lock()
	defer c.Unlock()
	if now := time.Now().UnixMilli(); now > c.physical {
		c.physical, c.logical = now, 0
	}
	if c.logical+n >= logicalMax {
		c.physical, c.logical = c.physical+1, 0
	}
	c.logical += n
	return &pdpb.Timestamp{Physical: c.physical, Logical: c.logical}
}
