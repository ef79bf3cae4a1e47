package main

import (
	"bufio"
	"crypto/tls"
	"net"
	"time"
)

// listen binds an address; one that was left a moment ago may take another.
func listen(addr string, secure *tls.Config) (net.Listener, error) {
	var l net.Listener
	var err error
	for range 50 {
		if l, err = net.Listen("tcp", addr); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil || secure == nil {
		return l, err
	}
	return tls.NewListener(l, secure), nil
}

// byProtocol hands connections that begin as HTTP/2 does ("PRI * ...") to the first listener, the others to the second.
func byProtocol(l net.Listener) (*handed, *handed) {
	h2 := &handed{Listener: l, conns: make(chan net.Conn), closed: make(chan struct{})}
	h1 := &handed{Listener: l, conns: make(chan net.Conn), closed: h2.closed}
	go func() {
		defer close(h2.closed)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				r := bufio.NewReader(c)
				to := h1
				b, err := r.Peek(4)
				if err != nil {
					c.Close()
					return
				}
				if string(b) == "PRI " {
					to = h2
				}
				select {
				case to.conns <- peeked{c, r}:
				case <-to.closed:
					c.Close()
				}
			}()
		}
	}()
	return h2, h1
}

type handed struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }
